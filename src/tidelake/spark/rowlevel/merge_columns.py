"""The changes of a row under the clauses of a merge, as Spark columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidelake.spark.rowlevel.merge_clauses import ResolvedClause
from tidelake.types import RowKind

CLAUSE = "_tidelake_clause"
"""The number of a row's clause."""


def kind_of(kind: RowKind) -> Column:
    """A row kind as its byte."""
    return F.lit(int(kind)).cast("tinyint")


def kind_of_change(clauses: Sequence[ResolvedClause]) -> Column:
    """The kind of an existing row's change, by its clause."""
    deletes = [c.number for c in clauses if c.action == "delete"]
    if not deletes:
        return kind_of(RowKind.UPDATE_AFTER)
    return F.when(F.col(CLAUSE).isin(deletes), kind_of(RowKind.DELETE)).otherwise(
        kind_of(RowKind.UPDATE_AFTER)
    )


def first_of(tests: Sequence[tuple[ResolvedClause, Column]]) -> Column:
    """The number of the first clause that holds; null if none does."""
    number = F.lit(None).cast("int")
    for clause, test in reversed(tests):
        held = test if clause.condition is None else test & clause.condition
        number = F.when(held, F.lit(clause.number)).otherwise(number)
    return number


def new_value(clauses: Sequence[ResolvedClause], name: str, old: Column) -> Column:
    """The new value of a column under its row's clause."""
    value = old
    for clause in clauses:
        if clause.values is not None and name in clause.values:
            said = F.col(CLAUSE) == F.lit(clause.number)
            value = F.when(said, clause.values[name]).otherwise(value)
    return value
