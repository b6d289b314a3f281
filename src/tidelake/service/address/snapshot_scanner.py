"""The snapshot file scanner: follows the newest snapshot of a table, bucket by bucket.

One poll:

1. Compare the digest of the first schema: another one is a new table of the same name.
2. Open the table again if it has a newer schema.
3. Read the newest snapshot. If its id went back, or the id that was seen last names another commit
   now, the table was rolled back. After a rollback, and for a recreated table, **generation** goes
   up: snapshot ids say what is newer only within one generation.
4. Fold the manifests to live files by bucket, as a batch read at that snapshot would open them, and
   keep the last :data:`STATES_KEPT` states. What changed since one of them is a comparison.

A lease (:mod:`tidelake.table.stream.lease`) holds the oldest snapshot whose files an executor may
still open; it is taken before the files are listed. Nothing else is written, and no lock is taken:
jobs that write or read the table do not notice.

Cost of a poll without news: three small reads and a listing of the schemas.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelake.engine.metadata import BucketId, Snapshot, names_of
from tidelake.engine.scan import BucketFiles, ReadContext, read_buckets, split_to_bytes
from tidelake.engine.streams import READ_RETAINED_MS, StreamLease, snapshot_identity, table_identity
from tidelake.engine.tables import Catalog, Table, TableHandle
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode

_LOG = logging.getLogger("tidelake.service")

STATES_KEPT = 16
"""An executor that is further behind gets all files."""


@dataclass(frozen=True, slots=True, order=True)
class TableVersion:
    """A state of a table; the greater, the newer.

    Parameters
    ----------
    generation : int
        Goes up when snapshot ids went back or the table was recreated.
    snapshot : int
        Its id; 0 where the table has none.
    schema : int
        The newest schema's id.
    """

    generation: int = 0
    snapshot: int = 0
    schema: int = 0


@dataclass(frozen=True, slots=True)
class ServedSnapshot:
    """A served table at a snapshot, by bucket.

    Parameters
    ----------
    identity : str
        Distinguishes the table from another of the same name.
    committed_ms : int
        When the snapshot was committed; 0 without one.
    buckets_count : int
        How many buckets a new partition gets; -1 if as many as it needs.
    """

    version: TableVersion
    identity: str
    mode: BucketMode
    committed_ms: int = 0
    buckets: Mapping[BucketId, BucketFiles] = field(default_factory=dict)
    buckets_count: int = -1

    def rescaled(self) -> dict[bytes, int]:
        """The number of buckets of the partitions where it is not the table's.

        A client computes the bucket of a key from this number, so every executor gets that of
        every partition.
        """
        if self.mode is not BucketMode.FIXED:
            return {}
        return {
            b.partition: b.total_buckets
            for b in self.buckets.values()
            if b.total_buckets != self.buckets_count
        }


@dataclass(frozen=True, slots=True)
class BucketChanges:
    """What changed in the buckets of an executor.

    Parameters
    ----------
    version : TableVersion
        The state after the changes.
    whole : bool
        Whether buckets that are not named are empty.
    changes : tuple of (BucketId, total buckets, files before, files after)
        Files as bytes (:mod:`tidelake.scan.split_wire`); empty for none.
    rescaled : mapping of bytes to int
        The partitions whose number of buckets is not the table's, changed or not.
    """

    version: TableVersion
    whole: bool
    changes: tuple[tuple[BucketId, int, bytes, bytes], ...]
    rescaled: Mapping[bytes, int] = field(default_factory=dict)


class SnapshotFileScanner:
    """Follows one table. Threads share it; one polls at a time, and others read meanwhile.

    Parameters
    ----------
    generation : int
        The first generation: more than that of any service before.

    Raises
    ------
    NotFoundError, InvalidInputError
        There is no such table, or it cannot be asked by key.
    """

    def __init__(self, catalog: Catalog, table: str, *, service_id: str, generation: int) -> None:
        self.table = table
        self._catalog = catalog
        self._service_id = service_id
        self._generation = generation
        self._polling = threading.Lock()  # held while the storage is asked, which may take long
        self._lock = threading.Lock()  # of the states; never held while the storage is asked
        self._states: OrderedDict[TableVersion, ServedSnapshot] = OrderedDict()
        self._state: ServedSnapshot | None = None
        self._snapshot: Snapshot | None = None
        self._context: ReadContext | None = None
        self._lease: StreamLease | None = None
        self._problem = ""
        self._closed = threading.Event()
        self._opened_as: str | None = None
        self._handle: TableHandle = served_table(catalog, table).handle
        self.location = self._handle.paths.log_dir  # a branch has a service of its own
        self.fileio = self._handle.fileio

    @property
    def state(self) -> ServedSnapshot | None:
        """The newest that was seen; None of a table that was dropped, or never read yet."""
        return self._state

    @property
    def problem(self) -> str:
        """Why the last poll failed; empty if it did not."""
        return self._problem

    @property
    def handle(self) -> TableHandle:
        """The table as it was opened last."""
        return self._handle

    def poll(self, *, wait_seconds: float = -1) -> bool:
        """Look at the table; whether there is news. An error is kept as `problem`.

        Parameters
        ----------
        wait_seconds : float
            How long to wait for a poll of another thread to end; -1 waits for ever. After that
            there is no news.
        """
        if not self._polling.acquire(timeout=wait_seconds):
            return False
        try:
            return self._poll()
        finally:
            self._polling.release()

    def _poll(self) -> bool:
        if self._closed.is_set():
            return False
        before = self._state
        try:
            self._look()
            self._problem = ""
        except TidelakeError as error:
            if self._problem != error.message:
                _LOG.warning("table %s: %s", self.table, error.message)
            self._problem = error.message
        if self._closed.is_set():  # meanwhile, by a caller that did not wait for us
            self._give_up_lease()
        return self._state is not before

    def changes(self, since: TableVersion, owns: Callable[[BucketId], bool]) -> BucketChanges:
        """What changed in some buckets since a state that was given before.

        Raises
        ------
        NotFoundError
            The table was dropped.
        """
        with self._lock:
            new, old = self._state, self._states.get(since)
        if new is not None and since.schema != new.version.schema:
            old = None  # an executor that opens the table again needs all files
        if new is None:
            message = self._problem or f"Table '{self.table}' was dropped, or is not read yet."
            raise NotFoundError(message, kind="table_not_found", table=self.table)
        ids = set(new.buckets) | (set(old.buckets) if old is not None else set())
        changes = []
        for bucket_id in sorted(filter(owns, ids)):
            after = new.buckets.get(bucket_id)
            before = old.buckets.get(bucket_id) if old is not None else None
            if after is before:
                continue
            total = next((b.total_buckets for b in (after, before) if b is not None), 0)
            changes.append((bucket_id, total, _bytes_of(before), _bytes_of(after)))
        return BucketChanges(new.version, old is None, tuple(changes), new.rescaled())

    def release(self, oldest_snapshot: int) -> None:
        """Let snapshots before this one expire, and say that the lease is alive."""
        with self._polling:
            lease = self._lease
            if lease is None:
                return
            try:
                if oldest_snapshot > lease.next_snapshot:
                    lease.advance(oldest_snapshot)
                else:
                    lease.renew_if_due()
            except TidelakeError as error:
                # reset by hand, or the table was dropped: the next poll takes a new one
                _LOG.info("table %s: the lease is lost: %s", self.table, error.message)
                self._lease = None

    def close(self, *, wait_seconds: float = -1) -> None:
        """Give up the lease, and look no more.

        Parameters
        ----------
        wait_seconds : float
            How long to wait for a poll that is under way; -1 waits for ever. A poll that takes
            longer gives up the lease when it ends.
        """
        self._closed.set()
        if self._polling.acquire(timeout=wait_seconds):
            try:
                self._give_up_lease()
            finally:
                self._polling.release()

    # ---- one poll

    def _look(self) -> None:
        identity = self._identity()
        if identity != self._opened_as:
            if self._opened_as is not None:
                self._forget()
            if identity is None:
                return
            self._reopen()
            self._opened_as = identity
        if identity is None:
            return
        schema_id, snapshot = self._handle.schemas.latest_id(), self._handle.snapshots.latest()
        newest_schema = max(schema_id or 0, 0 if snapshot is None else snapshot.schema_id)
        if newest_schema > self._handle.schema.id:
            self._reopen()
        if self._went_back(snapshot):
            self._next_generation()
        version = TableVersion(
            self._generation, 0 if snapshot is None else snapshot.id, self._handle.schema.id
        )
        self._hold(snapshot)
        if self._state is None or self._state.version != version:
            self._keep(self._read(version, identity, snapshot), snapshot)

    def _identity(self) -> str | None:
        try:
            return table_identity(self._handle.fileio, self._handle.paths, self.table)
        except NotFoundError:
            return None

    def _reopen(self) -> None:
        self._handle = served_table(self._catalog, self.table).handle
        self._context = None

    def _forget(self) -> None:
        """The table was dropped, perhaps recreated: nothing of it is kept."""
        _LOG.info("table %s was dropped", self.table)
        self._opened_as = self._snapshot = self._context = None
        with self._lock:
            self._state = None
        self._next_generation()

    def _next_generation(self) -> None:
        self._generation += 1
        with self._lock:
            self._states.clear()
        self._give_up_lease()

    def _went_back(self, newest: Snapshot | None) -> bool:
        """Whether the snapshot that was seen last is no longer part of the table's history."""
        seen = self._snapshot
        if seen is None:
            return False
        if newest is None or newest.id < seen.id:
            return True
        now = newest if newest.id == seen.id else self._handle.snapshots.find(seen.id)
        return now is not None and snapshot_identity(now) != snapshot_identity(seen)

    def _hold(self, snapshot: Snapshot | None) -> None:
        """Take the lease, before files are listed."""
        if self._lease is not None or snapshot is None:
            return
        name = f"query-service-{self._service_id}"
        self._lease = StreamLease.open_if_writable(
            self._handle,
            name,
            snapshot.id,
            run_id=name,
            of_state=True,
            retained_ms=READ_RETAINED_MS,
        )

    def _give_up_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            with contextlib.suppress(TidelakeError):  # it ends with its time
                lease.close(forget=True)

    def _read(
        self, version: TableVersion, identity: str, snapshot: Snapshot | None
    ) -> ServedSnapshot:
        if self._context is None:
            self._context = self._handle.read_context()
        mode, count = self._handle.bucket_mode, self._handle.options.get(declared.BUCKET)
        if snapshot is None:
            return ServedSnapshot(version, identity, mode, buckets_count=count)
        found = read_buckets(self._context, snapshot, manifests=self._handle.manifests)
        before = self._state.buckets if self._state is not None else {}
        buckets: dict[BucketId, BucketFiles] = {}
        for bucket in found:
            old = before.get(bucket.bucket_id)
            # an unchanged bucket stays the same object: a comparison of states is one of objects
            same = old is not None and _same_files(old, bucket)
            buckets[bucket.bucket_id] = old if same and old is not None else bucket
        return ServedSnapshot(version, identity, mode, snapshot.time_ms, buckets, count)

    def _keep(self, state: ServedSnapshot, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        with self._lock:
            self._state = state
            self._states[state.version] = state
            while len(self._states) > STATES_KEPT:
                self._states.popitem(last=False)


def served_table(catalog: Catalog, identifier: str) -> Table:
    """Open a table that can be asked by key.

    Raises
    ------
    NotFoundError
        There is no such table.
    InvalidInputError
        It is a system table, or it has no primary key.
    """
    table = catalog.table(identifier)
    if not isinstance(table, Table) or not table.primary_keys:
        message = f"Table '{identifier}' has no primary key: the query service answers by key."
        raise InvalidInputError(message, kind="service_table", table=identifier)
    return table


def _same_files(old: BucketFiles, new: BucketFiles) -> bool:
    if old.total_buckets != new.total_buckets or len(old.files) != len(new.files):
        return False
    names = names_of(new.files)
    if not names.equals(names_of(old.files)):
        return False
    if not old.deletions and not new.deletions:
        return True
    return all(old.deletions.get(n) == new.deletions.get(n) for n in names.to_pylist())


def _bytes_of(bucket: BucketFiles | None) -> bytes:
    if bucket is None:
        return b""
    return split_to_bytes(bucket.split(((tuple(bucket.files),),), raw=False))
