"""Queries of one table that the kernel answers without Spark.

1. The query is parsed (:mod:`tidelake.sql.query.query`), and its names are resolved.
2. It must be a SELECT of columns, ``*`` or ``count(*)`` from one table, perhaps with LIMIT, or of a
   system table with ORDER BY.
3. Its whole WHERE must be a filter with the same meaning as on Spark
   (:func:`tidelake.sql.query.pushdown.complete_filter`).
4. The table's scan streams the rows in bounded memory.

Spark answers any other query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.engine.scan import ScanRequest
from tidelake.engine.tables import RowView, SystemTable, Table
from tidelake.errors import InvalidInputError, NotFoundError, near_names
from tidelake.options import declared, session_options
from tidelake.sql.execution.error_position import is_file_format, unknown_table_error
from tidelake.sql.execution.session import ForeignTable, SqlSession, View
from tidelake.sql.execution.time_travel_clause import time_travel_arguments
from tidelake.sql.query.pushdown import complete_filter
from tidelake.sql.query.query import ParsedQuery, TableReference, parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.sqlglot_dialect import exp, used_args
from tidelake.sql.syntax.tokens import error_at
from tidelake.types import DataField
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.predicate import Predicate

SESSION_PREFIX = "spark.tidelake."
SPARK_CATALOGS = "spark.sql.catalog."
COUNT_NAME = "count(1)"
"""Spark's name for the column of ``count(*)``."""
BINLOG = "binlog"
_INCREMENTAL = frozenset(
    {declared.INCREMENTAL_BETWEEN.key, declared.INCREMENTAL_BETWEEN_TIMESTAMP.key}
)
_CLAUSES = frozenset({"expressions", "from_", "where", "limit", "order"})
_OF_TABLE = ("joins", "sample", "pivots", "laterals")


@dataclass(frozen=True, slots=True)
class _SimpleSelect:
    """A simple SELECT.

    Parameters
    ----------
    is_count : bool
        ``count(*)`` instead of rows.
    order : tuple of (str, bool)
        Columns to sort by; True for descending.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    is_count: bool
    where: Predicate | None
    limit: int | None
    order: tuple[tuple[str, bool], ...]


def kernel_answer(
    query: Query, session: SqlSession, *, conf: Mapping[str, str]
) -> pa.RecordBatchReader | None:
    """Answer a query without Spark; None if Spark must run it.

    Returns
    -------
    pyarrow.RecordBatchReader or None
        The current rows.

    Raises
    ------
    NotFoundError, InvalidInputError, UnsupportedError
        As :meth:`tidelake.spark.Lake.sql`.
    """
    parsed = parse_query(query)
    found = [(r, _open(r, parsed, session, conf)) for r in parsed.references]
    if query.explain or len(found) != 1:
        return None
    reference, table = found[0]
    if table is None or reference.function is not None or reference.clause.stream is not None:
        return None
    if not reference.clause.options.keys().isdisjoint(_INCREMENTAL):
        return None
    if isinstance(table, Table):
        own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
        table = _with_options(table, {**own, **reference.clause.options}, session)
    elif reference.clause.options:
        return None
    time_travel = time_travel_arguments(reference.clause, table, session)
    fields = _fields(table, time_travel)
    # a system table is filtered by its plain columns
    filterable = fields
    if not isinstance(table, Table):
        filterable = tuple(f for f in fields if not f.type.is_nested)
    simple = _analyse(parsed, reference, fields, filterable)
    if simple is None or (simple.order and isinstance(table, Table | RowView)):
        return None
    if simple.where is not None and isinstance(table, RowView) and table.name == BINLOG:
        return None  # its columns are lists there
    return _answer(table, simple, time_travel)


@dataclass(frozen=True, slots=True)
class PlainAggregate:
    """An aggregate of a SELECT that metadata may answer.

    Parameters
    ----------
    function : str
        ``count``, ``min`` or ``max``.
    column : str or None
        The table's column; None for ``count(*)``.
    """

    function: str
    column: str | None
    name: str


def plain_aggregates(
    parsed: ParsedQuery, reference: TableReference, columns: Sequence[str]
) -> tuple[PlainAggregate, ...] | None:
    """The aggregates of ``SELECT count(*), min(a) ... FROM t [WHERE ...]``; None for others."""
    tree = parsed.tree
    if not isinstance(tree, exp.Select) or not used_args(tree) <= {"expressions", "from_", "where"}:
        return None
    table = tree.args["from_"].this if tree.args.get("from_") is not None else None
    if table is not reference.node or not _is_plain_table(table):
        return None
    alias = reference.node.args.get("alias")
    by_key = {name.casefold(): name for name in columns}
    if len(by_key) < len(columns) or (alias is not None and alias.args.get("columns")):
        return None
    found = [_plain_aggregate(node, reference, by_key) for node in tree.expressions]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(found) else None


_AGGREGATES: Mapping[type[Any], str] = {exp.Count: "count", exp.Min: "min", exp.Max: "max"}


def _plain_aggregate(
    node: exp.Expr, reference: TableReference, by_key: Mapping[str, str]
) -> PlainAggregate | None:
    """An expression as an aggregate; Spark names it by function and the column's spelling here."""
    called = node.this if isinstance(node, exp.Alias) else node
    function = _AGGREGATES.get(type(called))
    if function is None or not used_args(called) <= {"this", "big_int"}:
        return None
    if function == "count" and isinstance(called.this, exp.Star):
        column, name = None, COUNT_NAME
    else:
        argument = called.this
        if not isinstance(argument, exp.Column) or argument.args.get("db"):
            return None
        if argument.table and argument.table.casefold() != reference.alias.casefold():
            return None
        column = by_key.get(argument.name.casefold())
        if column is None:
            return None
        name = f"{function}({argument.name})"
    if isinstance(node, exp.Alias):
        name = node.alias
    return PlainAggregate(function, column, name)


