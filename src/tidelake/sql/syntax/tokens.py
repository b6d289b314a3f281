"""Tokens of a statement with their positions, and errors that show a position.

1. Every tokenizer skips a hint ``/*+ OPTIONS('k'='v') */`` as a comment. It is first replaced by
   Spark's ``WITH ('k'='v')``, which means the same and has the same length: no position changes.
2. sqlglot's tokenizer for Spark cuts the text.
3. The parts of a system table's name, ``t$files``, are joined again.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from tidelake.errors import InvalidInputError, TidelakeError, shortened
from tidelake.sql.syntax.sqlglot_dialect import Spark, SqlglotToken, TokenError, TokenType

_STRING = r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+\""""
_SKIPPED = rf"{_STRING}|`(?:[^`]|``)*+`|--[^\n]*|/\*(?!\+).*?\*/"
_HINT = rf"(?P<head>/\*\+\s*OPTIONS)\s*\((?:[^'\"()]|{_STRING})*?\)\s*\*/"
_OTHER_HINT = r"/\*\+(?P<body>.*?)\*/"
_HINT_OR_SKIPPED = re.compile(
    f"(?P<skipped>{_SKIPPED})|(?P<hint>{_HINT})", re.DOTALL | re.IGNORECASE
)
_HEAD_WORD = "OPTIONS"
_SECRET_KEY = "password|secret|token|credential|access[.-]?key|account[.-]?key|jaas"
_HEADER_KEY = r"""(?:[^'"\n]*\.)?header\."""
"""Headers of a REST catalog: any of them may hold a secret."""
_SECRET = re.compile(
    rf"""(?P<key>(['"])(?:[^'"\n]*(?:{_SECRET_KEY})|{_HEADER_KEY})[^'"\n]*+\2\s*=\s*)"""
    rf"""(?P<value>{_STRING}|['"].*)""",
    re.IGNORECASE,
)
BYTE_ORDER_MARK = "\ufeff"
"""Editors on Windows write it before a text in UTF-8; it is no part of the statement."""

LINE_SHOWN_MAX = 120
TEXTS_KEPT = 4


class _Dialect(Spark):
    """Spark's dialect, without the commands that sqlglot keeps as one string."""

    class Tokenizer(Spark.Tokenizer):
        """Tokenizes CALL, SHOW and EXPLAIN too."""

        COMMANDS: ClassVar[set[TokenType]] = set()


class TokenKind(enum.Enum):
    """Kind of a token."""

    NAME = "name"
    QUOTED = "name in backticks"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a statement.

    Parameters
    ----------
    text : str
        As written, without quotes.
    start, end : int
        Offsets in the whole text; `end` is exclusive.
    """

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The text in upper case; empty for a quoted token, which is no keyword."""
        return "" if self.is_quoted else self.text.upper()

    @property
    def nesting(self) -> int:
        """1 for an opening parenthesis, -1 for a closing one, else 0."""
        return (self.upper == "(") - (self.upper == ")")

    @property
    def is_quoted(self) -> bool:
        """True in quotes of any kind."""
        return self.kind is TokenKind.QUOTED or self.kind is TokenKind.STRING

    @property
    def is_string(self) -> bool:
        """True for a string."""
        return self.kind is TokenKind.STRING

    @property
    def is_name(self) -> bool:
        """True for a plain word or a name in backticks."""
        return self.kind in {TokenKind.NAME, TokenKind.QUOTED}

    @property
    def is_number(self) -> bool:
        """True for a number."""
        return self.kind is TokenKind.NUMBER


def plain_text(text: str) -> str:
    """Replace hints ``/*+ OPTIONS(...) */`` by clauses; no position changes.

    A byte order mark becomes a space.

    Examples
    --------
    >>> plain_text("t /*+ OPTIONS('k'='v') */ x")
    "t     WITH   ('k'='v')    x"
    """
    if text.startswith(BYTE_ORDER_MARK):
        text = f" {text[1:]}"
    return _HINT_OR_SKIPPED.sub(_as_clause, text)


