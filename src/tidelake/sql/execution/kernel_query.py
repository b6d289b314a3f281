"""Queries that the kernel answers alone: the rows of one table, or their number.

1. The query is looked into (:mod:`tidelake.sql.query.query`), and every name in it is looked up.
2. It must be a SELECT of columns, ``*`` or ``count(*)`` from one table, perhaps with LIMIT, or of a
   system table with ORDER BY.
3. Its whole WHERE must be a filter that means here what it means on Spark
   (:func:`tidelake.sql.query.pushdown.whole_filter`).
4. The table's scan gives the rows, as a stream in bounded memory.

Whatever else a query says is Spark's to answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, NotFoundError, near_names
from tidelake.options import declared, session_options
from tidelake.sql.execution.error_position import is_file_format, unknown_table
from tidelake.sql.execution.session import ForeignTable, SqlSession, View
from tidelake.sql.execution.time_travel_clause import moment_of
from tidelake.sql.query.pushdown import whole_filter
from tidelake.sql.query.query import ParsedQuery, Reference, read_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.tokens import fault
from tidelake.table import RowView, SystemTable, Table
from tidelake.table.read.scan_request import ScanRequest
from tidelake.types import DataField
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.predicate import Predicate

__all__ = ["count_alone", "kernel_answer"]

SESSION_PREFIX = "spark.tidelake."
SPARK_CATALOGS = "spark.sql.catalog."
COUNT_NAME = "count(1)"
"""What Spark calls the column of ``count(*)``."""
BINLOG = "binlog"
_INCREMENTAL = frozenset(
    {declared.INCREMENTAL_BETWEEN.key, declared.INCREMENTAL_BETWEEN_TIMESTAMP.key}
)
_CLAUSES = frozenset({"expressions", "from_", "where", "limit", "order"})
_OF_TABLE = ("joins", "sample", "pivots", "laterals")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a simple SELECT asks for.

    Parameters
    ----------
    columns : tuple of str
        By their names in the table, one perhaps twice.
    names : tuple of str
        What the answer calls them.
    counts : bool
        The number of rows instead.
    filter : Predicate, optional
        The rows wanted.
    limit : int, optional
        The most rows wanted.
    order : tuple of (str, bool)
        Columns to sort by, each with whether it falls.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    counts: bool
    filter: Predicate | None
    limit: int | None
    order: tuple[tuple[str, bool], ...]


def kernel_answer(
    query: Query, session: SqlSession, *, conf: Mapping[str, str]
) -> pa.RecordBatchReader | None:
    """Answer a query without Spark; None where Spark is needed.

    Parameters
    ----------
    query : Query
        The query.
    session : SqlSession
        What its names mean.
    conf : mapping of str to str
        Settings that Spark's session would have.

    Returns
    -------
    pyarrow.RecordBatchReader or None
        The rows, as the tables are now.

    Raises
    ------
    NotFoundError, InvalidInputError, UnsupportedError
        As :meth:`tidelake.spark.Lake.sql` raises them.
    """
    parsed = read_query(query)
    found = [(r, _found(r, parsed, session, conf)) for r in parsed.references]
    if query.explain or len(found) != 1:
        return None
    reference, table = found[0]
    if table is None or reference.function is not None:
        return None
    if not reference.clause.options.keys().isdisjoint(_INCREMENTAL):
        return None
    if isinstance(table, Table):
        own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
        table = _with_options(table, {**own, **reference.clause.options}, session)
    elif reference.clause.options:
        return None
    moment = moment_of(reference.clause, table, session)
    fields = _fields(table, moment)
    # a system table is filtered by its plain columns
    filterable = fields
    if not isinstance(table, Table):
        filterable = tuple(f for f in fields if not f.type.is_nested)
    wanted = _wanted(parsed, reference, fields, filterable)
    if wanted is None or (wanted.order and isinstance(table, Table | RowView)):
        return None
    if wanted.filter is not None and isinstance(table, RowView) and table.name == BINLOG:
        return None  # its columns are lists there
    return _answer(table, wanted, moment)


def count_alone(tree: exp.Expr) -> str | None:
    """The name of the only column of a ``SELECT count(*) FROM t``; None for any other query."""
    said = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or not said <= {"expressions", "from_"}:
        return None
    table = tree.args["from_"].this if tree.args.get("from_") is not None else None
    return _counted_name(tree) if _is_plain_table(table) else None


def _counted_name(select: exp.Select) -> str | None:
    """What a SELECT of ``count(*)`` alone calls it; None for any other."""
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


def _found(
    reference: Reference, parsed: ParsedQuery, session: SqlSession, conf: Mapping[str, str]
) -> Table | SystemTable | None:
    """The table of a name; None for what only Spark reads."""
    name: TableName = reference.name
    temporary = session.temporary_of(name)
    if isinstance(temporary, View):
        return None
    if isinstance(temporary, ForeignTable):
        session.table(name, use="read")  # refuses, with the reason
    try:
        return session.table(name, use="read")
    except InvalidInputError:
        if is_file_format(name):  # a path is no name of a table
            return None
        raise
    except NotFoundError as error:
        if is_file_format(name) or any(key.startswith(SPARK_CATALOGS) for key in conf):
            return None
        raise unknown_table(error, name, parsed.query.text, session) from error


def _with_options(table: Table, options: dict[str, str], session: SqlSession) -> Table:
    """The table with the options of one use; a time among them is in the session's zone."""
    if not options:
        return table
    found = table.with_options(options)
    time = found.options.get(declared.SCAN_TIMESTAMP)
    if time is None:
        return found
    at = session.time(time).isoformat()
    return found.with_options({**options, declared.SCAN_TIMESTAMP.key: at})


