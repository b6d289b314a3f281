"""Parses a query to find its tables, their columns and filters, and rewrites it for Spark.

Only the tables in the text are replaced. Spark gets every function, cast and literal as the user
wrote it.

1. Find table clauses and table functions (:mod:`tidelake.sql.syntax.table_clause`).
2. sqlglot parses the rest; nodes keep their offsets.
3. Every table that no CTE shadows is a reference.
4. :meth:`ParsedQuery.used_columns` gives the columns of a reference that the query may use: never
   too few, sometimes too many.
5. :mod:`tidelake.sql.query.pushdown` gives the filters.
6. :meth:`ParsedQuery.rewrite` replaces the references by other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.query.reference import TableReference, relation_aliases, requalify
from tidelake.sql.query.spark_syntax import for_sqlglot, is_table_query, with_unknown_calls
from tidelake.sql.query.star import StarUse, star_use
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import ParseError, Spark, SqlglotToken, TokenType, exp
from tidelake.sql.syntax.table_clause import Clause, TableFunction, find_table_clauses
from tidelake.sql.syntax.tokens import (
    Token,
    TokenKind,
    error_at,
    plain_text,
    sqlglot_tokens,
    tokenize,
)

_FUNCTION_NAME = "__tidelake_"
_TABLE_WORDS = frozenset({"SELECT", "FROM", "TABLE", "WITH", "JOIN"})
"""A query without any of them has no table."""
_QUERY_HEADS = frozenset({"SELECT", "VALUES", "FROM", "WITH", "TABLE", "("})
_MISSING = re.compile(r"Required (keyword|argument)\b.* missing")
HEAD_POSITION = -1
"""Offset of generated text before the user's text."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    Parameters
    ----------
    references : tuple of TableReference
        Its tables, in the order of the text.
    """

    query: Query
    tree: exp.Expr
    references: tuple[TableReference, ...]
    tokens: tuple[Token, ...]

    def used_columns(self, reference: TableReference, columns: Sequence[str]) -> list[str]:
        """Return the columns of a reference that the query may use, in the table's order.

        Returns
        -------
        list of str
            Empty if no column is used, as by ``count(*)``.
        """
        by_key = {c.casefold(): c for c in columns}
        select = reference.node.parent_select
        taken = star_use(reference.node, reference.alias, self.tree)
        if taken is StarUse.ALL or not isinstance(select, exp.Select):
            return list(columns)
        # outside of a subquery with a star, a column may have any qualifier
        named_only = taken is StarUse.NAMED
        others = {r.alias.casefold() for r in self.references} if named_only else set()
        others -= {reference.alias.casefold(), *by_key}
        seen: exp.Expr = select if named_only else self.tree
        found: set[str] = set()
        for column in seen.find_all(exp.Column):
            parts = [p.name.casefold() for p in column.parts if isinstance(p, exp.Identifier)]
            if len(parts) < 2 or parts[0] not in others:  # else a column of another table
                found.update(parts)
        for join in seen.find_all(exp.Join):
            found.update(name.name.casefold() for name in join.args.get("using") or ())
        if reference.function is not None and reference.function.window is not None:
            window = reference.function.window
            found.update(c.casefold() for c in (window.column, *window.keys))
        return [c for c in columns if c.casefold() in found]

    def rewrite(
        self,
        relations: Mapping[TableReference, str],
        *,
        before: Mapping[int, str] | None = None,
        replacements: Iterable[tuple[int, int, str]] = (),
        joins: Mapping[TableReference, tuple[int, int, str]] | None = None,
    ) -> str:
        """Return the query's text with other text for some references.

        Parameters
        ----------
        replacements : iterable of (int, int, str)
            Start, end and new text of other parts.
        joins : mapping of TableReference to (int, int, str), optional
            Start, end and new text of whole joins, which give the alias of their table.

        Returns
        -------
        str
            A reference without alias gets one.
        """
        text, offset = plain_text(self.query.text), self.query.start
        aliases = relation_aliases(self.tree, self.references)
        pieces: list[tuple[int, int, str]] = [(s, s, t) for s, t in (before or {}).items()]
        for reference, relation in relations.items():
            after = self._sample_end(reference)
            sample = text[reference.end : after]
            alias = aliases.get(reference, reference.alias)
            as_alias = "" if reference.has_alias else f" AS {quoted_name(alias)}"
            pieces.append((reference.start, after, f"{relation}{sample}{as_alias}"))
        joins = joins or {}
        named = {r: aliases.get(r, r.alias) for r in (*relations, *joins)}
        named |= {r: r.alias for r in self.references if r.start == HEAD_POSITION}
        pieces += requalify(self.query.text, self.tree, named)
        pieces += self._respell(relations)
        pieces += replacements
        spans = [(start, end) for start, end, _ in joins.values()]
        pieces = [p for p in pieces if not any(start <= p[0] < end for start, end in spans)]
        pieces += joins.values()
        out: list[str] = []
        at = offset
        for start, end, piece in sorted(pieces):
            out += (text[at:start], piece)
            at = end
        out.append(text[at : self.query.end])
        return "".join(out)

    def _sample_end(self, reference: TableReference) -> int:
        """End of a TABLESAMPLE after a reference without alias; the alias goes after it."""
        tokens = [w for w in self.tokens if w.start >= reference.end]
        if reference.has_alias or not tokens or tokens[0].upper != "TABLESAMPLE":
            return reference.end
        depth = 0
        for number, token in enumerate(tokens):
            depth += token.nesting
            if token.upper == ")" and depth == 0:
                following = tokens[number + 1 : number + 2]
                if not following or following[0].upper != "REPEATABLE":
                    return token.end
        return reference.end

    def _respell(self, relations: Iterable[TableReference]) -> list[tuple[int, int, str]]:
        """Respell for Spark: Flink's types in casts, ``t$files`` as qualifier, ``TABLE t``."""
        pieces = []
        tokens = self.tokens
        spans = [(r.start, r.end) for r in relations]
        words = [token.upper for token in tokens]
        for number, token in enumerate(tokens):
            if any(start <= token.start < end for start, end in spans):
                continue
            if token.upper == "TABLE" and is_table_query(words, number):
                pieces.append((token.start, token.end, "SELECT * FROM"))  # takes an alias
            if token.kind is TokenKind.NAME and "$" in token.text:
                pieces.append((token.start, token.end, quoted_name(token.text)))
            if number == 0 or tokens[number - 1].upper != "AS" or token.upper not in _CAST_TYPES:
                continue
            digits = [w.text for w in tokens[number + 1 : number + 4]]
            if len(digits) == 3 and digits[0] == "(" and digits[2] == ")":
                pieces.append((token.start, tokens[number + 3].end, _CAST_TYPES[token.upper]))
        return pieces


