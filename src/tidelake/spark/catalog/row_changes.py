"""DELETE, UPDATE and MERGE by plain ``spark.sql``, and ``DataFrame.mergeInto``.

Spark's own way to change rows (``SupportsRowLevelOperations``) reads whole groups of files and
writes them by its tasks. It has no place for a table's buckets, for deletion vectors or for the
retry of a commit. So a table does not claim to support it, and Spark leaves the statement alone:

1. Spark's analyzer resolves the statement: names, types, sub-queries, parameters, ``*``, DEFAULT.
2. Its planner would refuse it. A strategy of ours (``TidelakeChangeStrategy``) comes first, and
   plans a command. EXPLAIN shows that command; nothing runs by then.
3. The command runs once (``TidelakeChangeCommand``). It hands the analyzed statement to the table,
   as a ``TidelakeRowChange``: columns of the target and the source are names again, and Spark's
   casts to the columns' types are taken off.
4. From there on it is the code of ``tl.sql``: :mod:`tidelake.spark.rowlevel`. It applies its own
   rules of assignment, prunes files, and repeats an attempt if another commit was faster. Each
   attempt plans the sub-queries and the source again, so it reads them as they are then.

Files are pruned by the optimized condition, as far as Spark makes filters of it
(:mod:`tidelake.spark.expression.java_filter`). Where those are the whole condition, the kernel
evaluates it alone, and may drop whole partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.tables import Table, TableHandle
from tidelake.engine.write import CommitIdentity
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.errors.value_errors import translate_column_errors
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.java_filter import from_java_filters
from tidelake.spark.expression.struct_fields import FieldColumn, with_fields
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.slower import warn_slower
from tidelake.spark.rowlevel.delete_update import (
    Matching,
    delete_all,
    delete_on_spark,
    update_on_spark,
)
from tidelake.spark.rowlevel.merge_by_join import merge_on_spark
from tidelake.spark.rowlevel.merge_clauses import (
    MergeClause,
    MergeInto,
    resolved,
    with_source_columns,
)
from tidelake.spark.versions import SCHEMA_EVOLUTION, has
from tidelake.spark.write.schema_merging import merges_schema
from tidelake.sql.syntax.ast import Query
from tidelake.types.predicate import bind

_CLASSES = ("TidelakeRowChange", "TidelakeChangeCommand", "TidelakeChangeStrategy")
STRATEGY = f"{PACKAGE}.TidelakeChangeStrategy"
_BY_TL_SQL = "DELETE, UPDATE and MERGE run by tl.sql only"


def install_row_changes(gateway: Gateway) -> None:
    """Add the strategy to the session, or say once that it cannot have it."""
    try:
        for name in _CLASSES:
            defined_class(gateway.spark, name)
        gateway.java(STRATEGY).install(gateway.spark._jsparkSession)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        warn_slower(_BY_TL_SQL, gateway.spark.version, error)
        return
    gateway.changes_rows = True


def change_rows(
    spark: SparkSession, table: Table, identity: CommitIdentity, given: JavaObject
) -> None:
    """Carry out a statement.

    Parameters
    ----------
    table : Table
        With the options of the statement and the session.
    given : JavaObject
        A ``TidelakeRowChange``.
    """
    statement = _Statement.of(spark, table, given)
    run = {"delete": _delete, "update": _update, "merge": _merge}[str(given.kind())]
    run(statement, identity)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A new value of a column, or of a field inside it.

    Parameters
    ----------
    plain : str, optional
        The source's column that it is.
    text : Query
        As it stands in the statement.
    """

    path: tuple[str, ...]
    value: Column
    plain: str | None
    text: Query


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement that Spark has analyzed.

    Parameters
    ----------
    text : str
        The whole statement; empty where a DataFrame made it.
    """

    spark: SparkSession
    table: Table
    given: JavaObject
    target: str
    source: str
    text: str

    @classmethod
    def of(cls, spark: SparkSession, table: Table, given: JavaObject) -> _Statement:
        text = given.sqlText()
        aliases = (str(given.target()), str(given.source()))
        return cls(spark, table, given, *aliases, "" if text is None else str(text))

    def column(self, given: JavaObject) -> Column | None:
        return None if given is None else Column(given)

    def assignments(self, clause: int) -> list[_Assignment]:
        """The assignments of a clause of MERGE, or of UPDATE.

        Raises
        ------
        InvalidInputError
            A column or field gets two values.
        """
        given = self.given
        found = [
            _Assignment(
                tuple(map(str, path)),
                Column(value),
                None if plain is None else str(plain),
                self._words(str(text), int(start)),
            )
            for path, value, plain, text, start in zip(
                given.keysOf(clause),
                given.valuesOf(clause),
                given.plainOf(clause),
                given.textsOf(clause),
                given.startsOf(clause),
                strict=True,
            )
        ]
        taken: list[tuple[str, ...]] = []
        for one in found:
            other = next((t for t in taken if _overlap(t, one.path)), None)
            if other is not None:
                raise _set_twice(one.path, other)
            taken.append(one.path)
        return found

    def _words(self, text: str, start: int) -> Query:
        return (
            Query(text, 0, len(text)) if start < 0 else Query(self.text, start, start + len(text))
        )

    @contextmanager
    def value_errors(self, assignments: Sequence[_Assignment]) -> Iterator[None]:
        """Raise failures of new values with the column and the position."""
        values: dict[str, list[Query]] = {}
        for one in assignments:
            values.setdefault(one.path[0], []).append(one.text)
        with translate_column_errors(self.text, self.table.identifier, values):
            yield

    def matching(self) -> Matching:
        """The rows of WHERE: the kernel's filter prunes files, Spark evaluates the rest."""
        condition = self.column(self.given.condition())
        fields = self.table.table_schema.fields
        filters = tuple(self.given.filters())
        known = from_java_filters(filters, fields)
        predicate = None if known is None else bind(known, fields)
        is_whole = bool(self.given.areFiltersWhole()) and all(
            from_java_filters([one], fields) is not None for one in filters
        )
        return Matching(predicate, None if is_whole else condition, self.target)


