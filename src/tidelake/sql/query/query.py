"""Looks into a query: which tables, which of their columns, which filters; and writes it anew.

The text itself is never written by us but where a table stands: sqlglot reads it, and the tables'
places in it are cut out and replaced. So Spark gets every function, cast and literal as the user
wrote it.

1. Clauses and functions that stand with tables are found (:mod:`tidelake.sql.syntax.table_clause`).
2. sqlglot parses what is left; nodes keep their places.
3. Every table that no CTE shadows is a reference.
4. :meth:`ParsedQuery.needed` gives the columns of a reference that the query may look at: never too
   few, sometimes too many.
5. :mod:`tidelake.sql.query.pushdown` gives the filters.
6. :meth:`ParsedQuery.rewritten` puts other words where the references stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.sql.query.reference import Reference, relation_aliases, requalified
from tidelake.sql.query.star import Taken, stars_of
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.sqlglot_dialect import ParseError, Spark, Token, TokenType, exp
from tidelake.sql.syntax.table_clause import Clause, TableFunction, found_clauses
from tidelake.sql.syntax.tokens import Kind, Word, fault, plain_text, tokens_of, words_of

__all__ = ["ParsedQuery", "Reference", "read_query"]

_FUNCTION_NAME = "__tidelake_"
_TABLE_WORDS = frozenset({"SELECT", "FROM", "TABLE", "WITH", "JOIN"})
"""Without one of them no table stands in a query."""
_QUERY_HEADS = frozenset({"SELECT", "VALUES", "FROM", "WITH", "TABLE", "("})
_MISSING = re.compile(r"Required (keyword|argument)\b.* missing")
BEFORE = -1
"""The place of words that the user did not write."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query that was looked into.

    Parameters
    ----------
    query : Query
        The text.
    tree : exp.Expr
        Of sqlglot.
    references : tuple of Reference
        The tables, in the order of the text.
    words : tuple of Word
        Of the query.
    """

    query: Query
    tree: exp.Expr
    references: tuple[Reference, ...]
    words: tuple[Word, ...]

    def needed(self, reference: Reference, columns: Sequence[str]) -> list[str]:
        """The columns of a reference that the query may look at, in the table's order.

        Parameters
        ----------
        reference : Reference
            One of this query.
        columns : sequence of str
            All that it has.

        Returns
        -------
        list of str
            Empty where no column is looked at, as by ``count(*)``.
        """
        by_key = {c.casefold(): c for c in columns}
        select = reference.node.parent_select
        taken = stars_of(reference.node, reference.alias, self.tree)
        if taken is Taken.ALL or not isinstance(select, exp.Select):
            return list(columns)
        # behind a star that others choose from, a column may have any qualifier
        named_only = taken is Taken.NAMED
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
            found.add(reference.function.window.column.casefold())
        return [c for c in columns if c.casefold() in found]

    def rewritten(
        self, relations: Mapping[Reference, str], *, before: Mapping[int, str] | None = None
    ) -> str:
        """The query with other words for some references.

        Parameters
        ----------
        relations : mapping of Reference to str
            What to write; references that are left out stay as they are.
        before : mapping of int to str, optional
            What to write before words, by their places.

        Returns
        -------
        str
            Where the query has none, it has the alias too that its columns are qualified with.
        """
        text, offset = plain_text(self.query.text), self.query.start
        aliases = relation_aliases(self.tree, self.references)
        pieces: list[tuple[int, int, str]] = [(s, s, t) for s, t in (before or {}).items()]
        for reference, relation in relations.items():
            after = self._sample_end(reference)
            sample = text[reference.end : after]
            alias = aliases.get(reference, reference.alias)
            said = "" if reference.has_alias else f" AS {quoted_name(alias)}"
            pieces.append((reference.start, after, f"{relation}{sample}{said}"))
        named = {r: aliases.get(r, r.alias) for r in relations}
        named |= {r: r.alias for r in self.references if r.start == BEFORE}
        pieces += requalified(self.query.text, self.tree, named)
        pieces += self._respelt(relations)
        out: list[str] = []
        at = offset
        for start, end, piece in sorted(pieces):
            out += (text[at:start], piece)
            at = end
        out.append(text[at : self.query.end])
        return "".join(out)

    def _sample_end(self, reference: Reference) -> int:
        """Where a TABLESAMPLE behind a reference without an alias ends; an alias follows it."""
        words = [w for w in self.words if w.start >= reference.end]
        if reference.has_alias or not words or words[0].upper != "TABLESAMPLE":
            return reference.end
        depth = 0
        for number, word in enumerate(words):
            depth += (word.upper == "(") - (word.upper == ")")
            if word.upper == ")" and depth == 0:
                following = words[number + 1 : number + 2]
                if not following or following[0].upper != "REPEATABLE":
                    return word.end
        return reference.end

    def _respelt(self, relations: Iterable[Reference]) -> list[tuple[int, int, str]]:
        """Words that Spark spells otherwise: Flink's types in casts, ``t$files`` before columns."""
        pieces = []
        words = self.words
        places = [(r.start, r.end) for r in relations]
        for number, word in enumerate(words):
            if any(start <= word.start < end for start, end in places):
                continue
            if word.kind is Kind.NAME and "$" in word.text:
                pieces.append((word.start, word.end, quoted_name(word.text)))
            if number == 0 or words[number - 1].upper != "AS" or word.upper not in _CAST_TYPES:
                continue
            digits = [w.text for w in words[number + 1 : number + 4]]
            if len(digits) == 3 and digits[0] == "(" and digits[2] == ")":
                pieces.append((word.start, words[number + 3].end, _CAST_TYPES[word.upper]))
        return pieces


