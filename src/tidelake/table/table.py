"""The table as users hold it: write, read, delete, time travel, inspection.

A :class:`Table` is a thin face: it knows the table's location and the schema and options it was
opened with, and passes values to the modules that do the work. It keeps no state of the data: every
call looks for the newest snapshot, so several processes may use a table at once.

The class is one family of modules. What reads and writes is here; ``alter_methods``,
``row_methods`` (append, upsert, delete, ...), ``version_methods`` (tags, upkeep, rollback),
``compare_methods`` (diff, blame, bisect), ``health_methods`` (doctor, fsck), ``query_methods``
(rows by key), ``stream_methods`` and ``conversion_methods`` (pandas, Polars, DuckDB) hold the rest
as mixins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio import FileIO
from tidelake.foreign_names import OF_TABLE, AnswersForeignNames, with_hints
from tidelake.metadata.paths import POSTPONE_BUCKET, TablePaths
from tidelake.options import Options, check_one_use, declared
from tidelake.scan import ScanPlan
from tidelake.table.alter_methods import AlterMethods
from tidelake.table.branch_methods import BranchMethods
from tidelake.table.changelog.changelog_files import ChangesMode
from tidelake.table.changelog.changelog_plan import planned_changes
from tidelake.table.compare_methods import CompareMethods
from tidelake.table.conversion.conversion_methods import ConversionMethods
from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.handle.arguments import check_dict, check_location
from tidelake.table.handle.branch import BRANCH_OPTION
from tidelake.table.handle.display import History, describe, describe_html
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partitions_predicate
from tidelake.table.handle.time_travel import Moment, Time, option_moment
from tidelake.table.health_methods import HealthMethods
from tidelake.table.jobs.clustering import order_of
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.expiry import expire_after_compaction
from tidelake.table.jobs.postpone_compaction import compact_postponed
from tidelake.table.jobs.rescale import rescale_table, with_buckets
from tidelake.table.jobs.table_compaction import compact_table
from tidelake.table.query_methods import QueryMethods
from tidelake.table.read.explain import ScanExplanation
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.read.table_scan import TableScan, count_rows, scan_table
from tidelake.table.row_methods import RowMethods
from tidelake.table.rowlevel.delete import drop_partitions, truncate
from tidelake.table.rowlevel.existing_rows import alter_checked
from tidelake.table.stream_methods import StreamMethods
from tidelake.table.version_methods import VersionMethods
from tidelake.table.write.overwrite import write_target
from tidelake.table.write.result import CommitIdentity, WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.table.write.write_session import WriteSession
from tidelake.types import TableSchema
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.schema_change import SchemaChange


class Table(
    ConversionMethods,
    AlterMethods,
    BranchMethods,
    RowMethods,
    VersionMethods,
    CompareMethods,
    HealthMethods,
    StreamMethods,
    QueryMethods,
    AnswersForeignNames,
):
    """One table of a catalog. Picklable; safe to use from several threads.

    Made by :meth:`tidelake.Catalog.table` and :meth:`tidelake.Catalog.create_table`.

    Parameters
    ----------
    handle : TableHandle
        Its location, and the schema and options it was opened with.

    Raises
    ------
    InvalidInputError
        It is something else, such as a path.
    """

    _foreign_names = OF_TABLE
    _inner_names = frozenset({"handle", "paths", "fileio", "branch", "named"})

    def __init__(self, handle: TableHandle) -> None:
        _check_handle(handle)
        self._handle = handle

    # ---- what it is

    @property
    def identifier(self) -> str:
        """``"database.table"``."""
        return self._handle.identifier

    @property
    def name(self) -> str:
        """The part of :attr:`identifier` after the dot."""
        return self._handle.identifier.rpartition(".")[2]

    @property
    def location(self) -> str:
        """The table's directory, with its scheme where it has one: ``"s3://..."``."""
        return self._handle.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return to_arrow_schema(self._handle.schema.fields)

    @property
    def table_schema(self) -> TableSchema:
        """The columns, keys and options as Paimon stores them."""
        return self._handle.schema

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """Columns of the primary key; none for an append table."""
        return self._handle.schema.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Columns that partition the table."""
        return self._handle.schema.partition_keys

    @property
    def options(self) -> Options:
        """The options it was opened with."""
        return self._handle.options

    @property
    def paths(self) -> TablePaths:
        """The paths of its files."""
        return self._handle.paths

    @property
    def fileio(self) -> FileIO:
        """The storage."""
        return self._handle.fileio

    @property
    def latest_snapshot_id(self) -> int | None:
        """Id of the newest snapshot; None for a table that was never written."""
        return self._handle.snapshots.latest_id()

    @property
    def handle(self) -> TableHandle:
        """All of the above as one value, for engines."""
        return self._handle

    def with_options(self, options: Mapping[str, object]) -> Table:
        """The same table with other options for this use; nothing is stored.

        Parameters
        ----------
        options : mapping
            Options by key; None unsets one. The methods that read and write take the same as
            ``options=``, for one call. ``branch`` opens another branch.

        Raises
        ------
        InvalidInputError
            A key is unknown (the message offers near names), a value is invalid, or the option
            defines how files are laid out or merged and would contradict existing files.

        Examples
        --------
        ``table.with_options({"scan.snapshot-id": 3}).to_arrow()`` reads snapshot 3, with its
        columns.
        """
        check_dict(options, "options", table=self.identifier)
        if options.get(BRANCH_OPTION) is not None:
            return self._on_branch_with(options)
        updated = check_one_use(options, self.options, table=self.identifier)
        check_location(updated, self.paths.location, table=self.identifier)
        option_moment(updated, table=self.identifier)  # refuses moments that contradict each other
        return Table(self._handle.with_options(updated))

    copy = with_options

    def _with_handle(self, handle: TableHandle) -> Table:
        return Table(handle)

    def _for_call(self, options: Mapping[str, object] | None) -> TableHandle:
        """The handle for one call."""
        return self._handle if options is None else self.with_options(options).handle

    # ---- alter: see AlterMethods

    def _alter(self, changes: tuple[SchemaChange, ...]) -> None:
        self._handle = alter_checked(self._handle, changes)

    # ---- write; append, overwrite, upsert, delete and update: see RowMethods

    def write(
        self,
        data: object,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        row_kinds: object | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Write rows in one commit; on a primary-key table this is an upsert.

        :meth:`append`, :meth:`upsert` and :meth:`overwrite` say which of these is meant.

        Parameters
        ----------
        data : object
            An Arrow table, record batch or reader; an iterable of batches; a pandas or Polars
            frame; anything with an Arrow C stream; a list of dicts. Columns are matched by name.
        mode : {'append', 'overwrite'}
            ``'overwrite'`` replaces the given `partition`. Without it, it replaces the partitions
            of the rows (or with the option ``dynamic-partition-overwrite = false`` the whole
            table), or a whole unpartitioned table.
        partition : mapping, optional
            Values of some partition columns: what to overwrite. The rows may omit these columns.
        row_kinds : array-like, optional
            One of ``'+I'``, ``'-U'``, ``'+U'``, ``'-D'`` per row; ``-U`` and ``-D`` delete. A
            column ``_row_kind`` does the same.
        commit_user, commit_identifier : str and int, optional
            Give both to write exactly once: a user's identifiers rise from commit to commit, and a
            write with an identifier that is already committed does nothing.
        options : mapping, optional
            Options of the table for this write; see :meth:`with_options`.

        Returns
        -------
        WriteResult

        Raises
        ------
        InvalidInputError
            Columns, types, nulls, kinds or arguments are wrong; nothing is visible.
        ConflictError
            Another writer changed what this commit depends on; nothing is visible.
        OutcomeUnknownError
            The storage failed while publishing; repeat with the same commit identity.
        """
        handle = self._for_call(options)
        identity = CommitIdentity.of(handle, commit_user, commit_identifier)
        overwrite = write_target(handle, mode, partition)
        return WriteTransaction(handle, identity, overwrite=overwrite).write(
            data, row_kinds=row_kinds
        )

    def writer(
        self,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteSession:
        """Take rows in several calls and commit them once, at the end of a ``with`` block.

        Parameters
        ----------
        commit_user, commit_identifier, options
            See :meth:`write`.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
        >>> with table.writer() as out:
        ...     out.write([{"k": 1}])
        ...     out.write([{"k": 2}, {"k": 3}])
        >>> out.result.rows, out.result.snapshot_ids
        (3, (1,))
        """
        handle = self._for_call(options)
        identity = CommitIdentity.of(handle, commit_user, commit_identifier)
        return WriteSession(handle, identity=identity)

    def compact(
        self,
        *,
        full: bool = False,
        partitions: object = None,
        buckets: Collection[int] | None = None,
        order: str | None = None,
        by: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Merge sorted runs, join small files, or sort the rows, in one commit.

        Parameters
        ----------
        full : bool
            Whether to merge all files of a bucket into one run, and all small files of an append
            table into files of the target size. By default the compaction options decide.
        partitions : dict, list of dict, str, Predicate or list of tuples, optional
            Which partitions; all by default. Dicts hold values of some or all partition columns, as
            in :meth:`drop_partitions`; anything else is a condition on partition columns, as
            ``where`` of :meth:`scan` takes it: ``"dt < '2026-01-01'"``.
        buckets : collection of int, optional
            Only buckets of these numbers.
        order : str, optional
            Rewrite all files of the partitions, sorted so that filters skip files: ``"order"`` by
            the columns, one after the other, ``"zorder"`` or ``"hilbert"`` along a curve through
            all of them, ``"auto"`` for the one that fits their number. For append tables without
            buckets.
        by : sequence of str, optional
            The columns of `order`; by default those of ``clustering.columns``.
        options : mapping, optional
            See :meth:`write`.

        Returns
        -------
        WriteResult
            Without a snapshot if nothing was worthwhile. ``compactions_dropped`` counts buckets
            that another commit changed meanwhile: they are unchanged, and the next call takes them.

        Raises
        ------
        InvalidInputError
            An argument is wrong, or the table was altered since it was opened.
        UnsupportedError
            `order` for a table with a primary key or buckets, or a column without an order.
        ConflictError
            Other commits compacted or rewrote every bucket of this call; nothing was changed.

        Notes
        -----
        Rows that others add meanwhile stay, in files of their own. Sorting holds a write buffer of
        rows (``write-buffer-size``); more go by way of local disk.

        In a table with the postpone bucket (``bucket`` = -2), the waiting rows first get their
        buckets, and reads then see them. Writers with ``write-only`` leave all compaction to this
        call.
        """
        handle = self._for_call(options)
        chosen = Chosen.of(handle, partitions, buckets)
        sorted_by = order_of(handle, order, by)
        if handle.options.get(declared.BUCKET) == POSTPONE_BUCKET:
            result = compact_postponed(handle, chosen, full=full)
        else:
            result = compact_table(handle, chosen, full=full, order=sorted_by)
        expire_after_compaction(handle)
        return result

    # ---- partitions and buckets

    def drop_partitions(
        self,
        partitions: Sequence[Mapping[str, object]],
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
    ) -> WriteResult:
        """Drop partitions with all their rows, in one commit that touches metadata only.

        Parameters
        ----------
        partitions : list of dict
            Values of some or all partition columns: ``[{"dt": "2024-01-01"}, {"dt": None}]``. A
            dict drops every partition that has its values.
        commit_user, commit_identifier : str and int, optional
            See :meth:`write`.

        Raises
        ------
        InvalidInputError
            The list is empty, or names a column that is not a partition column.
        """
        identity = CommitIdentity.of(self._handle, commit_user, commit_identifier)
        return drop_partitions(self._handle, partitions, identity=identity)

    def truncate(
        self, *, commit_user: str | None = None, commit_identifier: int | None = None
    ) -> WriteResult:
        """Drop all rows, in one commit that touches metadata only; older snapshots keep them."""
        identity = CommitIdentity.of(self._handle, commit_user, commit_identifier)
        return truncate(self._handle, identity=identity)

    def rescale_bucket(
        self,
        buckets: int | None = None,
        *,
        partitions: Sequence[Mapping[str, object]] | None = None,
    ) -> WriteResult:
        """Change the table's number of buckets and rewrite partitions.

        Parameters
        ----------
        buckets : int, optional
            The new number; by default the table's, for partitions that earlier calls left out.
        partitions : list of dict, optional
            Values of some or all partition columns: the partitions to rewrite now; all by default.
            Rows for a partition with the old number are refused until it is rewritten.

        Returns
        -------
        WriteResult
            A snapshot per partition; none if all have the number already.

        Raises
        ------
        ConflictError
            Another writer changed a partition while it was rewritten; partitions rewritten before
            stay so. Call it again.
        """
        if partitions is not None:  # check them before the table is altered
            partitions_predicate(self._handle.schema, partitions, table=self.identifier)
        target = with_buckets(self._handle, buckets)
        if self.options.get(declared.BUCKET) != POSTPONE_BUCKET:
            self._handle = target
        return rescale_table(target, partitions)

    # ---- read

    @with_hints
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> TableScan:
        """Plan a read.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns wanted, in order; all by default.
        where : str, Predicate or list of tuples, optional
            The rows wanted: ``"v > 10 AND name LIKE 'a%'"``, ``col("v") > 10``, or
            ``[("v", ">", 10)]``.
        limit : int, optional
            The most rows wanted.
        snapshot_id, timestamp, tag
            At most one: the moment to read; see :mod:`tidelake.table.handle.time_travel`. The
            rows have the columns of that moment.
        options : mapping, optional
            Options of the table for this read; see :meth:`with_options`.

        Raises
        ------
        NotFoundError
            No such column, snapshot or tag. The message offers near names or the existing range.
        InvalidInputError
            The filter or an argument is wrong.
        """
        request = ScanRequest(columns, where, limit, snapshot_id, timestamp, tag)
        return scan_table(self._for_call(options), request)

    def plan(self, **scan: Any) -> ScanPlan:
        """The splits of a read, of this branch alone; arguments as of :meth:`scan`."""
        with self.scan(**scan) as planned:
            return planned.plan

    def to_batches(self, **scan: Any) -> pa.RecordBatchReader:
        """The rows as a stream of batches in bounded memory; arguments as of :meth:`scan`."""
        return self.scan(**scan).reader_once()

    def to_arrow(self, **scan: Any) -> pa.Table:
        """The rows as an Arrow table; arguments as of :meth:`scan`."""
        with self.scan(**scan) as planned:
            return planned.to_arrow()

    def _frames(self, **scan: Any) -> FrameMethods:
        return self.scan(**scan)

    @with_hints
    def count(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """Number of rows, from metadata if possible. Arguments as of :meth:`scan`."""
        request = ScanRequest(columns, where, limit, snapshot_id, timestamp, tag)
        return count_rows(self._for_call(options), request)

    @with_hints
    def explain(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> ScanExplanation:
        """Explain what a read would do; arguments as of :meth:`scan`. Only metadata is read."""
        request = ScanRequest(columns, where, limit, snapshot_id, timestamp, tag)
        scan = scan_table(self._for_call(options), request, begins=False)
        scan.close()
        return ScanExplanation(
            table=self.identifier,
            snapshot=scan.snapshot,
            plan=scan.plan,
            columns=scan.columns,
            filter_text="none" if where is None else str(where),
            limit=limit,
            context=scan.context,
            masks=scan.masks,
            other=None if scan.other is None else (scan.other.identifier, scan.other.plan),
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows of the newest snapshot, as an Arrow stream."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    # ---- time

    @with_hints
    def changes(
        self,
        start: Moment,
        end: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        mode: ChangesMode = "diff",
    ) -> pa.Table:
        """Return the changes after `start`, up to and with `end`; see :meth:`changes_batches`."""
        return self.changes_batches(start, end, columns=columns, where=where, mode=mode).read_all()

    @with_hints
    def changes_batches(
        self,
        start: Moment,
        end: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        mode: ChangesMode = "diff",
    ) -> pa.RecordBatchReader:
        """The change after `start`, up to and with `end`, as a stream.

        Parameters
        ----------
        start, end : int, str, datetime or date
            A snapshot id (0: before the first), a tag, or a time (also as ISO 8601 text, if no tag
            has that name); `end` is the newest snapshot by default.
        columns : sequence of str, optional
            The columns wanted besides ``_row_kind``.
        where : optional
            As of :meth:`scan`; each row is tested on its own. Where changes have no old rows
            (``changelog-producer`` is ``none`` or ``input``, and `mode` is not ``'diff'``), a new
            row that does not satisfy it comes as ``-D``. Where they have, the old row of an update
            that leaves it does.
        mode : {'diff', 'changelog', 'delta', 'auto'}
            ``'diff'``: the net change, whatever was written in between. Snapshots in between may
            have expired; those of `start` and `end` must exist or be tagged. The other modes give
            each snapshot's own changes, one after the other, and leave overwrites out, as Paimon's
            ``incremental-between-scan-mode`` does: ``'changelog'`` the rows of its changelog files;
            ``'delta'`` the rows of its new data files, unmerged, with the kinds they were written
            with; ``'auto'`` the changelog if the table has a ``changelog-producer``, else the
            delta.

        Returns
        -------
        RecordBatchReader
            ``_row_kind`` (``+I``, ``-U``, ``+U``, ``-D``) and the columns. The rows of a diff turn
            the state at `start` into the state at `end`: a key that was written ten times appears
            once with its last value, and one that came and went does not appear.

        Raises
        ------
        NotFoundError
            No such snapshot, tag or column; or, except for a diff, a snapshot in between has
            expired.
        UnsupportedError
            A changelog is asked for but none was written, or new rows are asked for but the table's
            merge engine combines rows: a single row does not show the key's new row.
        """
        return planned_changes(
            self._handle,
            start,
            end,
            columns=columns,
            where=where,
            mode=mode,
            retracts=True,
        ).reader()

    def history(self) -> History:
        """The existing snapshots, oldest first: the rows of ``$snapshots``, an Arrow table."""
        snapshots = self.system_table("snapshots")
        return History(snapshots.identifier, snapshots.to_arrow())

    # ---- look inside

    def __repr__(self) -> str:
        return describe(self._handle)

    def _repr_html_(self) -> str:
        return describe_html(self._handle)


def _check_handle(given: object) -> None:
    """Refuse a path: others open a table by its class."""
    if not isinstance(given, TableHandle):
        shown = shortened(repr(given))
        message = f"Table({shown}) opens no table: use tidelake.open(warehouse).table('db.t')."
        raise InvalidInputError(message, kind="bad_argument")