def _overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def _set_twice(path: tuple[str, ...], other: tuple[str, ...]) -> InvalidInputError:
    shown = ".".join(path)
    message = f"{'Field' if len(path) > 1 else 'Column'} '{shown}' is set twice."
    if path != other:
        message = f"'{shown}' and '{'.'.join(other)}' overlap: set one of them."
    return InvalidInputError(message, kind="column_twice", column=path[0])


def _delete(statement: _Statement, identity: CommitIdentity) -> None:
    matching = statement.matching()
    if matching.predicate is None and matching.condition is None:
        delete_all(statement.spark, statement.table.handle, identity=identity)
        return
    delete_on_spark(
        statement.spark, statement.table.handle, matching, identity=identity, tasks=None
    )


def _update(statement: _Statement, identity: CommitIdentity) -> None:
    handle = statement.table.handle
    assignments = statement.assignments(0)
    with statement.value_errors(assignments):
        values = {one.path[0]: one.value for one in assignments if len(one.path) == 1}
        struct = spark_schema(handle.schema.fields, table=handle.identifier)
        rows = statement.spark.createDataFrame([], struct).alias(statement.target)
        for name, inside in _inside(assignments).items():
            values[name] = with_fields(
                rows,
                F.col(quoted(name)),
                handle.schema.field(name),
                inside,
                table=handle.identifier,
            )
        update_on_spark(
            statement.spark, handle, values, statement.matching(), identity=identity, tasks=None
        )


def _inside(assignments: Sequence[_Assignment]) -> dict[str, list[FieldColumn]]:
    """The new values inside columns."""
    found: dict[str, list[FieldColumn]] = {}
    for one in assignments:
        if len(one.path) > 1:
            found.setdefault(one.path[0], []).append((one.path[1:], one.value))
    return found


def _merge(statement: _Statement, identity: CommitIdentity) -> None:
    spark, given, handle = statement.spark, statement.given, statement.table.handle
    on = statement.column(given.condition())
    actions = tuple(map(str, given.actions()))
    is_evolved = given.evolves() and has(SCHEMA_EVOLUTION)  # by Spark's analyzer
    if not is_evolved and (given.evolves() or merges_schema(handle)):
        _check_no_new_columns(handle, DataFrame(given.sourceRows(), spark).columns)
    clauses, assignments = [], []
    for number, (when, action) in enumerate(zip(actions[::2], actions[1::2], strict=True)):
        condition = statement.column(given.conditionOf(number))
        own = [] if action == "delete" else statement.assignments(number)
        assignments += own
        clauses.append(
            MergeClause(
                when,  # type: ignore[arg-type]
                action,  # type: ignore[arg-type]
                condition,
                None if action == "delete" else _whole(own),
                {one.path[0]: one.plain for one in own if one.plain and len(one.path) == 1},
                _inside(own),
            )
        )
    equal = tuple(map(str, given.equal()))
    fields = handle.schema.fields
    merge = MergeInto(
        source=lambda: DataFrame(given.sourceRows(), spark),
        on=F.lit(value=True) if on is None else on,
        clauses=clauses,
        alias=statement.target,
        source_alias=statement.source,
        equal=list(zip(equal[::2], equal[1::2], strict=True)),
        predicate=from_java_filters(tuple(given.filters()), fields),
        looked_at=frozenset(str(name).casefold() for name in given.mentioned()),
        evolves=bool(given.evolves()) or merges_schema(handle),
    )
    handle = with_source_columns(spark, handle, merge)
    known = resolved(spark, handle, merge)
    with statement.value_errors(assignments):
        merge_on_spark(spark, handle, known, identity=identity, tasks=None)


def _check_no_new_columns(handle: TableHandle, names: Iterable[str]) -> None:
    """Refuse columns that ``*`` would bring: Spark leaves them out before we see a statement."""
    known = {field.name.casefold() for field in handle.schema.fields}
    new = [name for name in names if name.casefold() not in known]
    if new:
        instead = "run the same statement with tl.sql"
        if has(SCHEMA_EVOLUTION):
            instead = "write MERGE WITH SCHEMA EVOLUTION"
        message = (
            f"This MERGE by plain spark.sql brings no new columns into table '{handle.identifier}',"
            f" and its source has '{new[0]}': {instead}, or leave the column out of the source."
        )
        raise UnsupportedError(message, kind="merge_schema", table=handle.identifier, column=new[0])


def _whole(assignments: Sequence[_Assignment]) -> dict[str, Column]:
    return {one.path[0]: one.value for one in assignments if len(one.path) == 1}
