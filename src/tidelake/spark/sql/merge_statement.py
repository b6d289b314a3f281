"""MERGE of a statement: its words as columns, its faults at their places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession

from tidelake.errors import TidelakeError
from tidelake.spark.errors.analysis_errors import in_our_words
from tidelake.spark.errors.value_errors import naming_columns, values_of
from tidelake.spark.rowlevel.merge_by_join import merge_on_spark
from tidelake.spark.rowlevel.merge_clauses import (
    MergeClause,
    MergeInto,
    resolved,
    with_source_columns,
)
from tidelake.spark.sql.expressions import StatementExpressions
from tidelake.spark.write.schema_merging import merges_schema
from tidelake.sql.query.expression import RowSource
from tidelake.sql.query.merge_terms import MergeTerms, source_rows
from tidelake.sql.syntax.ast import Merge, Query, WhenClause
from tidelake.sql.syntax.tokens import error_at
from tidelake.table import Table
from tidelake.table.write.result import CommitIdentity

__all__ = ["SourceQuery", "merge_by_statement"]


class SourceQuery(Protocol):
    """Gives the rows of a source; of a table alone, the columns of these names."""

    def __call__(self, words: Query, names: frozenset[str] | None) -> DataFrame:
        """Read them."""
        ...


def merge_by_statement(
    spark: SparkSession,
    statement: Merge,
    text: str,
    table: Table,
    *,
    source: SourceQuery,
    expressions: StatementExpressions,
) -> None:
    """Carry MERGE out.

    Parameters
    ----------
    statement : Merge
        It.
    text : str
        The whole text, for messages.
    table : Table
        With the options of the session and of this use.
    source : callable
        Gives the rows of the source.
    expressions : StatementExpressions
        Open while this runs.
    """
    fields = table.table_schema.fields
    said = [statement.on]
    for clause in statement.clauses:
        said += [clause.condition] if clause.condition is not None else []
        said += (clause.values or {}).values()
        said += (one.value for inside in clause.field_values.values() for one in inside)
    evolves = statement.evolves or merges_schema(table.handle)
    whole_rows = any(c.values is None and c.action != "delete" for c in statement.clauses)
    sides = (RowSource(statement.name, statement.alias), source_rows(statement.source))
    terms = MergeTerms(*sides, fields, ())
    looked_at = terms.mentioned_names(*said)
    # of a column of which fields are set the others are kept
    looked_at |= {name.casefold() for clause in statement.clauses for name in clause.field_values}
    names: frozenset[str] | None = looked_at
    if whole_rows:
        names = None if evolves else looked_at | {f.name.casefold() for f in fields}
    columns = source(statement.source, names).columns
    terms = MergeTerms(*sides, fields, columns)
    with in_our_words(Query(text, 0, len(text)), [*(f.name for f in fields), *columns]):
        on = terms.read(statement.on)
        merge = MergeInto(
            source=lambda: source(statement.source, names),
            on=expressions.column(on),
            clauses=[_clause(c, terms, expressions) for c in statement.clauses],
            alias=terms.target.shown,
            source_alias=terms.source.shown,
            equal=terms.equal(on),
            predicate=terms.predicate(on),
            looked_at=looked_at,
            fresh=expressions.fresh,
            evolves=evolves,
        )
        with _placed(text, statement):
            handle = with_source_columns(spark, table.handle, merge)
            known = resolved(spark, handle, merge)
        with naming_columns(text, table.identifier, values_of(statement)):
            merge_on_spark(
                spark,
                handle,
                known,
                identity=CommitIdentity.of(handle, None, None),
                tasks=None,
            )


def _clause(said: WhenClause, terms: MergeTerms, expressions: StatementExpressions) -> MergeClause:
    # of rows that the source has not, a name that both sides have is the target's
    qualified = terms.target_qualifier() if said.when == "not_matched_by_source" else None

    def column(words: Query) -> Column:
        return expressions.column(terms.read(words), qualified=qualified)

    if said.values is None:
        values, plain = None, {}
    else:
        values = {name: column(words) for name, words in said.values.items()}
        plain = terms.plain({name: terms.read(words) for name, words in said.values.items()})
    condition = None if said.condition is None else column(said.condition)
    inside = {
        name: [(one.path, column(one.value)) for one in given]
        for name, given in said.field_values.items()
    }
    return MergeClause(said.when, said.action, condition, values, plain, inside)


@contextmanager
def _placed(text: str, statement: Merge) -> Iterator[None]:
    """Show the words that a fault of a clause is about."""
    try:
        yield
    except TidelakeError as error:
        number = error.context.get("clause")
        if not isinstance(number, int):
            raise
        clause = statement.clauses[number]
        start = clause.positions.get(str(error.context.get("column")), clause.start)
        context = {k: v for k, v in error.context.items() if k != "clause"}
        raise error_at(
            text, start, error.message, kind=error.kind, error=type(error), **context
        ) from error
