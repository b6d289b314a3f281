"""Runs drawn statements by three doors: plain ``spark.sql``, ``tl.sql``, and the kernel.

Each door has a table of its own. The kernel has no MERGE: its table gets the rows that the
statement must leave, so that all go on alike.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import quick_spark

from proving.statements import (
    COLUMNS,
    LAYOUTS,
    NESTED,
    Drawn,
    Filter,
    Row,
    Rows,
    Statement,
    partition_name,
    shown,
)
from tidelake import col
from tidelake.sql import SqlSession, execute, parse
from tidelake.types.predicate import Not, Predicate

NameOf = Callable[[str, object, dt.tzinfo], str]
DOORS = ("spark", "tl", "kernel")
STRUCTS = {False: "STRUCT<x: INT, y: INT>", True: "STRUCT<y: INT, x: INT>"}
ARROW_STRUCTS = {
    False: pa.struct([("x", pa.int32()), ("y", pa.int32())]),
    True: pa.struct([("y", pa.int32()), ("x", pa.int32())]),
}
FLAT = {
    "id": ("INT", pa.int32()),
    "p": ("STRING", pa.string()),
    "d": ("DATE", pa.date32()),
    "at": ("TIMESTAMP_LTZ", pa.timestamp("us", "UTC")),
    "n": ("TIMESTAMP_NTZ", pa.timestamp("us")),
    "v": ("INT", pa.int32()),
}
OF_KERNEL = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def sql_type(column: str, *, turned: bool) -> str:
    """Spark's name of a column's type."""
    struct = STRUCTS[turned]
    nested = {"s": struct, "l": f"ARRAY<{struct}>", "m": f"MAP<STRING, {struct}>"}
    return nested.get(column) or FLAT[column][0]


def arrow_type(column: str, *, turned: bool) -> pa.DataType:
    """Arrow's type of a column."""
    struct = ARROW_STRUCTS[turned]
    nested = {"s": struct, "l": pa.list_(struct), "m": pa.map_(pa.string(), struct)}
    return nested.get(column) or FLAT[column][1]


def literal(column: str, value: Any, *, turned: bool, names: str = "xy") -> str:
    """A value in Spark's SQL; `names` are those that the fields of structs get."""
    if value is None:
        return f"CAST(NULL AS {sql_type(column, turned=turned)})"
    if column == "l":
        inner = (literal("s", one, turned=turned, names=names) for one in value)
        return f"array({', '.join(inner)})"
    if column == "m":
        pairs = (f"'{k}', {literal('s', one, turned=turned, names=names)}" for k, one in value)
        return f"map({', '.join(pairs)})"
    if column == "s":
        x = f"'{names[0]}', {literal('v', value['x'], turned=turned)}"
        y = f"'{names[1]}', {literal('v', value['y'], turned=turned)}"
        return f"named_struct({f'{y}, {x}' if turned else f'{x}, {y}'})"
    if column in {"p", "d"}:
        return f"'{value}'" if column == "p" else f"DATE '{value}'"
    if isinstance(value, dt.datetime):
        return f"{FLAT[column][0]} '{value.isoformat(' ')}'"
    return f"CAST({value} AS INT)"


def condition(where: Filter, of: str = "") -> str:
    """A filter in SQL."""
    match where:
        case ("compare", column, operator, value):
            return f"{of}{column} {operator} {literal(column, value, turned=False)}"
        case ("in", column, values):
            listed = ", ".join(literal(column, one, turned=False) for one in values)
            return f"{of}{column} IN ({listed})"
        case ("null", column):
            return f"{of}{column} IS NULL"
        case ("not", part):
            return f"NOT ({condition(part, of)})"
    return f"({condition(where[1], of)} {where[0].upper()} {condition(where[2], of)})"


def predicate(where: Filter) -> Predicate:
    """A filter of the kernel."""
    match where:
        case ("compare", column, operator, value):
            return OF_KERNEL[operator](col(column), value)
        case ("in", column, values):
            return col(column).isin(list(values))
        case ("null", column):
            return col(column).is_null()
        case ("not", part):
            return Not(predicate(part))
    parts = [predicate(part) for part in where[1:]]
    return reduce((lambda a, b: a & b) if where[0] == "and" else (lambda a, b: a | b), parts)


