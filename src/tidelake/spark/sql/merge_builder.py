"""MERGE from Python: add clauses one by one, then execute.

>>> merge = tl.merge("shop.stock", changes, on="id")                    # doctest: +SKIP
>>> merge = merge.when_matched_delete("s.left = 0")                      # doctest: +SKIP
>>> merge = merge.when_matched_update({"left": "t.left + s.left"})       # doctest: +SKIP
>>> merge.when_not_matched_insert().execute()                            # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.tables import Table, check_dict
from tidelake.engine.write import CommitIdentity, WriteResult
from tidelake.errors import InvalidInputError, near_names
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.expression.expression import quoted
from tidelake.spark.rowlevel.delete_update import value_column
from tidelake.spark.rowlevel.merge_by_join import merge_on_spark
from tidelake.spark.rowlevel.merge_clauses import (
    Action,
    MergeClause,
    MergeInto,
    When,
    resolved,
    with_source_columns,
)
from tidelake.spark.sql.expressions import StatementExpressions
from tidelake.spark.write.schema_merging import merges_schema
from tidelake.sql.query.expression import RowSource, names_in
from tidelake.sql.query.merge_terms import MergeTerms
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.types.predicate import Predicate

Condition: TypeAlias = "str | Column | None"


@dataclass(frozen=True, slots=True)
class _ClauseArguments:
    """Arguments of one clause."""

    when: When
    action: Action
    condition: Condition
    values: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """Builds a merge; made by :meth:`tidelake.spark.Lake.merge`.

    Each ``when_...`` returns a new builder with one more clause. The first matching clause of a
    kind applies, and only the last may have no condition. **Text is SQL**: ``t.name`` is a column
    of the target and ``s.name`` one of the source (see `alias` and `source_alias` of ``merge``). A
    ``Column``, a number, a date, None and the like are values.
    """

    spark: SparkSession
    table: Table
    source: DataFrame
    on: str | Column | Sequence[str]
    alias: str
    source_alias: str
    expressions: Callable[[], StatementExpressions]
    clauses: tuple[_ClauseArguments, ...] = ()

    def when_matched_update(
        self, set: Mapping[str, object] | None = None, condition: Condition = None
    ) -> MergeBuilder:
        """Update matching rows.

        Parameters
        ----------
        set : dict, optional
            Values by columns; by default the source's columns of the same names.
        condition : str or Column, optional
            Restricts the matching rows; all by default.
        """
        return self._with("matched", "update", condition, set)

    def when_matched_delete(self, condition: Condition = None) -> MergeBuilder:
        """Delete matching rows, or those that meet `condition`."""
        return self._with("matched", "delete", condition, None)

    def when_not_matched_insert(
        self, values: Mapping[str, object] | None = None, condition: Condition = None
    ) -> MergeBuilder:
        """Insert rows of the source that match no row.

        Parameters
        ----------
        values : dict, optional
            Values by columns; by default the source's columns of the same names. Another column is
            null, or its default.
        condition : str or Column, optional
            Restricts these rows of the source; all by default.
        """
        return self._with("not_matched", "insert", condition, values)

    def when_not_matched_by_source_update(
        self, set: Mapping[str, object], condition: Condition = None
    ) -> MergeBuilder:
        """Update rows that match no row of the source; see `when_matched_update`."""
        check_dict(set, "set", table=self.table.identifier)
        return self._with("not_matched_by_source", "update", condition, set)

    def when_not_matched_by_source_delete(self, condition: Condition = None) -> MergeBuilder:
        """Delete rows that match no row of the source."""
        return self._with("not_matched_by_source", "delete", condition, None)

    def execute(
        self,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        tasks: int | None = None,
    ) -> WriteResult:
        """Run the merge in one commit.

        Parameters
        ----------
        commit_user, commit_identifier : str and int, optional
            As for :meth:`tidelake.spark.Lake.write`.
        tasks : int, optional
            Number of writing tasks of a primary-key table.

        Returns
        -------
        WriteResult
            ``rows`` counts updated, deleted and inserted rows.

        Raises
        ------
        InvalidInputError
            A clause does not fit the table; or several rows of the source would change one row
            (``merge_row_twice``), or change and insert one key (``merge_key_twice``). Nothing is
            visible.
        UnsupportedError
            The table's merge engine does not support it.
        ConflictError
            Other commits changed the same rows or files at every attempt.
        """
        fields = self.table.table_schema.fields
        columns = self.source.columns
        text = self.on if isinstance(self.on, str) else ""
        with (
            translate_analysis_errors(
                Query(text, 0, len(text)), [*(f.name for f in fields), *columns]
            ),
            self.expressions() as expressions,
        ):
            merge = self._merge(expressions)
            handle = with_source_columns(self.spark, self.table.handle, merge)
            return merge_on_spark(
                self.spark,
                handle,
                resolved(self.spark, handle, merge),
                identity=CommitIdentity.of(handle, commit_user, commit_identifier),
                tasks=tasks,
            )

    def _with(
        self,
        when: When,
        action: Action,
        condition: Condition,
        values: Mapping[str, object] | None,
    ) -> MergeBuilder:
        if values is not None:
            check_dict(values, "set" if action == "update" else "values", table=self.name)
        clause = _ClauseArguments(when, action, condition, values)
        return replace(self, clauses=(*self.clauses, clause))

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.identifier

    def _merge(self, expressions: StatementExpressions) -> MergeInto:
        fields = self.table.table_schema.fields
        terms = MergeTerms(
            RowSource(TableName((self.alias,)), self.alias),
            RowSource(TableName((self.source_alias,)), self.source_alias),
            fields,
            self.source.columns,
        )
        on, equal, predicate = self._on(terms, expressions)
        texts = [self.on] if isinstance(self.on, str) else []
        is_known = not isinstance(self.on, Column)
        for clause in self.clauses:
            for given in (clause.condition, *(clause.values or {}).values()):
                texts += [given] if isinstance(given, str) else []
                is_known = is_known and not isinstance(given, Column)
        names = names_in(*(Query(text, 0, len(text)) for text in texts))
        names |= {name.casefold() for pair in equal for name in pair}
        return MergeInto(
            source=lambda: self.source,
            on=on,
            clauses=[self._clause(clause, terms, expressions) for clause in self.clauses],
            alias=self.alias,
            source_alias=self.source_alias,
            equal=equal,
            predicate=predicate,
            looked_at=names if is_known else None,
            fresh=expressions.fresh,
            evolves=merges_schema(self.table.handle),
        )

    def _on(
        self, terms: MergeTerms, expressions: StatementExpressions
    ) -> tuple[Column, list[tuple[str, str]], Predicate | None]:
        """The condition, the columns that it equates, and its filter of the target."""
        if isinstance(self.on, Column):
            return self.on, [], None
        own = {f.name.casefold(): f.name for f in terms.fields}
        theirs = {c.casefold(): c for c in terms.columns}
        if isinstance(self.on, str) and self.on.casefold() not in own:
            on = terms.read(Query(self.on, 0, len(self.on)))
            return expressions.column(on), terms.equal(on), terms.predicate(on)
        keys = [self.on] if isinstance(self.on, str) else list(self.on)
        for key in keys:
            for side, names in (("The table", own), ("The source", theirs)):
                if not isinstance(key, str) or key.casefold() not in names:
                    message = (
                        f"{side} of a merge into '{self.name}' has no column {key!r} of on=."
                        f"{near_names(str(key), list(names.values()))} Give columns of both, or a"
                        " condition such as 't.id = s.id'."
                    )
                    raise InvalidInputError(message, kind="bad_argument", table=self.name)
        if not keys:
            message = f"A merge into '{self.name}' needs on=: columns, or a condition."
            raise InvalidInputError(message, kind="bad_argument", table=self.name)
        equal = [(own[key.casefold()], theirs[key.casefold()]) for key in keys]
        parts = [
            F.col(f"{quoted(self.alias)}.{quoted(t)}")
            == F.col(f"{quoted(self.source_alias)}.{quoted(s)}")
            for t, s in equal
        ]
        return reduce(lambda a, b: a & b, parts), equal, None

    def _clause(
        self, clause: _ClauseArguments, terms: MergeTerms, expressions: StatementExpressions
    ) -> MergeClause:
        by_source = clause.when == "not_matched_by_source"
        qualified = terms.target_qualifier() if by_source else None

        def column(text: str) -> Column:
            found = terms.read(Query(text, 0, len(text)))
            return expressions.column(found, qualified=qualified)

        condition = (
            column(clause.condition) if isinstance(clause.condition, str) else clause.condition
        )
        if condition is not None and not isinstance(condition, Column):
            message = f"A condition of a merge into '{self.name}' is text or a Column."
            raise InvalidInputError(message, kind="bad_argument", table=self.name)
        if clause.values is None:
            return MergeClause(clause.when, clause.action, condition)
        values = {
            name: column(value)
            if isinstance(value, str)
            else value_column(self.table.handle, name, value)
            for name, value in clause.values.items()
        }
        texts = {n: v for n, v in clause.values.items() if isinstance(v, str)}
        plain = terms.plain({n: terms.read(Query(v, 0, len(v))) for n, v in texts.items()})
        return MergeClause(clause.when, clause.action, condition, values, plain)
