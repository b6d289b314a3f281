"""One table on one executor: the open query of the buckets that it owns, always at some snapshot.

An update asks the address server what changed and brings the query there: the files of changed
buckets are built, then the query swaps to them at once, so a lookup sees one snapshot. With another
generation or schema the table is opened again beside the old query, which answers until the new one
is ready; it is closed when its last lookup has ended. Lookup files have the names of data files, so
the new query finds those of the old one, and an executor that was killed those of its predecessor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidelake.engine.lookup import (
    BucketChange,
    FileChanges,
    LocalTableQuery,
    LookupStats,
    QueriedBucket,
)
from tidelake.engine.metadata import BucketId, Snapshot
from tidelake.engine.scan import Split, split_from_bytes
from tidelake.engine.storage import FileIO
from tidelake.engine.streams import table_identity
from tidelake.engine.tables import Catalog, Table
from tidelake.engine.write import DataFileMeta
from tidelake.errors import ConflictError, NotFoundError
from tidelake.options import declared
from tidelake.service.address.messages import version_from
from tidelake.service.address.ownership import Ownership
from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.address.snapshot_scanner import TableVersion, served_table
from tidelake.service.executor.meter import Meter
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.ownership import ANY_BUCKET
from tidelake.service.protocol.packed_columns import is_packable
from tidelake.service.protocol.packed_values import PLAIN, RowReader
from tidelake.service.protocol.reasons import Reason
from tidelake.types import DataField, DataType, TableSchema

KnownSlices = dict[tuple[bytes, int, int], BucketId]
"""Partition, bucket and number of buckets of a slice that this executor may answer."""
FORMS_MAX = 256
WAITERS_MAX = 32
"""Calls that wait for a snapshot at once; they hold threads."""


@dataclass(frozen=True)
class AnswerForm:
    """The columns of an answer."""

    names: tuple[str, ...]
    types: tuple[DataType, ...]

    @cached_property
    def is_packable(self) -> bool:
        """Whether all have a packed form."""
        return all(map(is_packable, self.types))


@dataclass(eq=False)
class OpenTable:
    """A table as it is in one generation, by one schema.

    Parameters
    ----------
    identity : str
        Tells the table from one that was made anew under its name.
    first_generation : int
        The oldest generation that is known to be of this very table.
    counts : dict of int to (mapping of bytes to int)
        By snapshot: the number of buckets of the partitions whose number is not the table's. It has
        the snapshot that the query is at, and during a swap the next one too.
    is_old : bool
        Whether another one has its place: the last user closes it.
    """

    table: Table
    query: LocalTableQuery
    owns: Ownership
    generation: int
    identity: str
    first_generation: int
    counts: dict[int, Mapping[bytes, int]] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    own: set[BucketId] = field(default_factory=set)
    users: int = 0
    is_old: bool = False
    _forms: dict[tuple[str, ...], AnswerForm] = field(default_factory=dict)
    _known: tuple[Mapping[bytes, int] | None, KnownSlices] = (None, {})

    @property
    def schema(self) -> TableSchema:
        """The schema that answers have."""
        return self.table.table_schema

    @property
    def version(self) -> TableVersion:
        """Where it is."""
        return self.version_at(self.query.snapshot_id)

    def version_at(self, snapshot_id: int | None) -> TableVersion:
        """The version of an answer."""
        return TableVersion(self.generation, snapshot_id or 0, self.schema.id)

    @cached_property
    def key_reader(self) -> RowReader | None:
        """Reads single keys; None where their values are not those of Arrow's memory."""
        fields = self.key_fields
        return RowReader(fields) if all(f.type.root in PLAIN for f in fields) else None

    def form_of(self, names: tuple[str, ...]) -> AnswerForm | None:
        """The form of answers with these columns, once it is known."""
        return self._forms.get(names)

    def keep_form(self, names: tuple[str, ...], form: AnswerForm) -> None:
        """Know a form from now on."""
        if len(self._forms) < FORMS_MAX:
            self._forms[names] = form

    def known_slices(self, counts: Mapping[bytes, int]) -> KnownSlices:
        """The slices that were checked against these counts, to add others."""
        known_of, known = self._known
        if known_of is not counts:
            known = {}
            self._known = (counts, known)
        return known

    @property
    def key_fields(self) -> list[DataField]:
        """The columns of a key."""
        return [self.schema.field(name) for name in self.schema.primary_keys]

    def apply(self, snapshot_id: int, reply: pb.ChangesReply) -> None:
        """Bring the query to a snapshot."""
        counts = {c.partition: c.buckets for c in reply.changes if c.bucket == ANY_BUCKET}
        # another dict, and not a change of this one: lookups read it meanwhile
        self.counts = {**self.counts, snapshot_id: counts}
        try:
            self._swap(snapshot_id, reply)
        finally:
            at = self.query.snapshot_id or 0
            self.counts = {id: kept for id, kept in self.counts.items() if id == at}

    def _swap(self, snapshot_id: int, reply: pb.ChangesReply) -> None:
        if not snapshot_id:
            self.query.refresh()
            return
        snapshot = self.table.handle.snapshots.load(snapshot_id)
        changes = tuple(map(_bucket_change, (c for c in reply.changes if c.bucket != ANY_BUCKET)))
        base = None if reply.whole else self.snapshot
        self.query.apply(FileChanges(base, snapshot, changes))
        self.snapshot = snapshot
        own = set() if reply.whole else self.own
        gone = {c.bucket_id for c in changes if c.after is None}
        self.own = (own | {c.bucket_id for c in changes}) - gone

    @property
    def default_buckets(self) -> int:
        """How many buckets a partition has that counts do not name."""
        count: int = self.table.options.get(declared.BUCKET)
        return count

    @property
    def buckets(self) -> Mapping[bytes, int]:
        """The counts of the snapshot that it is at."""
        return self.counts.get(self.query.snapshot_id or 0, {})

    @property
    def buckets_count(self) -> int:
        """How many buckets with files it owns."""
        return len(self.own)

    def has_keys_of(self, version: TableVersion) -> bool:
        """Whether keys have the columns, and the way to a bucket, that they have in a version.

        A table that was made anew counts its schemas from 0 again, so the ids of a generation that
        may be another table's say nothing.
        """
        if 0 < version.generation < self.first_generation:
            return False
        schema_id = version.schema
        if schema_id == self.schema.id:
            return True
        try:
            other = self.table.handle.schemas.load(schema_id)
        except NotFoundError:
            return False
        return [f.type for f in self.key_fields] == [
            other.field(name).type for name in other.primary_keys
        ]