def query(rows: Sequence[Row], columns: Sequence[str], *, turned: bool, names: str = "xy") -> str:
    """Rows as a query."""

    def one(row: Row) -> str:
        made = (f"{literal(c, row[c], turned=turned, names=names)} AS {c}" for c in columns)
        return f"SELECT {', '.join(made)}"

    return " UNION ALL ".join(map(one, rows))


def arrow(rows: Sequence[Row], *, turned: bool) -> pa.Table:
    """Rows for the kernel."""
    types = {name: arrow_type(name, turned=turned) for name in COLUMNS}
    made = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    return pa.table(made)


def text_of(given: Statement, table: str, by: str | None) -> str:
    """A statement in SQL, for Spark and for us."""
    turned, columns = given.turned, list(COLUMNS)
    others = [name for name in COLUMNS if name != by]
    if given.kind == "select":
        return f"SELECT * FROM {table} WHERE {condition(given.where)}"
    if given.kind == "insert":  # by position: names of fields say nothing
        return f"INSERT INTO {table} {query(given.rows, columns, turned=False, names='yx')}"
    if given.kind == "insert by name":
        return f"INSERT INTO {table} BY NAME {query(given.rows, columns[::-1], turned=turned)}"
    if given.kind == "overwrite partition":
        (value,) = given.partition
        shown_value = "NULL" if value is None else literal(by, value, turned=False)
        rows = query(given.rows, others, turned=False, names="yx")
        return f"INSERT OVERWRITE {table} PARTITION ({by} = {shown_value}) {rows}"
    if given.kind == "overwrite partitions":
        rows = query(given.rows, columns, turned=False, names="ab")
        return f"INSERT OVERWRITE {table} PARTITION ({by}) {rows}"
    new = ", ".join(f"{c} = {literal(c, v, turned=turned)}" for c, v in given.values.items())
    if given.kind == "update":
        return f"UPDATE {table} SET {new} WHERE {condition(given.where)}"
    if given.kind == "delete":
        return f"DELETE FROM {table} WHERE {condition(given.where)}"
    if given.kind == "show":
        asked = ""
        if given.partition is not None:
            (value,) = given.partition
            text = value.isoformat(" ") if isinstance(value, dt.datetime) else value
            asked = f" PARTITION ({by} = {'NULL' if value is None else repr(str(text))})"
        return f"SHOW PARTITIONS {table}{asked}"
    held = "" if given.where is None else f" AND {condition(given.where, 't.')}"
    does = {"update all": "UPDATE SET *", "update": f"UPDATE SET {new}", "delete": "DELETE"}
    return (
        f"MERGE INTO {table} AS t USING ({query(given.rows, columns, turned=turned)}) AS s"
        f" ON t.id = s.id WHEN MATCHED{held} THEN {does[given.action]}"
        " WHEN NOT MATCHED THEN INSERT *"
    )