_CAST_TYPES = {
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}


def parse_query(query: Query, *, head: str = "") -> ParsedQuery:
    """Parse a query, or an expression after a generated head.

    Parameters
    ----------
    head : str
        Generated text before it; tables in it are references at :data:`HEAD_POSITION`.

    Raises
    ------
    InvalidInputError
        The text is not SQL; the message shows the position.

    Examples
    --------
    >>> text = "SELECT o.id FROM shop.orders /*+ OPTIONS('scan.snapshot-id'='3') */ o"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> [(str(r.name), r.alias, dict(r.clause.options)) for r in parsed.references]
    [('shop.orders', 'o', {'scan.snapshot-id': '3'})]
    >>> parsed.used_columns(parsed.references[0], ["id", "price"])
    ['id']
    >>> parsed.rewrite({parsed.references[0]: "{t}"})
    'SELECT o.id FROM {t}    o'
    """
    text = query.text
    tokens = tuple(w for w in tokenize(text) if query.start <= w.start < query.end)
    is_values = bool(tokens) and not head and tokens[0].upper == "VALUES"
    if is_values and not any(w.upper in _TABLE_WORDS for w in tokens):
        # only literals, maybe many: nothing to find
        return ParsedQuery(query, exp.Values(), (), tokens)
    clauses, functions, taken = find_table_clauses(text, tokens)
    stream = _without_clauses(query, functions, taken)
    tree = _tree(text, [*_head_tokens(head, stream), *for_sqlglot(stream)])
    by_name = {f"{_FUNCTION_NAME}{f.start}": f for f in functions}
    references = [
        _reference(node, clauses, by_name)
        for node in tree.find_all(exp.Table)
        if _is_source(node) and not _is_shadowed(node)
    ]
    table_ends = {_end_of_name(r.node) for r in references if r.function is None}
    for before, clause in clauses.items():
        if before not in table_ends:
            message = "Options and VERSION or TIMESTAMP AS OF need a table name before them."
            if clause.stream is not None:
                message = "STREAM needs the name of a table, not of a query that WITH names."
            raise error_at(text, _start_of_clause(clause, taken), message)
    return ParsedQuery(query, tree, tuple(sorted(references, key=lambda r: r.start)), tokens)


def _is_source(node: exp.Table) -> bool:
    """True if the query reads the table; a hint only names it."""
    return isinstance(node.this, exp.Identifier) and node.find_ancestor(exp.Hint) is None


def _end_of_name(node: exp.Table) -> int:
    end: int = node.parts[-1].meta["end"] + 1
    return end


def _start_of_clause(clause: Clause, taken: Sequence[tuple[int, int]]) -> int:
    if clause.stream is not None:
        return clause.stream
    return next(start for start, end in taken if end == clause.end)


def _without_clauses(
    query: Query, functions: Sequence[TableFunction], taken: Sequence[tuple[int, int]]
) -> list[SqlglotToken]:
    """The tokens for sqlglot: clauses removed, functions as one name."""
    kept: list[SqlglotToken] = []
    starts = {f.start: f for f in functions}
    skip_to = -1
    for raw in sqlglot_tokens(query.text):
        start = raw.start
        if not query.start <= start < query.end or start < skip_to:
            continue
        function = starts.get(start)
        if function is not None:
            name = f"{_FUNCTION_NAME}{start}"
            kept.append(_renamed(raw, name, function.end))
            skip_to = function.end
        elif any(a <= start < b for a, b in taken):
            continue
        elif len(kept) > 1 and kept[-1].text == "$" and _touch(kept[-2], kept[-1], raw):
            left = kept[-2]
            kept[-2:] = [_renamed(left, query.text[left.start : raw.end + 1], raw.end + 1)]
        else:
            kept.append(raw)
    for raw, following in pairwise(kept):
        is_called = following.token_type is TokenType.L_PAREN
        if is_called and raw.token_type in {TokenType.RANGE, TokenType.WINDOW}:
            raw.token_type = TokenType.VAR  # the function, not the frame or the clause
    return kept


