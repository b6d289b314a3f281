"""A table's metadata as small tables: ``cat.table("db.t$snapshots")``.

Names and columns are those of Paimon's system tables (1.3.1): ``$snapshots``, ``$schemas``,
``$options``, ``$tags``, ``$branches``, ``$consumers``, ``$aggregation_fields``
(:mod:`tidelake.table.system.log_tables`), ``$files``, ``$partitions``, ``$buckets``, ``$manifests``
(:mod:`tidelake.table.system.file_tables`), ``$table_indexes``, ``$statistics``
(:mod:`tidelake.table.system.index_tables`); and of 2.1: ``$file_indexes``
(:mod:`tidelake.table.system.file_index_table`); and ours: ``$cdc_epochs``
(:mod:`tidelake.table.system.cdc_epochs_table`). Those that show a table's rows are in
:mod:`tidelake.table.system.row_views`. Times of commits are in UTC.
"""

from __future__ import annotations

import abc
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.scan import names_expiry
from tidelake.table.conversion.conversion_methods import ConversionMethods
from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.handle.arguments import known_columns, row_limit
from tidelake.table.handle.branch import NAME_PREFIX
from tidelake.table.handle.display import History
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Time
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.system.cdc_epochs_table import CDC_EPOCHS, cdc_epochs_table
from tidelake.table.system.file_index_table import FILE_INDEXES, file_indexes_table
from tidelake.table.system.file_tables import (
    BUCKETS,
    FILES,
    MANIFESTS,
    PARTITIONS,
    buckets_table,
    files_table,
    manifests_table,
    partitions_table,
)
from tidelake.table.system.index_tables import (
    STATISTICS,
    TABLE_INDEXES,
    statistics_table,
    table_indexes_table,
)
from tidelake.table.system.log_tables import (
    AGGREGATION_FIELDS,
    BRANCHES,
    CONSUMERS,
    OPTIONS,
    SCHEMAS,
    SNAPSHOTS,
    TAGS,
    aggregation_fields_table,
    branches_table,
    consumers_table,
    options_table,
    schemas_table,
    snapshots_table,
    tags_table,
)
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.predicate import bind, evaluate, parse_filter

AUDIT_LOG, BINLOG, READ_OPTIMIZED = "audit_log", "binlog", "ro"
ROW_TRACKING = "row_tracking"

SHOWN_MAX = 20
"""Rows that a terminal shows."""
CELL_WIDTH_MAX = 40

LATER_TABLES = frozenset({"file_key_ranges"})
"""System tables of Paimon that this version does not have."""

OF_ONE_SNAPSHOT = frozenset(
    {"files", "file_indexes", "partitions", "buckets", "manifests", "statistics", "table_indexes"}
)
"""System tables that show one snapshot; the others are the same for every moment."""

TableOf = Callable[[TableHandle, Snapshot | None], pa.Table]

SYSTEM_TABLES: Mapping[str, tuple[pa.Schema, TableOf]] = {
    "snapshots": (SNAPSHOTS, lambda handle, _: snapshots_table(handle)),
    "files": (FILES, files_table),
    "file_indexes": (FILE_INDEXES, file_indexes_table),
    "schemas": (SCHEMAS, lambda handle, _: schemas_table(handle)),
    "options": (OPTIONS, lambda handle, _: options_table(handle)),
    "tags": (TAGS, lambda handle, _: tags_table(handle)),
    "partitions": (PARTITIONS, partitions_table),
    "buckets": (BUCKETS, buckets_table),
    "manifests": (MANIFESTS, manifests_table),
    "branches": (BRANCHES, lambda handle, _: branches_table(handle)),
    "consumers": (CONSUMERS, lambda handle, _: consumers_table(handle)),
    "aggregation_fields": (
        AGGREGATION_FIELDS,
        lambda handle, _: aggregation_fields_table(handle),
    ),
    "statistics": (STATISTICS, statistics_table),
    "table_indexes": (TABLE_INDEXES, table_indexes_table),
    "cdc_epochs": (CDC_EPOCHS, lambda handle, _: cdc_epochs_table(handle)),
}
"""Those made of metadata."""