class _Use:
    """A use of a table that has begun."""

    __slots__ = ("_opened", "_table")

    def __init__(self, table: OwnedTable, opened: OpenTable) -> None:
        self._table = table
        self._opened = opened

    def __enter__(self) -> OpenTable:
        return self._opened

    def __exit__(self, *error: object) -> None:
        self._table.leave(self._opened)


class OwnedTable:
    """Keeps one table open; threads share it."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        *,
        index: int,
        executors_count: int,
        directory: str | None,
    ) -> None:
        self.name = name
        self._now = catalog.env.clock.monotonic_seconds
        self.meter = Meter(self._now)
        self.problem = ""
        self.location: str | None = None
        """The table's directory, once the address server has said it."""
        self.since = TableVersion()
        """The version that changes may begin at; none, so that all are asked for, unless the last
        update of this very object went well."""
        self._catalog = catalog
        self._place = (index, executors_count)
        self._directory = directory
        self._changed = threading.Condition()
        self._open: OpenTable | None = None
        self._waiters = 0
        self._is_closed = False

    @property
    def version(self) -> TableVersion | None:
        """Where it is; None before it is ready."""
        opened = self._open
        return None if opened is None else opened.version

    @property
    def fileio(self) -> FileIO | None:
        """Its storage; None before it is ready."""
        opened = self._open
        return None if opened is None else opened.table.fileio

    @property
    def buckets_count(self) -> int:
        """How many buckets it has files of."""
        opened = self._open
        return 0 if opened is None else opened.buckets_count

    def stats(self) -> LookupStats | None:
        """What its query has mapped and built; None before it is ready."""
        opened = self._open
        return None if opened is None else opened.query.stats

    def note_use(self) -> None:
        """Keep its lookup files on disk, be they used for hours without a change."""
        opened = self._open
        if opened is not None:
            opened.query.note_use()

    def is_behind(self, wanted: TableVersion) -> bool:
        """Whether it does not have a version yet."""
        version = self.version
        return version is None or not _covers(version, wanted)

    def update(self, reply: pb.ChangesReply) -> None:
        """Bring it to a version. For one thread at a time.

        Raises
        ------
        TidelakeError
            The table was dropped, or its files cannot be read: what was open stays open.
        """
        version = version_from(reply.version)
        self.since = TableVersion()  # of an update that fails nothing is known
        opened = self._open
        if opened is None or not _is_of(opened, version):
            opened = self._opened(version)
        opened.apply(version.snapshot, reply)
        self.problem = ""
        with self._changed:
            before, self._open = self._open, opened
            self._changed.notify_all()
        if before is not None and before is not opened:
            self._retire(before)
        self.since = version

    def use(self, wanted: TableVersion, end: float, poke: Callable[[], None]) -> _Use:
        """Use it at a version or a newer one, as long as a ``with`` block lasts.

        Parameters
        ----------
        wanted : TableVersion
            The oldest that will do.
        end : float
            Until when to wait, by the monotonic clock.
        poke : callable
            Asks for an update at once.

        Raises
        ------
        Refusal
            It is not there in time.
        """
        if self.is_behind(wanted):
            self._wait(wanted, end, poke)
        with self._changed:
            opened = self._open
            if opened is None:
                raise self._not_ready(wanted)
            opened.users += 1
        return _Use(self, opened)

    def leave(self, opened: OpenTable) -> None:
        """End a use; the last of an old table closes it."""
        with self._changed:
            opened.users -= 1
            is_last = opened.is_old and not opened.users
        if is_last:
            opened.query.close()

    def close(self) -> None:
        """Close it when the last lookup has ended."""
        with self._changed:
            opened, self._open = self._open, None
            self._is_closed = True
            self._changed.notify_all()
        if opened is not None:
            self._retire(opened)

    def _opened(self, version: TableVersion) -> OpenTable:
        table = served_table(self._catalog, self.name)
        if table.table_schema.id != version.schema:
            # its number of buckets may be another than that of the changes
            message = f"Table '{self.name}' was altered meanwhile: it is opened again."
            raise ConflictError(message, kind="table_altered", table=self.name)
        owns = Ownership.of(table.handle.bucket_mode, *self._place)
        query = table.local_query(owns=owns, directory=self._directory)
        handle, before = table.handle, self._open
        identity = table_identity(handle.fileio, handle.paths, self.name)
        first = version.generation
        if before is not None and before.identity == identity:
            first = before.first_generation
        return OpenTable(table, query, owns, version.generation, identity, first)

    def _retire(self, opened: OpenTable) -> None:
        with self._changed:
            opened.is_old = True
            is_unused = not opened.users
        if is_unused:
            opened.query.close()

    def _wait(self, wanted: TableVersion, end: float, poke: Callable[[], None]) -> None:
        poke()
        with self._changed:
            if self._waiters >= WAITERS_MAX:
                raise self._not_ready(wanted)
            self._waiters += 1
            try:
                while self.is_behind(wanted) and not self._is_closed:
                    left = end - self._now()
                    if left <= 0:
                        raise self._not_ready(wanted)
                    self._changed.wait(left)
            finally:
                self._waiters -= 1

    def _not_ready(self, wanted: TableVersion) -> Refusal:
        version = self.version
        has = "nothing yet" if version is None else f"snapshot {version.snapshot}"
        why = f" ({self.problem})" if self.problem else ""
        message = (
            f"Table '{self.name}' is not ready here: snapshot {wanted.snapshot} is wanted, and the"
            f" executor has {has}{why}. Try again."
        )
        return Refusal(Status.UNAVAILABLE, Reason.NOT_READY, message)