def _head_tokens(head: str, stream: Sequence[SqlglotToken]) -> list[SqlglotToken]:
    """The tokens of a generated head."""
    line, column = (stream[0].line, stream[0].col) if stream else (1, 1)
    return [
        SqlglotToken(t.token_type, t.text, line, column, HEAD_POSITION, HEAD_POSITION)
        for t in (sqlglot_tokens(head) if head else ())
    ]


def _renamed(raw: SqlglotToken, name: str, end: int) -> SqlglotToken:
    return SqlglotToken(TokenType.VAR, name, raw.line, raw.col, raw.start, end - 1)


def _touch(left: SqlglotToken, dollar: SqlglotToken, right: SqlglotToken) -> bool:
    names = re.fullmatch(r"\w+", left.text) and re.fullmatch(r"\w+", right.text)
    return bool(names) and left.end + 1 == dollar.start and dollar.end + 1 == right.start


def _tree(text: str, stream: Sequence[SqlglotToken]) -> exp.Expr:
    if stream and stream[0].text.upper() not in _QUERY_HEADS:
        message = "Here is no query: begin with SELECT, VALUES, FROM or WITH ... SELECT."
        raise error_at(text, stream[0].start, message, kind="sql_clause", error=UnsupportedError)
    try:
        trees = _trees(text, stream)
    except ParseError as error:
        raise _parse_error(text, error) from error
    except RecursionError as error:
        message = "The query is nested too deeply: name its parts by WITH ... AS."
        raise error_at(text, stream[0].start, message) from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or isinstance(tree, exp.Command):
        start = stream[0].start if stream else 0
        raise error_at(text, start, "This cannot be read as a query.")
    if not isinstance(tree, (exp.Query, exp.Values)):
        message = "Here is no query: begin with SELECT, VALUES, FROM or WITH ... SELECT."
        if isinstance(tree, exp.Insert):
            message = "Write WITH after the table: INSERT INTO t WITH ... SELECT ...."
        raise error_at(text, stream[0].start, message, kind="sql_clause", error=UnsupportedError)
    return tree


def _trees(text: str, stream: Sequence[SqlglotToken]) -> list[exp.Expr | None]:
    """Parse; where that fails, perhaps sqlglot knows a function with other arguments."""
    try:
        return list(Spark().parser().parse(list(stream), text))
    except ParseError:
        with suppress(ParseError):
            return list(Spark().parser().parse(with_unknown_calls(stream), text))
        raise


def _parse_error(text: str, error: ParseError) -> TidelakeError:
    details = error.errors[0] if error.errors else {}
    reason = str(details.get("description") or "").partition(" but got")[0].rstrip(".")
    lines = text.split("\n")
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    end = sum(len(x) + 1 for x in lines[: line - 1]) + column
    start = max(0, end - len(str(details.get("highlight") or " ")))
    if _MISSING.match(reason):  # it names a class of sqlglot
        reason = "something is missing"
    what = "" if reason.startswith("Invalid expression") or not reason else f": {reason}"
    return error_at(text, start, f"The query cannot be parsed here{what}.")


def _reference(
    node: exp.Table, clauses: Mapping[int, Clause], functions: Mapping[str, TableFunction]
) -> TableReference:
    parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
    function = functions.get(node.name)
    alias = node.args.get("alias")
    given = alias.name if alias is not None else ""
    start = parts[0].meta["start"]
    if function is not None:
        return TableReference(
            function.name,
            function.start,
            function.end,
            given or function.name.parts[-1],
            bool(given),
            node,
            function.clause,
            function,
        )
    end = parts[-1].meta["end"] + 1
    clause = clauses.get(end, Clause(end))
    name = TableName(tuple(p.name for p in parts), start)
    if clause.stream is not None:
        start = clause.stream
    return TableReference(
        name, start, clause.end, given or name.parts[-1], bool(given), node, clause
    )


def _is_shadowed(node: exp.Table) -> bool:
    """True if a visible CTE has this name."""
    if node.args.get("db") is not None:
        return False
    name = node.name.casefold()
    above = node.parent
    while above is not None:
        clause = above.args.get("with_") if not isinstance(above, exp.With) else None
        if clause is not None:
            for cte in clause.expressions:
                if _inside(node, cte):
                    if clause.args.get("recursive") and cte.alias.casefold() == name:
                        return True
                    break  # later CTEs are not visible
                if cte.alias.casefold() == name:
                    return True
        above = above.parent
    return False


def _inside(node: exp.Expr, cte: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None:
        if above is cte:
            return True
        above = above.parent
    return False
