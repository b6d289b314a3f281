"""Queries that sqlglot cannot parse, read by Spark's own parser.

1. Spark parses the text; it resolves nothing and runs nothing.
2. Its plan must be of nodes that read, all of them known here: a command or a write has others, so
   it is never taken for a query.
3. Each table that no WITH names is a reference: its name comes from the plan, its place from the
   node's origin. The text at this place must be the name.

A half-understood text must not read another table or moment than it names. So a text with anything
of ours on its tables (options, moments, streams, windows, lookups) is not handed over, nor one in
which a name may mean two things; the first parser's error stands.

Each node costs some calls to the JVM, about a millisecond; such queries are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.errors import TidelakeError
from tidelake.sql.query.query import ParsedQuery, TableReference
from tidelake.sql.query.spark_syntax import is_table_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.sqlglot_dialect import exp
from tidelake.sql.syntax.table_clause import Clause, find_table_clauses
from tidelake.sql.syntax.tokens import Token, plain_text, tokenize

_READING = frozenset(
    {"Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join"}
    | {"LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation"}
    | {
        "PipeOperator",
        "Pivot",
        "Project",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Union",
    }
    | {"Unpivot", "UnresolvedHaving", "UnresolvedInlineTable", "UnresolvedOrdinal"}
    | {"UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction"}
    | {"WithWindowDefinition"}
)
"""Nodes of Spark's plans that only pass on rows, or make some of their arguments."""
_RELATION = "UnresolvedRelation"
_WITH = "UnresolvedWith"
_TABLE_ARGUMENT = "FunctionTableSubqueryArgumentExpression"
_CATALYST = "org.apache.spark.sql.catalyst"
_SUBQUERY = f"{_CATALYST}.expressions.PlanExpression"
_CLAUSES = frozenset(
    {
        "FROM",
        "GROUP",
        "HAVING",
        "JOIN",
        "LIMIT",
        "OFFSET",
        "ON",
        "ORDER",
        "SELECT",
        "USING",
        "WHERE",
    }
)
_AFTER_A_NAME = frozenset(
    {"", ")", ",", "EXCEPT", "FROM", "GROUP", "HAVING", "INTERSECT", "JOIN", "LIMIT", "MINUS"}
    | {"OFFSET", "ORDER", "UNION", "WHERE"}
)
_QUOTED = "`"
NAME_PARTS_MAX = 3
NODES_MAX = 10_000
"""A larger plan is not looked at."""


class _NotTaken(Exception):
    """The text is not one query that can be handed over."""


def parsed_by_spark(spark: SparkSession, query: Query) -> ParsedQuery | None:
    """Parse a query by Spark's parser, if it can be handed over as it stands.

    Returns
    -------
    ParsedQuery or None
        With its tables, but with a tree of these alone: nothing is known of columns and filters.
    """
    tokens = tuple(w for w in tokenize(query.text) if query.start <= w.start < query.end)
    if is_remote() or "${" in query.sql or _has_clauses(query, tokens):
        return None
    text = plain_text(query.text)[query.start : query.end]
    try:
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        walk = _Walk(spark, query, tokens)
        walk.plan(plan, frozenset())
        _check_meaning(walk, tokens)
    except (ParseException, _NotTaken):
        return None
    references = tuple(sorted(walk.references, key=lambda r: r.start))
    tree = exp.Values(expressions=[r.node for r in references])
    return ParsedQuery(query, tree, references, tokens)


def _has_clauses(query: Query, tokens: tuple[Token, ...]) -> bool:
    """Whether anything of ours stands on a table, right or wrong."""
    try:
        clauses, functions, _ = find_table_clauses(query.text, tokens)
    except TidelakeError:
        return True
    return bool(clauses or functions)