def _counted_name(select: exp.Select) -> str | None:
    """Column name of a SELECT with only ``count(*)``; None for any other."""
    if len(select.expressions) != 1:
        return None
    column = select.expressions[0]
    name = column.alias if isinstance(column, exp.Alias) else COUNT_NAME
    counted = column.this if isinstance(column, exp.Alias) else column
    if not isinstance(counted, exp.Count) or not isinstance(counted.this, exp.Star):
        return None
    return name if not counted.expressions else None


def _is_plain_table(table: object) -> bool:
    return isinstance(table, exp.Table) and not any(table.args.get(key) for key in _OF_TABLE)


def _open(
    reference: TableReference, parsed: ParsedQuery, session: SqlSession, conf: Mapping[str, str]
) -> Table | SystemTable | None:
    """Find the table of a reference; None if only Spark can read it."""
    name: TableName = reference.name
    temporary = session.find_temporary(name)
    if isinstance(temporary, View):
        return None
    if isinstance(temporary, ForeignTable):
        session.table(name, use="read")  # raises
    try:
        return session.table(name, use="read")
    except InvalidInputError:
        if is_file_format(name):
            return None
        raise
    except NotFoundError as error:
        if is_file_format(name) or any(key.startswith(SPARK_CATALOGS) for key in conf):
            return None
        raise unknown_table_error(error, name, parsed.query.text, session) from error


def _with_options(table: Table, options: dict[str, str], session: SqlSession) -> Table:
    """Apply options to a table; a time without zone is in the session's."""
    if not options:
        return table
    found = table.with_options(options)
    time = found.options.get(declared.SCAN_TIMESTAMP)
    if time is None:
        return found
    at = session.time(time).isoformat()
    return found.with_options({**options, declared.SCAN_TIMESTAMP.key: at})


def _fields(table: Table | SystemTable, time_travel: Mapping[str, Any]) -> tuple[DataField, ...]:
    """The table's columns, at its snapshot."""
    if isinstance(table, Table):
        return ScanRequest(**time_travel).fields(table.handle)
    return tuple(fields_from_arrow(table.schema))


def _analyse(
    parsed: ParsedQuery,
    reference: TableReference,
    fields: Sequence[DataField],
    filterable: Sequence[DataField],
) -> _SimpleSelect | None:
    """Analyse the query; None if it is not simple."""
    tree = parsed.tree
    used = used_args(tree)
    if not isinstance(tree, exp.Select) or not used <= _CLAUSES or "from_" not in used:
        return None
    if tree.args["from_"].this is not reference.node or not _is_plain_table(reference.node):
        return None
    alias = reference.node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    limit = _limit(tree)
    if limit is None and "limit" in used:
        return None
    by_key = {f.name.casefold(): f.name for f in fields}
    if len(by_key) < len(fields) or reference.alias.casefold() in by_key:
        return None  # names differ only in case, or may be a struct's
    counted = _counted_name(tree)
    order: tuple[tuple[str, bool], ...] | None = ()
    if "order" in used:
        order = _order(tree, reference, by_key)
    if order is None or (counted is not None and (order or limit is not None)):
        return None
    columns = [] if counted is not None else _columns(parsed, reference, by_key)
    if columns is None:
        return None
    tree.set("limit", None)
    tree.set("order", None)
    row_filter = None
    if "where" in used:
        row_filter = complete_filter(parsed, reference, filterable)
        if row_filter is None:
            _refuse_unknown_in(tree.args["where"], parsed, reference, by_key)
            return None
    names = (counted,) if counted is not None else tuple(name for _, name in columns)
    return _SimpleSelect(
        tuple(column for column, _ in columns),
        names,
        counted is not None,
        row_filter,
        limit,
        order,
    )


