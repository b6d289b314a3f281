"""An opened table: the value that the parts of the table layer take."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidelake.commit import CommitContext, Committer
from tidelake.commit.catalog_listing import CatalogListing
from tidelake.errors import NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.log.schema_log import SchemaLog, check_same_table, dropped
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import TagLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.table_state import Guard, TableState
from tidelake.options import Options, check_supported
from tidelake.options.bucket_mode import BucketMode
from tidelake.options.column_options import options_for_older_schema
from tidelake.scan import ReadContext
from tidelake.scan.masks import MaskCache
from tidelake.scan.merged_orders import MergedOrders
from tidelake.store import StoreContext
from tidelake.table.handle.managed_table import ManagedTable
from tidelake.table.handle.read_hold import HoldPolicy, ReadHold, ReadHolds
from tidelake.table.handle.time_travel import TimeTravel
from tidelake.telemetry import Env
from tidelake.types import TableSchema


@dataclass(frozen=True, slots=True)
class TableHandle(TableState):
    """An opened table, with the newest schema at that time.

    Parameters
    ----------
    manifests : ManifestCache
        Decoded manifests, shared by the tables of a catalog.
    guard : Guard
        Held while a snapshot or a schema is put on the storage.
    served : ManagedTable, optional
        The server that decides the table's newest snapshot and schema, if there is one.
    listing : CatalogListing, optional
        What shows its columns and partitions in a catalog, beside the files.
    masks : MaskCache
        Which rows of a file newer ones replace, shared by the tables of a catalog.
    orders : MergedOrders
        Orders of merges that were read, shared by the tables of a catalog.
    holds : ReadHolds
        Holds the snapshots of reads, for the tables of a catalog.
    """

    identifier: str
    manifests: ManifestCache
    guard: Guard = nullcontext
    served: ManagedTable | None = None
    listing: CatalogListing | None = None
    masks: MaskCache = field(default_factory=MaskCache)
    orders: MergedOrders = field(default_factory=MergedOrders)
    holds: ReadHolds = field(default_factory=ReadHolds)

    def __reduce__(self) -> tuple[object, ...]:
        # the copy begins with an empty cache, and has no guard: copies in other processes do not
        # publish
        return (_unpickled, (*self._state, self.identifier, self.served))

    @property
    def _state(self) -> tuple[FileIO, TablePaths, TableSchema, Options, Env]:
        return (self.fileio, self.paths, self.schema, self.options, self.env)

    @property
    def tags(self) -> TagLog:
        """The table's tags."""
        return TagLog(self.fileio, self.paths, table=self.identifier)

    @property
    def schemas(self) -> SchemaLog:
        """The table's schemas."""
        return SchemaLog(self.fileio, self.paths)

    @property
    def time_travel(self) -> TimeTravel:
        """Finds snapshots."""
        return TimeTravel(self.snapshots, self.tags, table=self.identifier, zone=self.env.zone)

    @property
    def bucket_mode(self) -> BucketMode:
        """How rows find their buckets."""
        return BucketMode.of(
            self.options,
            has_primary_key=bool(self.schema.primary_keys),
            keys_may_move=self.schema.keys_may_move,
        )

    def hold(self, snapshot: Snapshot | None, *, is_old: bool = False) -> ReadHold:
        """Hold a snapshot for a read that begins, as ``read.hold`` says.

        Parameters
        ----------
        snapshot : Snapshot, optional
            The oldest snapshot that is read; nothing is held without one.
        is_old : bool
            Whether it may be an older one than the newest.

        Returns
        -------
        ReadHold
            It ends with a ``with`` block, or when it is collected. It holds nothing of a snapshot
            that is about to expire: the read then finds out whether its files are there.

        Raises
        ------
        StorageError, NotFoundError
            ``read.hold`` is ``always``, and the snapshot cannot be held.
        """
        policy = HoldPolicy(self.options, self.fileio.is_remote, is_old=is_old)
        hold = self.holds.hold(self, snapshot, policy)
        hold.begin()
        return hold

    def hold_all(self, snapshots: Iterable[Snapshot | None]) -> ReadHold:
        """Hold several snapshots for one read: the oldest that has not expired, and all later ones.

        A state that a tag keeps, or a changelog that outlived its snapshot, is older and needs no
        hold. Raises as :meth:`hold` does.
        """
        if not self.holds.wants(self, HoldPolicy(self.options, self.fileio.is_remote)):
            return ReadHold()
        earliest = self.snapshots.earliest_id() or 0
        live = [s for s in snapshots if s is not None and s.id >= earliest]
        return self.hold(min(live, key=lambda s: s.id, default=None), is_old=True)

    def store_context(self) -> StoreContext:
        """The context of bucket writers; each call names a new spill directory."""
        return StoreContext(*self._state, spill_dir=self.env.spill_directory())

    def read_context(
        self, snapshot: Snapshot | None = None, *, all_rows: bool = False
    ) -> ReadContext:
        """The context of reads.

        Parameters
        ----------
        snapshot : Snapshot, optional
            Read with this snapshot's schema (time travel); by default with the table's.
        all_rows : bool
            Whether to read level 0 even if the table's reads leave it out.

        Raises
        ------
        NotFoundError
            The snapshot's schema is missing, or the table was dropped and perhaps recreated.
        """
        log = self.schemas
        schemas = log.load_all(self.env.reads.ranges)
        if not schemas:
            raise dropped(self.identifier)
        if self.schema.id in schemas:
            check_same_table(schemas[self.schema.id], self.schema, table=self.identifier)
        else:  # a listing may be old
            log.check_same(self.schema, table=self.identifier)
        schema, options = self.schema, self.options
        if snapshot is not None:
            if snapshot.schema_id not in schemas:
                message = (
                    f"Table '{self.identifier}' has no schema {snapshot.schema_id}, which snapshot"
                    f" {snapshot.id} was written with; it has {sorted(schemas)}."
                )
                raise NotFoundError(message, kind="schema_not_found", table=self.identifier)
            # columns of the snapshot's schema; current options, which name columns as it does
            schema = schemas[snapshot.schema_id]
            if schema.id != self.schema.id:
                texts = options_for_older_schema(options.raw, schema.options)
                options = Options.parse(texts, table=self.identifier)
            schema = replace(schema, options=MappingProxyType(dict(options.raw)))
        check_supported(
            options,
            table=self.identifier,
            has_primary_key=bool(schema.primary_keys),
            action="read",
        )
        return ReadContext(
            self.fileio, self.paths, schema, options, self.env, schemas=schemas, all_rows=all_rows
        )

    def commit_context(self) -> CommitContext:
        """The context of commits."""
        return CommitContext(
            *self._state,
            manifests=self.manifests,
            table=self.identifier,
            guard=self.guard,
            snapshot_commit=None if self.served is None else self.served.snapshot_commit,
            listing=self.listing,
        )

    def committer(self) -> Committer:
        """The committer, which makes writes visible."""
        return Committer(self.commit_context())

    def with_options(self, options: Options) -> TableHandle:
        """The same table with other options."""
        schema = replace(self.schema, options=MappingProxyType(dict(options.raw)))
        return replace(self, options=options, schema=schema)


def _unpickled(
    fileio: FileIO,
    paths: TablePaths,
    schema: TableSchema,
    options: Options,
    env: Env,
    identifier: str,
    served: ManagedTable | None,
) -> TableHandle:
    cache = ManifestCache(env.memory.manifest_cache_bytes, reads=env.reads.ranges)
    return TableHandle(fileio, paths, schema, options, env, identifier, cache, served=served)