@dataclass
class _Walk:
    """Collects the tables of a plan; `left` nodes may still be looked at."""

    spark: SparkSession
    query: Query
    tokens: tuple[Token, ...]
    references: list[TableReference] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    left: int = NODES_MAX

    def plan(self, node: Any, scope: frozenset[str], *, is_aliased: bool = False) -> None:
        """Walk over a plan; `scope` are the folded names that WITH has given."""
        kind = self._kind(node)
        if kind == _RELATION:
            self._relation(node, scope, is_aliased=is_aliased)
            return
        if kind == _WITH:
            scope = self._with(node, scope)
        elif kind not in _READING:
            raise _NotTaken
        passes_alias = kind == "SubqueryAlias" or (kind == "Sample" and is_aliased)
        for child in _each(node.children()):
            self.plan(child, scope, is_aliased=passes_alias)
        for expression in _each(node.expressions()):
            self._expression(expression, scope)

    def _kind(self, node: Any) -> str:
        self.left -= 1
        if not self.left:
            raise _NotTaken
        return str(node.getClass().getSimpleName())

    def _with(self, node: Any, scope: frozenset[str]) -> frozenset[str]:
        """Walk over the queries of WITH, each of which sees those before it."""
        is_recursive = bool(node.allowRecursion())
        for named in _each(node.cteRelations()):
            name = str(named._1()).casefold()
            inside = scope | {name} if is_recursive else scope
            self.plan(named._2(), inside)
            scope |= {name}
            self.defined.add(name)
        return scope

    def _expression(self, expression: Any, scope: frozenset[str]) -> None:
        if self._kind(expression) == _TABLE_ARGUMENT:
            raise _NotTaken
        if is_instance_of(self.spark.sparkContext._gateway, expression, _SUBQUERY):
            self.plan(expression.plan(), scope)
        for child in _each(expression.children()):
            self._expression(child, scope)

    def _relation(self, node: Any, scope: frozenset[str], *, is_aliased: bool) -> None:
        parts = tuple(map(str, _each(node.multipartIdentifier())))
        if len(parts) == 1 and parts[0].casefold() in scope:
            return
        if node.isStreaming() or not node.options().isEmpty() or len(parts) > NAME_PARTS_MAX:
            raise _NotTaken
        if "$" in parts[-1]:
            raise _NotTaken  # a system table
        origin = node.origin().startIndex()
        start = self.query.start + (int(origin.get()) if origin.isDefined() else -1)
        end = self._end_of_name(start, parts)
        self.references.append(
            TableReference(
                TableName(parts, start),
                start,
                end,
                parts[-1],
                is_aliased,
                exp.Table(this=exp.Identifier(this=parts[-1])),
                Clause(end),
            )
        )

    def _end_of_name(self, start: int, parts: tuple[str, ...]) -> int:
        """Check that a name stands at a place; return its end."""
        first = next((n for n, token in enumerate(self.tokens) if token.start == start), None)
        if first is None:
            raise _NotTaken
        own = self.tokens[first : first + 2 * len(parts) - 1]
        if [t.text for t in own[::2]] != list(parts) or any(t.text != "." for t in own[1::2]):
            raise _NotTaken
        return own[-1].end


def _each(values: Any) -> Iterator[Any]:
    """The elements of a Scala ``Seq``."""
    return (values.apply(number) for number in range(values.size()))


def _check_meaning(walk: _Walk, tokens: tuple[Token, ...]) -> None:
    """Refuse a text that is unfinished, or in which a name would not mean the same any more."""
    words, uppers = [t.text.casefold() for t in tokens], [t.upper for t in tokens]
    shown = ["", *(t.upper or _QUOTED for t in tokens), ""]
    if any(_is_unfinished(*shown[n : n + 3]) for n in range(len(tokens))):
        raise _NotTaken
    starts = {reference.start for reference in walk.references}
    for number in range(len(tokens) - 1):
        if is_table_query(uppers, number) and tokens[number + 1].start not in starts:
            raise _NotTaken  # a column of that name, perhaps
    for reference in walk.references:
        parts = [part.casefold() for part in reference.name.parts]
        if len(parts) == 1 and parts[0] in walk.defined:
            raise _NotTaken  # of a table and of WITH, in different places
        if len(parts) == 1 or reference.has_alias:
            continue
        # its columns are those of its last part: db.t.id would be of something else
        qualifier = [parts[-2], ".", parts[-1], "."]
        if any(words[n : n + 4] == qualifier for n in range(len(words))):
            raise _NotTaken


def _is_unfinished(before: str, word: str, after: str) -> bool:
    """Whether a clause has only its word, which Spark takes for a name: ``SELECT * FROM t WHERE``.

    Examples
    --------
    >>> _is_unfinished("T", "WHERE", ""), _is_unfinished("AS", "SELECT", "FROM")
    (True, False)
    """
    return word in _CLAUSES and before not in {"AS", "."} and after in _AFTER_A_NAME