def _limit(select: exp.Select) -> int | None:
    limit = select.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdecimal():
        return None
    return int(number.this)


def _order(
    select: exp.Select, reference: TableReference, by_key: Mapping[str, str]
) -> tuple[tuple[str, bool], ...] | None:
    """The columns to sort by; None for other expressions."""
    found = []
    # an alias of the query hides the table's column
    renamed = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)}
    for ordered in select.args["order"].expressions:
        if not isinstance(ordered, exp.Ordered) or not isinstance(ordered.this, exp.Column):
            return None
        descending = bool(ordered.args.get("desc"))
        nulls_first = ordered.args.get("nulls_first")
        if ordered.args.get("with_fill") or (
            nulls_first is not None and bool(nulls_first) == descending
        ):
            return None  # not Spark's default for nulls
        column = _resolve(ordered.this, reference, by_key)
        if column is None or column.casefold() in renamed:
            return None
        found.append((column, descending))
    return tuple(found)


def _resolve(
    column: exp.Column, reference: TableReference, by_key: Mapping[str, str]
) -> str | None:
    """Resolve a column of the table; None for any other."""
    if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
        return None
    if column.table and column.table.casefold() != reference.alias.casefold():
        return None
    return by_key.get(column.name.casefold())


def _columns(
    parsed: ParsedQuery, reference: TableReference, by_key: Mapping[str, str]
) -> list[tuple[str, str]] | None:
    """The selected columns, each with its name in the answer; None for expressions."""
    found: list[tuple[str, str]] = []
    for item in parsed.tree.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            found += [(name, name) for name in by_key.values()]
            continue
        column = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(column, exp.Column):
            return None
        if isinstance(column.this, exp.Star):
            return None
        own = _resolve(column, reference, by_key)
        if own is None:
            _refuse_unknown(parsed, column, by_key)
            return None
        found.append((own, item.alias if isinstance(item, exp.Alias) else column.name))
    return found


_WITHOUT_PARENTHESES = ("current", "local", "session", "user", "_")


def _refuse_unknown_in(
    condition: exp.Expr, parsed: ParsedQuery, reference: TableReference, by_key: Mapping[str, str]
) -> None:
    """Refuse an unknown column of a condition that has no names of its own."""
    if condition.find(exp.Lambda, exp.Query) is not None:
        return
    for column in condition.find_all(exp.Column):
        if isinstance(column.this, exp.Identifier) and _resolve(column, reference, by_key) is None:
            _refuse_unknown(parsed, column, by_key)


def _refuse_unknown(parsed: ParsedQuery, column: exp.Column, by_key: Mapping[str, str]) -> None:
    """Refuse an unknown column; functions without parentheses pass."""
    name = column.name
    if column.table or name.casefold().startswith(_WITHOUT_PARENTHESES):
        return
    start = column.this.meta.get("start")
    if start is None:
        return
    near = near_names(name, by_key.values()) or f" There are: {', '.join(by_key.values())}."
    message = f"There is no column `{name}`.{near}"
    raise error_at(parsed.query.text, start, message, kind="sql_analysis")


# ---- rows


def _answer(
    table: Table | SystemTable, simple: _SimpleSelect, time_travel: Mapping[str, Any]
) -> pa.RecordBatchReader:
    if simple.is_count:
        number = table.count(where=simple.where, **time_travel)
        counted = pa.table({simple.names[0]: pa.array([number], pa.int64())})
        return counted.to_reader()
    read_columns = list(dict.fromkeys((*simple.columns, *(name for name, _ in simple.order))))
    if simple.order:
        rows = table.to_arrow(columns=read_columns, where=simple.where, **time_travel)
        reader = _sorted(rows, simple.order).slice(0, simple.limit).to_reader()
    else:
        reader = table.to_batches(
            columns=read_columns, where=simple.where, limit=simple.limit, **time_travel
        )
    indexes = [read_columns.index(name) for name in simple.columns]
    fields = [
        reader.schema.field(index).with_name(name)
        for index, name in zip(indexes, simple.names, strict=True)
    ]
    schema = pa.schema(fields)
    return pa.RecordBatchReader.from_batches(schema, _select_columns(reader, indexes, schema))


def _select_columns(
    batches: Iterable[pa.RecordBatch], indexes: Sequence[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(index) for index in indexes], schema=schema)


def _sorted(rows: pa.Table, order: Sequence[tuple[str, bool]]) -> pa.Table:
    """Sort rows; as in Spark, nulls come first ascending and last descending."""
    keys = [
        (name, "descending", "at_end") if descending else (name, "ascending", "at_start")
        for name, descending in order
    ]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))