_CAST_TYPES = {
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}


def read_query(query: Query, *, head: str = "") -> ParsedQuery:
    """Look into a query, or into an expression behind the head of one.

    Parameters
    ----------
    query : Query
        The words.
    head : str
        Words before them that the user did not write; tables in it are references too, their place
        is before all others.

    Raises
    ------
    InvalidInputError
        It is no SQL; the place is shown.

    Examples
    --------
    >>> text = "SELECT o.id FROM shop.orders /*+ OPTIONS('scan.snapshot-id'='3') */ o"
    >>> parsed = read_query(Query(text, 0, len(text)))
    >>> [(str(r.name), r.alias, dict(r.clause.options)) for r in parsed.references]
    [('shop.orders', 'o', {'scan.snapshot-id': '3'})]
    >>> parsed.needed(parsed.references[0], ["id", "price"])
    ['id']
    >>> parsed.rewritten({parsed.references[0]: "{t}"})
    'SELECT o.id FROM {t}    o'
    """
    text = query.text
    words = tuple(w for w in words_of(text) if query.start <= w.start < query.end)
    is_values = bool(words) and not head and words[0].upper == "VALUES"
    if is_values and not any(w.upper in _TABLE_WORDS for w in words):
        # literals: nothing to be found in them, and there may be many
        return ParsedQuery(query, exp.Values(), (), words)
    clauses, functions, taken = found_clauses(text, words)
    tokens = _kept(query, functions, taken)
    tree = _tree(text, [*_made(head, tokens), *tokens])
    by_name = {f"{_FUNCTION_NAME}{f.start}": f for f in functions}
    references = [
        _reference(node, clauses, by_name)
        for node in tree.find_all(exp.Table)
        if _is_source(node) and not _is_shadowed(node)
    ]
    behind_tables = {_end_of_name(r.node) for r in references if r.function is None}
    for before, clause in clauses.items():
        if before not in behind_tables:
            message = "Options and moments stand behind the name of a table, and here is none."
            raise fault(text, _start_of_clause(clause, taken), message)
    return ParsedQuery(query, tree, tuple(sorted(references, key=lambda r: r.start)), words)


def _is_source(node: exp.Table) -> bool:
    """Whether a table is read there, and not only named, as by a hint."""
    return isinstance(node.this, exp.Identifier) and node.find_ancestor(exp.Hint) is None


def _end_of_name(node: exp.Table) -> int:
    end: int = node.parts[-1].meta["end"] + 1
    return end


def _start_of_clause(clause: Clause, taken: Sequence[tuple[int, int]]) -> int:
    return next(start for start, end in taken if end == clause.end)