def tokenize(text: str) -> list[Token]:
    """Tokenize a text.

    Returns
    -------
    list of Token

    Raises
    ------
    InvalidInputError
        A string, name or comment is not closed.

    Examples
    --------
    >>> [w.text for w in tokenize("SELECT * FROM t$files /*+ OPTIONS('k'='v') */ -- all")]
    ['SELECT', '*', 'FROM', 't$files', 'WITH', '(', 'k', '=', 'v', ')']
    """
    return list(_tokenized(text))


@lru_cache(maxsize=TEXTS_KEPT)
def _tokenized(text: str) -> tuple[Token, ...]:
    """Cached: a statement is tokenized when it is parsed, and again when it runs."""
    plain = plain_text(text)
    tokens: list[Token] = []
    for raw in sqlglot_tokens(text):
        for token in _tokens(raw, plain):
            if (
                len(tokens) > 1
                and tokens[-1].text == "$"
                and _adjacent(tokens[-2], tokens[-1], token)
            ):
                left = tokens[-2]
                tokens[-2:] = [
                    Token(TokenKind.NAME, plain[left.start : token.end], left.start, token.end)
                ]
            elif (
                tokens
                and token.is_string
                and tokens[-1].is_string
                and tokens[-1].end == token.start
            ):
                left = tokens[-1]
                # a doubled quote inside a string is one quote
                joined = f"{left.text}{plain[token.start]}{token.text}"
                tokens[-1] = Token(TokenKind.STRING, joined, left.start, token.end)
            else:
                tokens.append(token)
    return tuple(tokens)


def non_option_hints(text: str) -> list[tuple[int, str]]:
    """Find the hints other than ``OPTIONS(...)``: offset and text of each.

    Examples
    --------
    >>> non_option_hints("SELECT /*+ COALESCE(1) */ '/*+ x */' FROM t /*+ OPTIONS('k'='v') */")
    [(10, ' COALESCE(1) ')]
    """
    found = re.finditer(
        f"{_HINT_OR_SKIPPED.pattern}|{_OTHER_HINT}", text, re.DOTALL | re.IGNORECASE
    )
    return [(each.start("body"), each["body"]) for each in found if each["body"] is not None]


def sqlglot_tokens(text: str) -> list[SqlglotToken]:
    """Tokenize a text with sqlglot; hints become clauses.

    Raises
    ------
    InvalidInputError
        A string, name or comment is not closed.
    """
    try:
        return list(_Dialect().tokenize(plain_text(text)))
    except TokenError:
        raise _unended(text) from None  # its own message may show a secret


_SIGNS = frozenset({TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN})
_PIECE = re.compile(r"\S+")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*|\d+[A-Za-z_]\w*")


def _tokens(raw: SqlglotToken, text: str) -> list[Token]:
    """Split a token of sqlglot: ``PRIMARY KEY`` is one."""
    start, end = raw.start, raw.end + 1
    if raw.token_type is TokenType.STRING:
        return [Token(TokenKind.STRING, raw.text, start, end)]
    if raw.token_type is TokenType.IDENTIFIER:
        return [Token(TokenKind.QUOTED, raw.text, start, end)]
    if raw.token_type is TokenType.NUMBER:
        return [Token(TokenKind.NUMBER, raw.text, start, end)]
    if raw.token_type in _SIGNS:
        return [Token(TokenKind.SIGN, raw.text, start, end)]
    return [
        Token(
            TokenKind.NAME if _PLAIN_NAME.fullmatch(piece[0]) else TokenKind.SIGN,
            piece[0],
            start + piece.start(),
            start + piece.end(),
        )
        for piece in _PIECE.finditer(text[start:end])
    ]


