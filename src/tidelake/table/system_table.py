"""A table's metadata as small tables: ``cat.table("db.t$snapshots")``.

Names and columns are those of Paimon's system tables (1.3.1): ``$snapshots``, ``$schemas``,
``$options``, ``$tags`` (:mod:`tidelake.table.log_tables`), ``$files``, ``$partitions``,
``$buckets``, ``$manifests`` (:mod:`tidelake.table.file_tables`); and of 2.1: ``$file_indexes``
(:mod:`tidelake.table.file_index_rows`). Times of commits are in UTC.
"""

from __future__ import annotations

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
from tidelake.metadata.snapshot import Snapshot
from tidelake.table.arguments import column_names, row_limit
from tidelake.table.conversions import Conversions
from tidelake.table.file_index_rows import FILE_INDEXES, file_indexes_table
from tidelake.table.file_tables import (
    BUCKETS,
    FILES,
    MANIFESTS,
    PARTITIONS,
    buckets_table,
    files_table,
    manifests_table,
    partitions_table,
)
from tidelake.table.handle import TableHandle
from tidelake.table.log_tables import (
    OPTIONS,
    SCHEMAS,
    SNAPSHOTS,
    TAGS,
    options_table,
    schemas_table,
    snapshots_table,
    tags_table,
)
from tidelake.table.time_travel import Time
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.predicate import bind, evaluate, parse_filter

__all__ = ["SYSTEM_TABLES", "SystemTable"]

SHOWN_MAX = 20
"""Rows that a terminal shows."""
CELL_WIDTH_MAX = 40

LATER_TABLES = frozenset(
    {"aggregation_fields", "branches", "consumers", "read_optimized", "row_tracking", "statistics"}
    | {"table_indexes"}
)
"""System tables of Paimon that this version does not give."""

OF_ONE_SNAPSHOT = frozenset({"files", "file_indexes", "partitions", "buckets", "manifests"})
"""System tables that show one snapshot; the others are the same whatever moment is read."""

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
}


@dataclass(frozen=True, slots=True)
class SystemTable(Conversions):
    """One system table of a table; it is read anew at every call.

    Parameters
    ----------
    handle : TableHandle
        The table.
    name : str
        The part of the name behind ``$``.
    """

    handle: TableHandle
    name: str

    def __post_init__(self) -> None:
        if self.name in LATER_TABLES or self.name.startswith("branch_"):
            message = (
                f"'{self.identifier}' is not covered by this version; there are:"
                f" {', '.join(SYSTEM_TABLES)}."
            )
            raise UnsupportedError(message, kind="system_table", name=self.name)
        if self.name not in SYSTEM_TABLES:
            message = (
                f"There is no system table '{self.name}' of '{self.handle.identifier}'."
                f"{near_names(self.name, SYSTEM_TABLES)} There are: {', '.join(SYSTEM_TABLES)}."
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

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: object = None,
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
        filter : str, Predicate or list of tuples, optional
            The rows wanted, as of :meth:`tidelake.Table.scan`.
        limit : int, optional
            The most rows wanted.
        snapshot_id, timestamp, tag
            At most one, of ``$files``, ``$file_indexes``, ``$partitions``, ``$buckets`` and
            ``$manifests``: the moment to show, the newest snapshot by default.

        Raises
        ------
        NotFoundError
            No such column, snapshot or tag; near names are told.
        InvalidInputError
            The filter, the limit or the moment is wrong.
        """
        snapshot = self._snapshot(snapshot_id, timestamp, tag)
        schema, table_of = SYSTEM_TABLES[self.name]
        limit = row_limit(limit, table=self.identifier)
        names = column_names(columns, schema.names, table=self.identifier)
        for name in names:
            if name not in schema.names:
                message = (
                    f"'{self.identifier}' has no column '{name}'.{near_names(name, schema.names)}"
                    f" Its columns are {', '.join(schema.names)}."
                )
                raise NotFoundError(message, kind="column_not_found", column=name)
        flat = [f for f in schema if not pa.types.is_nested(f.type)]
        fields = fields_from_arrow(pa.schema(flat))
        parsed = parse_filter(filter)
        predicate = None if parsed is None else bind(parsed, fields)
        table = table_of(self.handle, snapshot)
        if predicate is not None:
            table = pa.Table.from_batches(
                [
                    b.filter(evaluate(predicate, b.select([f.name for f in flat]), fields))
                    for b in table.to_batches()
                ],
                schema=schema,
            )
        return table.select(names).slice(0, limit)

    def _snapshot(
        self, snapshot_id: int | None, timestamp: Time | None, tag: str | None
    ) -> Snapshot | None:
        if self.name in OF_ONE_SNAPSHOT:
            return self.handle.time_travel.resolve(
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                tag=tag,
                default=self.handle.options,
            )
        if not (snapshot_id is None and timestamp is None and tag is None):
            message = (
                f"'{self.identifier}' is not of one moment: leave snapshot_id, timestamp and tag"
                f" out. Of one moment are {', '.join(sorted(OF_ONE_SNAPSHOT))}."
            )
            raise InvalidInputError(message, kind="system_table", name=self.name)
        return None

    def _only_read(self, *args: object, **more: object) -> NoReturn:
        """Refuse what only a table of rows can."""
        del args, more
        message = (
            f"'{self.identifier}' is a system table, made of metadata whenever it is read: it has"
            " to_arrow(), to_batches(), to_pandas(), to_polars(), to_duckdb(), head() and count()."
            f" For all else open '{self.handle.identifier}'."
        )
        raise UnsupportedError(message, kind="system_table", name=self.name)

    write = writer = upsert = delete = compact = create_tag = delete_tag = _only_read
    drop_partitions = truncate = rescale_bucket = _only_read
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
        """The rows, for everything that speaks Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        try:
            table = self.to_arrow()
        except TidelakeError as error:  # what cannot be read still shows
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
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in row.values()) + "</tr>"
            for row in table.slice(0, 100).to_pylist()
        )
        return f"<b>{html.escape(self.identifier)}</b><table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value), CELL_WIDTH_MAX)
