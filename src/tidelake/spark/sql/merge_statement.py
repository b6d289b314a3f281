"""Runs the MERGE statement; errors show their position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession

from tidelake.engine.tables import Table
from tidelake.engine.write import CommitIdentity
from tidelake.errors import TidelakeError
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.errors.value_errors import translate_column_errors, values_of
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


class SourceQuery(Protocol):
    """Returns the rows of a source; for a plain table only these columns."""

    def __call__(self, source: Query, names: frozenset[str] | None) -> DataFrame:
        """Read the source."""
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
    """Run MERGE.

    Parameters
    ----------
    source : callable
        Returns the rows of the source.
    """
    fields = table.table_schema.fields
    expressions_used = [statement.on]
    for clause in statement.clauses:
        expressions_used += [clause.condition] if clause.condition is not None else []
        expressions_used += (clause.values or {}).values()
        expressions_used += (
            one.value for assignments in clause.field_values.values() for one in assignments
        )
    evolves = statement.evolves or merges_schema(table.handle)
    whole_rows = any(c.values is None and c.action != "delete" for c in statement.clauses)
    sides = (RowSource(statement.name, statement.alias), source_rows(statement.source))
    terms = MergeTerms(*sides, fields, ())
    looked_at = terms.mentioned_names(*expressions_used)
    # a column with new field values keeps its other fields
    looked_at |= {name.casefold() for clause in statement.clauses for name in clause.field_values}
    names: frozenset[str] | None = looked_at
    if whole_rows:
        names = None if evolves else looked_at | {f.name.casefold() for f in fields}
    columns = source(statement.source, names).columns
    terms = MergeTerms(*sides, fields, columns)
    with translate_analysis_errors(
        Query(text, 0, len(text)), [*(f.name for f in fields), *columns]
    ):
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
        with _clause_positions(text, statement):
            handle = with_source_columns(spark, table.handle, merge)
            known = resolved(spark, handle, merge)
        with translate_column_errors(text, table.identifier, values_of(statement)):
            merge_on_spark(
                spark,
                handle,
                known,
                identity=CommitIdentity.of(handle, None, None),
                tasks=None,
            )


def _clause(
    clause: WhenClause, terms: MergeTerms, expressions: StatementExpressions
) -> MergeClause:
    # without a source row, a name of both sides is the target's
    qualified = terms.target_qualifier() if clause.when == "not_matched_by_source" else None

    def column(expression: Query) -> Column:
        return expressions.column(terms.read(expression), qualified=qualified)

    if clause.values is None:
        values, plain = None, {}
    else:
        values = {name: column(words) for name, words in clause.values.items()}
        plain = terms.plain({name: terms.read(words) for name, words in clause.values.items()})
    condition = None if clause.condition is None else column(clause.condition)
    assignments = {
        name: [(one.path, column(one.value)) for one in given]
        for name, given in clause.field_values.items()
    }
    return MergeClause(clause.when, clause.action, condition, values, plain, assignments)


@contextmanager
def _clause_positions(text: str, statement: Merge) -> Iterator[None]:
    """Add the position of a clause to its errors."""
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