def _bucket_change(change: pb.BucketChange) -> BucketChange:
    """What became of a bucket, as the query takes it."""
    before, after = (
        split_from_bytes(data) if data else None
        for data in (change.files_before, change.files_after)
    )
    names = () if before is None else tuple(file.file_name for file in _files(before))
    state = None
    if after is not None:
        state = QueriedBucket(
            after.partition, after.bucket, after.total_buckets, _files(after), after.deletions
        )
    return BucketChange(change.partition, change.bucket, names, state)


def _files(split: Split) -> tuple[DataFileMeta, ...]:
    return tuple(file for section in split.sections for run in section for file in run)


class OwnedTables:
    """The tables of an executor, by name; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, OwnedTable] = {}
        self.is_told = False
        """Whether the address server has said yet which tables there are."""

    def find(self, name: str) -> OwnedTable | None:
        """One table."""
        return self._tables.get(name)

    def all(self) -> list[OwnedTable]:
        """All tables, by name."""
        with self._lock:
            return [self._tables[name] for name in sorted(self._tables)]

    def keep(self, names: set[str], make: Callable[[str], OwnedTable]) -> None:
        """Have these tables: make those that are new, close those that are not named."""
        with self._lock:
            gone = [self._tables.pop(name) for name in set(self._tables) - names]
            for name in names - set(self._tables):
                self._tables[name] = make(name)
            self.is_told = True
        for table in gone:
            table.close()


def _is_of(opened: OpenTable, version: TableVersion) -> bool:
    return opened.generation == version.generation and opened.schema.id == version.schema


def _covers(has: TableVersion, wanted: TableVersion) -> bool:
    """Whether a version is as new as wanted; generation 0 stands for any."""
    if wanted.generation in (0, has.generation):
        return has.snapshot >= wanted.snapshot
    return has.generation > wanted.generation
