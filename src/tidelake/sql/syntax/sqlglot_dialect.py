"""The parser behind the statements: all that this package takes of sqlglot."""

from __future__ import annotations

from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["ParseError", "Spark", "Token", "TokenError", "TokenType", "exp"]
