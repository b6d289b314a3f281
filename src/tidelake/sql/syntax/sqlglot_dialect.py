"""The names that this package imports from sqlglot."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

__all__ = [
    "MADE_POSITION",
    "PLAIN_FUNCTIONS",
    "ParseError",
    "Spark",
    "SqlglotToken",
    "TokenError",
    "TokenType",
    "conjuncts",
    "exp",
    "keyword",
    "made_token",
    "used_args",
]

MADE_POSITION = -1
"""Offset of a token that is not in the user's text."""

PLAIN_FUNCTIONS = frozenset(Spark.Parser.FUNCTIONS).difference(
    Spark.Parser.FUNCTION_PARSERS,
    *(each.sql_names() for each in exp.ALL_FUNCTIONS if issubclass(each, exp.AggFunc)),
)
"""Functions with plain arguments that sqlglot knows, without aggregates."""


def keyword(token: SqlglotToken) -> str:
    """Return the first word of a token in capitals; empty in quotes: it is no keyword."""
    if token.token_type in {TokenType.STRING, TokenType.IDENTIFIER}:
        return ""
    return token.text.upper().partition(" ")[0]


def made_token(kind: TokenType, text: str, beside: SqlglotToken) -> SqlglotToken:
    """Make a token that is not in the user's text; errors about it show the one beside it."""
    return SqlglotToken(kind, text, beside.line, beside.col, MADE_POSITION, MADE_POSITION)


def used_args(node: exp.Expr) -> set[str]:
    """Return the names of a node's arguments with a value: the clauses of a SELECT."""
    return {key for key, value in node.args.items() if value}


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of a condition that AND joins."""
    stack = [condition]  # recursion would be as deep as a chain of ANDs is long
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += (node.right, node.left)
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield node
