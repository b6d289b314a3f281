"""From the text of a statement to its words, each with its place; errors that show the place.

1. A hint ``/*+ OPTIONS('k'='v') */`` is a comment for every tokenizer. It is written as Spark's own
   ``WITH ('k'='v')`` first, which says the same and happens to have room in the same characters: so
   no place in the text moves.
2. sqlglot's tokenizer for Spark cuts the text.
3. ``t$files`` is put together again, a system table's name.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from tidelake.errors import InvalidInputError, TidelakeError, shortened
from tidelake.sql.syntax.sqlglot_dialect import Spark, Token, TokenError, TokenType

__all__ = [
    "BYTE_ORDER_MARK",
    "Kind",
    "Word",
    "at",
    "fault",
    "other_hints",
    "plain_text",
    "split_statements",
    "tokens_of",
    "words_of",
]

_STRING = r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+\""""
_SKIPPED = rf"{_STRING}|`(?:[^`]|``)*+`|--[^\n]*|/\*(?!\+).*?\*/"
_HINT = rf"(?P<head>/\*\+\s*OPTIONS)\s*\((?:[^'\"()]|{_STRING})*?\)\s*\*/"
_OTHER_HINT = r"/\*\+(?P<body>.*?)\*/"
_HINT_OR_SKIPPED = re.compile(
    f"(?P<skipped>{_SKIPPED})|(?P<hint>{_HINT})", re.DOTALL | re.IGNORECASE
)
_HEAD_WORD = "OPTIONS"
BYTE_ORDER_MARK = "\ufeff"
"""What editors on Windows write before a text in UTF-8; no part of the statement."""

LINE_SHOWN_MAX = 120
TEXTS_KEPT = 4


class _Dialect(Spark):
    """Spark's words, without the statements that sqlglot takes for one long string."""

    class Tokenizer(Spark.Tokenizer):
        """Cuts CALL, SHOW and EXPLAIN too."""

        COMMANDS: ClassVar[set[TokenType]] = set()


class Kind(enum.Enum):
    """What a word is."""

    NAME = "name"
    QUOTED = "name in backticks"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a statement.

    Parameters
    ----------
    kind : Kind
        What it is; keywords are names.
    text : str
        Without quotes, as it was written.
    start, end : int
        Its place in the whole text; `end` is behind it.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """In capitals, or nothing where it is quoted: a quoted word is no keyword."""
        return "" if self.is_quoted else self.text.upper()

    @property
    def is_quoted(self) -> bool:
        """Whether it stood in quotes of any kind."""
        return self.kind is Kind.QUOTED or self.kind is Kind.STRING

    @property
    def is_string(self) -> bool:
        """Whether it is a string."""
        return self.kind is Kind.STRING

    @property
    def is_name(self) -> bool:
        """Whether it can be a name: quoted in backticks, or a plain word."""
        return self.kind in {Kind.NAME, Kind.QUOTED}

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return self.kind is Kind.NUMBER


def plain_text(text: str) -> str:
    """The same text with hints ``/*+ OPTIONS(...) */`` as clauses, all places as they were.

    A byte order mark at its beginning becomes a space.

    Examples
    --------
    >>> plain_text("t /*+ OPTIONS('k'='v') */ x")
    "t     WITH   ('k'='v')    x"
    """
    if text.startswith(BYTE_ORDER_MARK):
        text = f" {text[1:]}"
    return _HINT_OR_SKIPPED.sub(_as_clause, text)


def words_of(text: str) -> list[Word]:
    """Cut a text into words.

    Parameters
    ----------
    text : str
        One statement or several.

    Returns
    -------
    list of Word

    Raises
    ------
    InvalidInputError
        A string, name or comment has no end.

    Examples
    --------
    >>> [w.text for w in words_of("SELECT * FROM t$files /*+ OPTIONS('k'='v') */ -- all")]
    ['SELECT', '*', 'FROM', 't$files', 'WITH', '(', 'k', '=', 'v', ')']
    """
    return list(_cut(text))


@lru_cache(maxsize=TEXTS_KEPT)
def _cut(text: str) -> tuple[Word, ...]:
    """The words; kept, for a statement is cut when it is read, and again when it is run."""
    plain = plain_text(text)
    words: list[Word] = []
    for token in tokens_of(text):
        for word in _words(token, plain):
            if len(words) > 1 and words[-1].text == "$" and _adjacent(words[-2], words[-1], word):
                left = words[-2]
                words[-2:] = [Word(Kind.NAME, plain[left.start : word.end], left.start, word.end)]
            elif words and word.is_string and words[-1].is_string and words[-1].end == word.start:
                left = words[-1]
                # a quote that is doubled inside a string stands for itself
                joined = f"{left.text}{plain[word.start]}{word.text}"
                words[-1] = Word(Kind.STRING, joined, left.start, word.end)
            else:
                words.append(word)
    return tuple(words)