def _as_clause(found: re.Match[str]) -> str:
    if found["hint"] is None:
        return found[0]
    head = found["head"]
    space = "".join(c if c.isspace() else " " for c in head[: -len(_HEAD_WORD)])
    return space + "WITH".ljust(len(_HEAD_WORD)) + found["hint"][len(head) : -2] + "  "


def _adjacent(left: Token, dollar: Token, right: Token) -> bool:
    if left.kind is not TokenKind.NAME or right.kind is not TokenKind.NAME:
        return False
    return left.end == dollar.start and dollar.end == right.start


def split_statements(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at semicolons; skip empty statements.

    A statement set is one statement: its tokens keep the semicolons between BEGIN and END.
    """
    statements: list[list[Token]] = [[]]
    for token in tokens:
        is_end = token.text == ";" and token.kind is TokenKind.SIGN
        if is_end and not _is_open_set(statements[-1]):
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


_SETS = (("EXECUTE", "STATEMENT", "SET"), ("BEGIN", "STATEMENT", "SET"))


def _is_open_set(tokens: Sequence[Token]) -> bool:
    """Check for a statement set whose END is missing."""
    if tuple(token.upper for token in tokens[:3]) not in _SETS:
        return False
    return tokens[-1].upper != "END" or tokens[-2].text not in {";", "BEGIN"}


def without_secrets(text: str) -> str:
    """Hide the values of options that are secrets, for errors, echoes and histories.

    Examples
    --------
    >>> without_secrets("CREATE CATALOG c WITH ('jdbc.user' = 'me', 'jdbc.password' = 'it''s')")
    "CREATE CATALOG c WITH ('jdbc.user' = 'me', 'jdbc.password' = '*****')"
    """
    return _SECRET.sub(_hidden, text)


def _hidden(found: re.Match[str]) -> str:
    value = found["value"]  # as long as before: positions behind it stay
    end = value[0] if len(value) > 1 and value[-1] == value[0] else ""
    inside = value[1 : len(value) - len(end)]
    return found["key"] + value[0] + re.sub(r"[^\n]", "*", inside) + end


def show_position(text: str, start: int) -> str:
    r"""Show a position: line, column, and a caret under it.

    Examples
    --------
    >>> print(show_position("SELECT a\nFROM WHERE b", 14))
    line 2, column 6:
      FROM WHERE b
           ^
    """
    start, text = min(start, len(text)), without_secrets(text)
    if text.startswith(BYTE_ORDER_MARK):
        text, start = text[1:], max(0, start - 1)
    line_number = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    column = start - line_start
    cut = max(0, column - LINE_SHOWN_MAX // 2)
    shown = line[cut : cut + LINE_SHOWN_MAX].replace("\t", " ")
    return f"line {line_number}, column {column + 1}:\n  {shown}\n  {' ' * (column - cut)}^"


def error_at(
    text: str,
    start: int,
    message: str,
    *,
    kind: str = "sql_syntax",
    error: type[TidelakeError] = InvalidInputError,
    **context: object,
) -> TidelakeError:
    """Make an error that shows a position of a statement."""
    return error(f"{message} At {show_position(text, start)}", kind=kind, **context)


def _unended(text: str) -> TidelakeError:
    """Make the error for a string, name or comment that is not closed."""
    position = 0
    while position < len(text):
        found = re.compile(r"['\"`]|--|/\*").search(text, position)
        if found is None:
            break
        whole = _HINT_OR_SKIPPED.match(text, found.start())
        if whole is None and found[0] != "/*":
            what = "name" if found[0] == "`" else "string"
            return error_at(
                text, found.start(), f"This {what} has no end: close it with {found[0]}."
            )
        if whole is None and "*/" not in text[found.end() :]:
            return error_at(text, found.start(), "This comment has no end: close it with */.")
        position = whole.end() if whole is not None else text.index("*/", found.end()) + 2
    message = f"'{shortened(text)}' cannot be split into tokens: remove text that is not SQL."
    return InvalidInputError(message, kind="sql_syntax")