def _kept(
    query: Query, functions: Sequence[TableFunction], taken: Sequence[tuple[int, int]]
) -> list[Token]:
    """The tokens that sqlglot shall see."""
    kept: list[Token] = []
    starts = {f.start: f for f in functions}
    skip_to = -1
    for token in tokens_of(query.text):
        start = token.start
        if not query.start <= start < query.end or start < skip_to:
            continue
        function = starts.get(start)
        if function is not None:
            name = f"{_FUNCTION_NAME}{start}"
            kept.append(_renamed(token, name, function.end))
            skip_to = function.end
        elif any(a <= start < b for a, b in taken):
            continue
        elif len(kept) > 1 and kept[-1].text == "$" and _touch(kept[-2], kept[-1], token):
            left = kept[-2]
            kept[-2:] = [_renamed(left, query.text[left.start : token.end + 1], token.end + 1)]
        else:
            kept.append(token)
    for token, following in pairwise(kept):
        is_called = following.token_type is TokenType.L_PAREN
        if is_called and token.token_type in {TokenType.RANGE, TokenType.WINDOW}:
            token.token_type = TokenType.VAR  # the function, not the frame or the clause
    return kept


def _made(head: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens of words that have no place in the text."""
    line, column = (tokens[0].line, tokens[0].col) if tokens else (1, 1)
    return [
        Token(t.token_type, t.text, line, column, BEFORE, BEFORE)
        for t in (tokens_of(head) if head else ())
    ]


def _renamed(token: Token, name: str, end: int) -> Token:
    return Token(TokenType.VAR, name, token.line, token.col, token.start, end - 1)


def _touch(left: Token, dollar: Token, right: Token) -> bool:
    names = re.fullmatch(r"\w+", left.text) and re.fullmatch(r"\w+", right.text)
    return bool(names) and left.end + 1 == dollar.start and dollar.end + 1 == right.start


def _tree(text: str, tokens: Sequence[Token]) -> exp.Expr:
    for token in tokens:
        if token.token_type is TokenType.PIPE_GT:  # the parser forgets the order of its steps
            message = "The pipe syntax is not covered: write SELECT ... FROM ...."
            raise fault(text, token.start, message, kind="sql_clause", error=UnsupportedError)
    if tokens and tokens[0].text.upper() not in _QUERY_HEADS:
        message = "Here is no query: begin with SELECT, VALUES, FROM or WITH ... SELECT."
        raise fault(text, tokens[0].start, message, kind="sql_clause", error=UnsupportedError)
    try:
        trees = Spark().parser().parse(list(tokens), text)
    except ParseError as error:
        raise _parse_fault(text, error) from error
    except RecursionError as error:
        message = "The query is nested too deeply: name its parts by WITH ... AS."
        raise fault(text, tokens[0].start, message) from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or isinstance(tree, exp.Command):
        start = tokens[0].start if tokens else 0
        raise fault(text, start, "This cannot be read as a query.")
    if not isinstance(tree, (exp.Query, exp.Values)):
        message = "Here is no query: begin with SELECT, VALUES, FROM or WITH ... SELECT."
        if isinstance(tree, exp.Insert):
            message = "WITH stands behind the table: INSERT INTO t WITH ... SELECT ...."
        raise fault(text, tokens[0].start, message, kind="sql_clause", error=UnsupportedError)
    return tree


def _parse_fault(text: str, error: ParseError) -> TidelakeError:
    details = error.errors[0] if error.errors else {}
    said = str(details.get("description") or "").partition(" but got")[0].rstrip(".")
    lines = text.split("\n")
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    end = sum(len(x) + 1 for x in lines[: line - 1]) + column
    start = max(0, end - len(str(details.get("highlight") or " ")))
    if _MISSING.match(said):  # it names a class of the parser
        said = "something is missing"
    what = "" if said.startswith("Invalid expression") or not said else f": {said}"
    return fault(text, start, f"The query cannot be read from here on{what}.")


def _reference(
    node: exp.Table, clauses: Mapping[int, Clause], functions: Mapping[str, TableFunction]
) -> Reference:
    parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
    function = functions.get(node.name)
    alias = node.args.get("alias")
    given = alias.name if alias is not None else ""
    start = parts[0].meta["start"]
    if function is not None:
        return Reference(
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
    return Reference(name, start, clause.end, given or name.parts[-1], bool(given), node, clause)


def _is_shadowed(node: exp.Table) -> bool:
    """Whether a name is that of a CTE which the query can see there."""
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
                    break  # later ones are not seen from here
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