def _fields(table: Table | SystemTable, moment: Mapping[str, Any]) -> tuple[DataField, ...]:
    """The columns that filters may look at, and the others, in the table's order."""
    if isinstance(table, Table):
        return ScanRequest(**moment).fields(table.handle)
    return tuple(fields_from_arrow(table.schema))


def _wanted(
    parsed: ParsedQuery,
    reference: Reference,
    fields: Sequence[DataField],
    filterable: Sequence[DataField],
) -> _Wanted | None:
    """What the query asks for, if it is a simple one."""
    tree = parsed.tree
    said = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or not said <= _CLAUSES or "from_" not in said:
        return None
    if tree.args["from_"].this is not reference.node or not _is_plain_table(reference.node):
        return None
    alias = reference.node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    limit = _limit(tree)
    if limit is None and "limit" in said:
        return None
    by_key = {f.name.casefold(): f.name for f in fields}
    if len(by_key) < len(fields) or reference.alias.casefold() in by_key:
        return None  # names that differ by case alone, or look like a struct's
    counted = _counted_name(tree)
    order: tuple[tuple[str, bool], ...] | None = ()
    if "order" in said:
        order = _order(tree, reference, by_key)
    if order is None or (counted is not None and (order or limit is not None)):
        return None
    columns = [] if counted is not None else _columns(parsed, reference, by_key)
    if columns is None:
        return None
    tree.set("limit", None)
    tree.set("order", None)
    row_filter = None
    if "where" in said:
        row_filter = whole_filter(parsed, reference, filterable)
        if row_filter is None:
            return None
    names = (counted,) if counted is not None else tuple(name for _, name in columns)
    return _Wanted(
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
    select: exp.Select, reference: Reference, by_key: Mapping[str, str]
) -> tuple[tuple[str, bool], ...] | None:
    """The columns to sort by; None where it sorts by something else."""
    found = []
    # what the query itself calls a column comes before the table's
    renamed = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)}
    for ordered in select.args["order"].expressions:
        if not isinstance(ordered, exp.Ordered) or not isinstance(ordered.this, exp.Column):
            return None
        falls = bool(ordered.args.get("desc"))
        nulls_first = ordered.args.get("nulls_first")
        if ordered.args.get("with_fill") or (
            nulls_first is not None and bool(nulls_first) == falls
        ):
            return None  # not where Spark has nulls by default
        column = _own(ordered.this, reference, by_key)
        if column is None or column.casefold() in renamed:
            return None
        found.append((column, falls))
    return tuple(found)


def _own(column: exp.Column, reference: Reference, by_key: Mapping[str, str]) -> str | None:
    """The table's column that is meant; None where it is none of the table's."""
    if column.args.get("db") is not None or not isinstance(column.this, exp.Identifier):
        return None
    if column.table and column.table.casefold() != reference.alias.casefold():
        return None
    return by_key.get(column.name.casefold())


def _columns(
    parsed: ParsedQuery, reference: Reference, by_key: Mapping[str, str]
) -> list[tuple[str, str]] | None:
    """The table's columns with what the answer calls them; None where there is an expression."""
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
        own = _own(column, reference, by_key)
        if own is None:
            _refuse_unknown(parsed, column, by_key)
            return None
        found.append((own, item.alias if isinstance(item, exp.Alias) else column.name))
    return found


_WITHOUT_PARENTHESES = ("current", "local", "session", "user", "_")


def _refuse_unknown(parsed: ParsedQuery, column: exp.Column, by_key: Mapping[str, str]) -> None:
    """Raise for a name that is no column, and no function that is called without parentheses."""
    name = column.name
    if column.table or name.casefold().startswith(_WITHOUT_PARENTHESES):
        return
    start = column.this.meta.get("start")
    if start is None:
        return
    near = near_names(name, by_key.values()) or f" There are: {', '.join(by_key.values())}."
    message = f"There is no column `{name}`.{near}"
    raise fault(parsed.query.text, start, message, kind="sql_analysis")


# ---- rows


def _answer(
    table: Table | SystemTable, wanted: _Wanted, moment: Mapping[str, Any]
) -> pa.RecordBatchReader:
    if wanted.counts:
        number = table.count(filter=wanted.filter, **moment)
        counted = pa.table({wanted.names[0]: pa.array([number], pa.int64())})
        return counted.to_reader()
    needed = list(dict.fromkeys((*wanted.columns, *(name for name, _ in wanted.order))))
    if wanted.order:
        rows = table.to_arrow(columns=needed, filter=wanted.filter, **moment)
        reader = _sorted(rows, wanted.order).slice(0, wanted.limit).to_reader()
    else:
        reader = table.to_batches(
            columns=needed, filter=wanted.filter, limit=wanted.limit, **moment
        )
    places = [needed.index(name) for name in wanted.columns]
    fields = [
        reader.schema.field(at).with_name(name)
        for at, name in zip(places, wanted.names, strict=True)
    ]
    schema = pa.schema(fields)
    return pa.RecordBatchReader.from_batches(schema, _chosen(reader, places, schema))


def _chosen(
    batches: Iterable[pa.RecordBatch], places: Sequence[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(at) for at in places], schema=schema)


def _sorted(rows: pa.Table, order: Sequence[tuple[str, bool]]) -> pa.Table:
    """Rows in order, nulls where Spark has them: first where it rises, last where it falls."""
    keys = [
        (name, "descending", "at_end") if falls else (name, "ascending", "at_start")
        for name, falls in order
    ]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))