SYSTEM_TABLE_NAMES = (*SYSTEM_TABLES, AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)
"""All, with those that show the table's own rows."""


@dataclass(frozen=True, slots=True)
class MetadataRows(FrameMethods):
    """The rows of a system table, which were read at once."""

    rows: pa.Table

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self.rows

    def count(self) -> int:
        """Number of rows."""
        return self.rows.num_rows


class SystemTable(ConversionMethods, abc.ABC):
    """A small table made from metadata; every call reads it again."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def identifier(self) -> str:
        """``"database.table$name"``, or ``"sys.name"``."""

    @property
    @abc.abstractmethod
    def schema(self) -> pa.Schema:
        """The columns."""

    @abc.abstractmethod
    def _read(self, snapshot_id: int | None, timestamp: Time | None, tag: str | None) -> pa.Table:
        """All rows and columns, of a moment."""

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: object = None,
        limit: int | None = None,
        snapshot_id: int | None = None,
        timestamp: Time | None = None,
        tag: str | None = None,
    ) -> pa.Table:
        """The rows as an Arrow table.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns wanted, in order; all by default.
        where : str, Predicate or list of tuples, optional
            The rows wanted, as of :meth:`tidelake.Table.scan`.
        limit : int, optional
            The most rows wanted.
        snapshot_id, timestamp, tag
            At most one, of system tables that show one moment (``$files``, ``$file_indexes``,
            ``$partitions``, ``$buckets``, ``$manifests``, ``$table_indexes``, ``$statistics``):
            the moment to show, the newest snapshot by default.

        Raises
        ------
        NotFoundError
            No such column, snapshot or tag; the message offers near names.
        InvalidInputError
            The filter, the limit or the moment is wrong.
        """
        schema = self.schema
        limit = row_limit(limit, table=self.identifier)
        names = known_columns(columns, schema.names, table=self.identifier)
        flat = [f for f in schema if not pa.types.is_nested(f.type)]
        fields = fields_from_arrow(pa.schema(flat))
        parsed = parse_filter(where)
        predicate = None if parsed is None else bind(parsed, fields)
        table = self._read(snapshot_id, timestamp, tag)
        if predicate is not None:
            table = pa.Table.from_batches(
                [
                    b.filter(evaluate(predicate, b.select([f.name for f in flat]), fields))
                    for b in table.to_batches()
                ],
                schema=schema,
            )
        return table.select(names).slice(0, limit)

    def _frames(self, **scan: Any) -> FrameMethods:
        return MetadataRows(self.to_arrow(**scan))

    def _check_no_moment(
        self, snapshot_id: int | None, timestamp: Time | None, tag: str | None
    ) -> None:
        if not (snapshot_id is None and timestamp is None and tag is None):
            message = (
                f"'{self.identifier}' does not show one moment: leave out snapshot_id, timestamp"
                f" and tag. Tables of one moment are {', '.join(sorted(OF_ONE_SNAPSHOT))}."
            )
            raise InvalidInputError(message, kind="system_table", name=self.identifier)

    def _only_read(self, *args: object, **more: object) -> NoReturn:
        """Refuse methods of a table of rows."""
        del args, more
        message = (
            f"'{self.identifier}' is a system table, made from metadata at each read: it has"
            " to_arrow(), to_batches(), to_pandas(), to_polars(), to_duckdb(), head() and count()."
            f" For anything else open '{self.identifier.rpartition('$')[0]}'."
        )
        raise UnsupportedError(message, kind="system_table", name=self.identifier)

    write = writer = append = overwrite = upsert = update = delete = compact = _only_read
    drop_partitions = truncate = rescale_bucket = rollback_to = _only_read

    @property
    def tags(self) -> _Refusing:
        """Refuse what tags do."""
        return _Refusing(self._only_read)

    maintenance = tags
    plan = explain = copy = with_options = _only_read
    scan: ClassVar[Callable[..., Any]] = _only_read
    changes: ClassVar[Callable[..., Any]] = _only_read
    changes_batches: ClassVar[Callable[..., Any]] = _only_read

    def to_batches(self, **scan: Any) -> pa.RecordBatchReader:
        """The rows as a stream of batches; arguments as of :meth:`to_arrow`."""
        return self.to_arrow(**scan).to_reader()

    def count(self, **scan: Any) -> int:
        """Number of rows; arguments as of :meth:`to_arrow`."""
        return self.to_arrow(**scan).num_rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as an Arrow stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        try:
            table = self.to_arrow()
        except TidelakeError as error:  # an unreadable table still shows
            return f"System table {self.identifier}: cannot be read: {error}"
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        lines = [f"System table {self.identifier}, {rows}"]
        cells = [table.column_names]
        cells += [[_cell(v) for v in row.values()] for row in table.slice(0, SHOWN_MAX).to_pylist()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += [
            "  " + "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        if table.num_rows > SHOWN_MAX:
            lines.append(f"  and {table.num_rows - SHOWN_MAX:,} more (see to_arrow())")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        try:
            table = self.to_arrow()
        except TidelakeError as error:
            return (
                f"<b>{html.escape(self.identifier)}</b>: cannot be read: {html.escape(str(error))}"
            )
        return History(self.identifier, table)._repr_html_()


class _Refusing:
    """A namespace whose methods refuse; to look for it is no error."""

    def __init__(self, refuse: Callable[..., NoReturn]) -> None:
        self._refuse = refuse

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._refuse


@dataclass(frozen=True, slots=True, repr=False)
class MetadataTable(SystemTable):
    """One system table of a table.

    Parameters
    ----------
    name : str
        The part of the name after ``$``.
    """

    handle: TableHandle
    name: str

    def __post_init__(self) -> None:
        if self.name.startswith(NAME_PREFIX):
            message = (
                f"'{self.identifier}' is a branch, and no system table: open it by that name with"
                " catalog.table()."
            )
            raise InvalidInputError(message, kind="system_table", name=self.name)
        if self.name in LATER_TABLES:
            message = (
                f"'{self.identifier}' is not covered by this version; there are:"
                f" {', '.join(SYSTEM_TABLE_NAMES)}."
            )
            raise UnsupportedError(message, kind="system_table", name=self.name)
        if self.name not in SYSTEM_TABLES:
            message = (
                f"There is no system table '{self.name}' of '{self.handle.identifier}'."
                f"{near_names(self.name, SYSTEM_TABLE_NAMES)} There are:"
                f" {', '.join(SYSTEM_TABLE_NAMES)}."
            )
            raise NotFoundError(message, kind="system_table_not_found", name=self.name)

    @property
    def identifier(self) -> str:
        """``"database.table$name"``."""
        return f"{self.handle.identifier}${self.name}"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return SYSTEM_TABLES[self.name][0]

    def _read(self, snapshot_id: int | None, timestamp: Time | None, tag: str | None) -> pa.Table:
        handle, (_, rows_of) = self.handle, SYSTEM_TABLES[self.name]
        if self.name not in OF_ONE_SNAPSHOT:
            self._check_no_moment(snapshot_id, timestamp, tag)
            return rows_of(handle, None)

        def read(snapshot: Snapshot | None, _: Snapshot | None) -> pa.Table:
            if snapshot is None:
                return rows_of(handle, None)
            with names_expiry(handle, snapshot.id):
                return rows_of(handle, snapshot)

        request = ScanRequest(snapshot_id=snapshot_id, timestamp=timestamp, tag=tag)
        return request.planned(handle, read)


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value), CELL_WIDTH_MAX)