def name_by_spark(column: str, value: object, zone: dt.tzinfo) -> str:
    """A partition as SHOW PARTITIONS of Spark's own shows it."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return f"{column}={'null' if value is None else value}"
    return partition_name(column, value, zone)


class Doors:
    """Three tables of one layout, and what must be in them.

    Parameters
    ----------
    lake : Lake
        The warehouse, in `catalog` of the session.
    catalog : str
        Its name for ``spark.sql``.
    layout : str
        Of :data:`proving.statements.LAYOUTS`.
    seed : int
        Of the statements.
    tables : str
        How the names of the tables begin.
    """

    def __init__(
        self, lake, catalog: str, layout: str, seed: int, *, tables: str = "drawn"
    ) -> None:
        self.lake, self.spark, self._catalog = lake, lake.spark, catalog
        self.drawn = Drawn(layout, seed)
        self.rows = Rows(self.drawn)
        by = LAYOUTS[layout]
        self.names = {door: f"db.{tables}_{layout}_{seed}_{door}" for door in DOORS}
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        options = "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'"
        for name in self.names.values():
            if by is None:
                rest = ", PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
            else:
                rest = f") PARTITIONED BY ({by}) WITH ({options})"
            lake.sql(f"CREATE TABLE {name} ({columns}{rest}")
        self.tables = {door: lake.catalog.table(name) for door, name in self.names.items()}

    def run(self, count: int) -> int:
        """Run so many statements; the first difference is an AssertionError with its statement."""
        for number, given in enumerate(self.drawn.statements(count)):
            self._step(given, number)
        return count

    def _step(self, given: Statement, number: int) -> None:
        is_read = given.kind in {"select", "show"}
        if not is_read:
            self.rows.apply(given)
        with self._settings(given):
            for door in DOORS:
                text = text_of(given, self.names[door], self.drawn.by)
                said = f"statement {number} by {door}, zones {given.zones}: {text}"
                try:
                    getattr(self, f"_{door}")(given, said)
                except Exception as error:
                    error.add_note(said)
                    raise
                if not is_read:
                    found = shown(self.tables[door].to_arrow().to_pylist())
                    assert found == self.rows.selected(None), said

    @contextlib.contextmanager
    def _settings(self, given: Statement) -> Iterator[None]:
        """The zones of the JVM and of the session, and what INSERT OVERWRITE replaces."""
        kind = self.spark._jvm.java.util.TimeZone
        before = kind.getDefault()
        kind.setDefault(kind.getTimeZone(given.zones[0]))
        conf = {"spark.sql.session.timeZone": given.zones[1]}
        if given.kind == "overwrite partitions":
            conf["spark.sql.sources.partitionOverwriteMode"] = "dynamic"
        try:
            with quick_spark.settings(self.spark, conf):
                yield
        finally:
            kind.setDefault(before)

    def _check(self, given: Statement, rows: pa.Table, said: str) -> None:
        assert shown(rows.to_pylist()) == self.rows.selected(given.where), said

    def _check_shown(
        self, given: Statement, names: Sequence[str], said: str, name_of: NameOf = partition_name
    ) -> None:
        """Partitions with rows are shown; others may be, as long as their files are there."""
        by, zone = self.drawn.by, ZoneInfo(given.zones[1])

        def texts(values: set[object]) -> set[str]:
            wanted = values if given.partition is None else values & set(given.partition)
            return {name_of(by, value, zone) for value in wanted}

        assert len(set(names)) == len(names), said
        assert texts({row[by] for row in self.rows.rows}) <= set(names), said
        assert set(names) <= texts(self.rows.partitions), said

    def _spark(self, given: Statement, said: str) -> None:
        name = f"{self._catalog}.{self.names['spark']}"
        text = text_of(given, name, self.drawn.by)
        if given.kind == "select":
            self._check(given, self.spark.sql(text).toArrow(), said)
            frame = self.lake.table(self.names["spark"]).where(condition(given.where))
            self._check(given, frame.toArrow(), f"DataFrame of {said}")
        elif given.kind == "show":
            names = [row.partition for row in self.spark.sql(text).collect()]
            self._check_shown(given, names, said, name_by_spark)
        else:
            self.spark.sql(text)

    def _tl(self, given: Statement, said: str) -> None:
        found = self.lake.sql(text_of(given, self.names["tl"], self.drawn.by))
        if given.kind == "select":
            self._check(given, found.toArrow(), said)
        elif given.kind == "show":
            self._check_shown(given, [row.partition for row in found.collect()], said)

    def _kernel(self, given: Statement, said: str) -> None:
        table = self.tables["kernel"]
        if given.kind == "select":
            self._check(given, table.to_arrow(where=predicate(given.where)), said)
        elif given.kind == "show":
            text = text_of(given, self.names["kernel"], self.drawn.by)
            zone = ZoneInfo(given.zones[1])
            session = SqlSession(self.lake.catalog, name="lake", time_zone=lambda: zone)
            (statement,) = parse(text)
            answer = execute(statement, session).to_pylist()
            self._check_shown(given, [row["partition"] for row in answer], said)
        elif given.kind.startswith("insert"):
            table.write(arrow(given.rows, turned=given.turned))
        elif given.kind == "overwrite partition":
            where = {self.drawn.by: given.partition[0]}
            rows = arrow(given.rows, turned=given.turned)
            table.write(rows, mode="overwrite", partition=where)
        elif given.kind == "overwrite partitions":
            table.write(arrow(given.rows, turned=given.turned), mode="overwrite")
        elif given.kind == "update":
            table.update(_scalars(given.values, turned=given.turned), predicate(given.where))
        elif given.kind == "delete":
            table.delete(predicate(given.where))
        else:
            whole = {"dynamic-partition-overwrite": "false"}
            table.write(arrow(self.rows.rows, turned=False), mode="overwrite", options=whole)


def _scalars(values: Mapping[str, object], *, turned: bool) -> dict[str, object]:
    return {
        name: pa.scalar(value, arrow_type(name, turned=turned)) if name in NESTED else value
        for name, value in values.items()
    }
