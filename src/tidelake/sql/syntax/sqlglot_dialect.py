"""The names that this package imports from sqlglot."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

__all__ = [
    "ParseError",
    "Spark",
    "SqlglotToken",
    "TokenError",
    "TokenType",
    "conjuncts",
    "exp",
    "used_args",
]


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