def other_hints(text: str) -> list[tuple[int, str]]:
    """What stands in hints that are no ``OPTIONS(...)``, and where.

    Examples
    --------
    >>> other_hints("SELECT /*+ COALESCE(1) */ '/*+ x */' FROM t /*+ OPTIONS('k'='v') */")
    [(10, ' COALESCE(1) ')]
    """
    found = re.finditer(
        f"{_HINT_OR_SKIPPED.pattern}|{_OTHER_HINT}", text, re.DOTALL | re.IGNORECASE
    )
    return [(each.start("body"), each["body"]) for each in found if each["body"] is not None]


def tokens_of(text: str) -> list[Token]:
    """Cut a text into sqlglot's tokens; hints are clauses.

    Raises
    ------
    InvalidInputError
        A string, name or comment has no end.
    """
    try:
        return list(_Dialect().tokenize(plain_text(text)))
    except TokenError as error:
        raise _unended(text) from error


_SIGNS = frozenset({TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN})
_PIECE = re.compile(r"\S+")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*|\d+[A-Za-z_]\w*")


def _words(token: Token, text: str) -> list[Word]:
    """A token as words: ``PRIMARY KEY`` is one token of sqlglot's."""
    start, end = token.start, token.end + 1
    if token.token_type is TokenType.STRING:
        return [Word(Kind.STRING, token.text, start, end)]
    if token.token_type is TokenType.IDENTIFIER:
        return [Word(Kind.QUOTED, token.text, start, end)]
    if token.token_type is TokenType.NUMBER:
        return [Word(Kind.NUMBER, token.text, start, end)]
    if token.token_type in _SIGNS:
        return [Word(Kind.SIGN, token.text, start, end)]
    return [
        Word(
            Kind.NAME if _PLAIN_NAME.fullmatch(piece[0]) else Kind.SIGN,
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


def _adjacent(left: Word, dollar: Word, right: Word) -> bool:
    if left.kind is not Kind.NAME or right.kind is not Kind.NAME:
        return False
    return left.end == dollar.start and dollar.end == right.start


def split_statements(words: Sequence[Word]) -> list[list[Word]]:
    """Cut at semicolons; empty statements are left out."""
    statements: list[list[Word]] = [[]]
    for word in words:
        if word.text == ";" and word.kind is Kind.SIGN:
            statements.append([])
        else:
            statements[-1].append(word)
    return [statement for statement in statements if statement]


def at(text: str, start: int) -> str:
    r"""Show a place of a text: its line, its column, and a caret under it.

    Examples
    --------
    >>> print(at("SELECT a\nFROM WHERE b", 14))
    line 2, column 6:
      FROM WHERE b
           ^
    """
    start = min(start, len(text))
    if text.startswith(BYTE_ORDER_MARK):
        text, start = text[1:], max(0, start - 1)
    line_number = text.count("\n", 0, start) + 1
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].partition("\n")[0]
    column = start - line_start
    cut = max(0, column - LINE_SHOWN_MAX // 2)
    shown = line[cut : cut + LINE_SHOWN_MAX].replace("\t", " ")
    return f"line {line_number}, column {column + 1}:\n  {shown}\n  {' ' * (column - cut)}^"


def fault(
    text: str,
    start: int,
    message: str,
    *,
    kind: str = "sql_syntax",
    error: type[TidelakeError] = InvalidInputError,
    **context: object,
) -> TidelakeError:
    """Make the error for a fault at one place of a statement.

    Parameters
    ----------
    text : str
        The whole text.
    start : int
        Where the fault is.
    message : str
        What is wrong and what to do, as whole sentences.
    kind, error, **context
        As of the errors.
    """
    return error(f"{message} At {at(text, start)}", kind=kind, **context)


def _unended(text: str) -> TidelakeError:
    """The error for a text whose last string, name or comment has no end."""
    position = 0
    while position < len(text):
        found = re.compile(r"['\"`]|--|/\*").search(text, position)
        if found is None:
            break
        whole = _HINT_OR_SKIPPED.match(text, found.start())
        if whole is None and found[0] != "/*":
            what = "name" if found[0] == "`" else "string"
            return fault(text, found.start(), f"This {what} has no end: close it with {found[0]}.")
        if whole is None and "*/" not in text[found.end() :]:
            return fault(text, found.start(), "This comment has no end: close it with */.")
        position = whole.end() if whole is not None else text.index("*/", found.end()) + 2
    message = (
        f"'{shortened(text)}' cannot be cut into words: look for a sign that SQL does not know."
    )
    return InvalidInputError(message, kind="sql_syntax")
