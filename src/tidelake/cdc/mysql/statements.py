"""What a statement in the log does to whole tables: TRUNCATE, DROP, RENAME, CREATE, partitions.

Columns are not read from statements: the next TABLE_MAP has them. It does not tell that a name is
another column's than before, so the names that a statement gives to columns are noted. A small
strict tokenizer knows quotes, comments and executable comments; what begins like a statement of
these and does not fit its grammar is *unclear*, and then every table that it names must be read
again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum

from tidelake.cdc.mysql.binlog.events import QueryEvent
from tidelake.cdc.source.source_table import SourceName


class TableAction(Enum):
    """What a statement does to a table."""

    TRUNCATE = "truncated"
    DROP = "dropped"
    CREATE = "created"
    ALTER = "altered"
    REREAD = "changed without row events"
    NAME = "given names of columns"


@dataclass(frozen=True, slots=True)
class TableEffect:
    """One table, and what happens to it.

    Parameters
    ----------
    new_name : SourceName or None
        Of a rename.
    reason : str
        Of REREAD: a clause.
    columns : tuple of str
        Of NAME: those that are added, or are another's new name.
    """

    action: TableAction
    table: SourceName
    new_name: SourceName | None = None
    reason: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement's effects.

    Parameters
    ----------
    head : str
        Its first word, in capitals.
    dropped_database : str or None
        Of DROP DATABASE.
    names : frozenset of SourceName
        Whatever may be a table's name in it; only of an unclear statement and of rows that were
        logged as a statement.
    """

    head: str
    effects: tuple[TableEffect, ...] = ()
    dropped_database: str | None = None
    names: frozenset[SourceName] = field(default_factory=frozenset)


_SPACE = re.compile(
    r"(?:\s+|--(?=[\s\x00-\x1f]|$)[^\n]*|#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/)+", re.DOTALL
)
_WORD = re.compile(r"[0-9A-Za-z$_\u0080-\U0010ffff\udc80-\udcff]+")
_BACKTICK = re.compile(r"`((?:[^`]|``)*)`", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|""|\\.)*)"', re.DOTALL)
_DOUBLE_PLAIN = re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_SINGLE_PLAIN = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_ROWS_HEADS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH"})
_PARTITION_WORDS = frozenset({"TRUNCATE", "DROP", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT"})
_NO_COLUMNS = frozenset({
    "INDEX", "KEY", "CONSTRAINT", "PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK",
    "PARTITION", "PERIOD", "SYSTEM", "VECTOR",
})  # fmt: skip
"""What ADD may add besides columns; as a column's name such a word is quoted."""


class _UnclearError(Exception):
    """The text does not fit."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """In capitals, if it may be a keyword."""
        return self.text.upper() if self.kind == "word" else ""


def _tokens(query: QueryEvent) -> Iterator[_Token]:
    text, at = query.text, 0
    single = _SINGLE_PLAIN if query.has_no_backslashes else _SINGLE
    double = _DOUBLE_PLAIN if query.has_no_backslashes or query.has_ansi_quotes else _DOUBLE
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        char = text[at]
        if char == "`":
            found, kind = _BACKTICK.match(text, at), "name"
        elif char == '"':
            found, kind = double.match(text, at), "name" if query.has_ansi_quotes else "text"
        elif char == "'":
            found, kind = single.match(text, at), "text"
        else:
            found, kind = _WORD.match(text, at), "word"
            if found is None:
                yield _Token("sign", char)
                at += 1
                continue
        if found is None:
            raise _UnclearError
        value = found[0]
        if kind == "name":
            quote = value[0]
            value = value[1:-1].replace(quote * 2, quote)
        yield _Token(kind, value)
        at = found.end()


class _Reader:
    """Tokens from left to right; past the end comes an empty sign."""

    def __init__(self, tokens: list[_Token], database: str, *, folds: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self._database = database
        self._folds = folds

    @property
    def word(self) -> str:
        return self.tokens[self.at].word if self.at < len(self.tokens) else ""

    @property
    def sign(self) -> str:
        found = self.tokens[self.at] if self.at < len(self.tokens) else _Token("sign", "")
        return found.text if found.kind == "sign" else "?"

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.tokens) or self.sign == ";"

    def take(self, *words: str) -> str:
        """Step over a word if it is one of these, and give it."""
        found = self.word
        if found and found in words:
            self.at += 1
            return found
        return ""

    def take_all(self, *words: str) -> bool:
        """Step over words that follow each other, or over none."""
        start = self.at
        for word in words:
            if not self.take(word):
                self.at = start
                return False
        return True

    def take_sign(self, sign: str) -> bool:
        if self.sign == sign:
            self.at += 1
            return True
        return False

    def identifier(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at].kind not in {"word", "name"}:
            raise _UnclearError
        self.at += 1
        return self.tokens[self.at - 1].text

    def name(self) -> SourceName:
        first = self.identifier()
        database, table = (first, self.identifier()) if self.take_sign(".") else (
            self._database, first
        )  # fmt: skip
        return self.made(database, table)

    def made(self, database: str, table: str) -> SourceName:
        if self._folds:
            database, table = database.lower(), table.lower()
        return SourceName(database, "", table)

    def database(self) -> str:
        found = self.identifier()
        return found.lower() if self._folds else found

    def skip_wait(self) -> None:
        """Step over MariaDB's WAIT n and NOWAIT."""
        if self.take("NOWAIT"):
            return
        if self.take("WAIT"):
            self.at += 1

    def end(self) -> None:
        if not self.is_done:
            raise _UnclearError

    def names(self) -> frozenset[SourceName]:
        """Whatever may be a table's name."""
        found = set()
        for place, token in enumerate(self.tokens):
            if token.kind == "sign" or token.kind == "text":
                continue
            found.add(self.made(self._database, token.text))
            after = self.tokens[place + 1 : place + 3]
            if len(after) == 2 and after[0].text == "." and after[1].kind in {"word", "name"}:
                found.add(self.made(token.text, after[1].text))
        return frozenset(found)


def read_statement(query: QueryEvent, *, folds: bool = False) -> LoggedStatement:
    """Read a statement.

    Parameters
    ----------
    folds : bool
        Whether the server takes names of tables without regard to case.

    Examples
    --------
    >>> found = read_statement(QueryEvent("shop", "rename table `a` to b.`c``d`"))
    >>> str(found.effects[0].new_name)
    'b.c`d'
    """
    try:
        tokens = list(_tokens(query))
    except _UnclearError:
        words = [_Token("word", word) for word in re.split(r"[^\w$]+", query.text) if word]
        head = words[0].word if words else ""
        return LoggedStatement(head, names=_Reader(words, query.database, folds=folds).names())
    reader = _Reader(tokens, query.database, folds=folds)
    head = reader.word
    if head in _ROWS_HEADS:
        return LoggedStatement(head, names=reader.names())
    reader.at = 1
    try:
        if head == "DROP" and reader.take("DATABASE", "SCHEMA"):
            reader.take_all("IF", "EXISTS")
            return LoggedStatement(head, dropped_database=reader.database())
        return LoggedStatement(head, tuple(_effects(head, reader)))
    except _UnclearError:
        return LoggedStatement(head, names=reader.names())


def _effects(head: str, reader: _Reader) -> Iterator[TableEffect]:
    match head:
        case "TRUNCATE":
            reader.take("TABLE")
            yield TableEffect(TableAction.TRUNCATE, reader.name())
            reader.skip_wait()
            reader.end()
        case "DROP":
            yield from _drops(reader)
        case "RENAME":
            if reader.take("TABLE", "TABLES"):
                yield from _renames(reader)
        case "CREATE":
            yield from _creates(reader)
        case "ALTER":
            while reader.take("ONLINE", "OFFLINE", "IGNORE"):
                pass
            if reader.take("TABLE"):
                yield from _alters(reader)


def _drops(reader: _Reader) -> Iterator[TableEffect]:
    if reader.take("TEMPORARY") or not reader.take("TABLE", "TABLES"):
        return
    reader.take_all("IF", "EXISTS")
    while True:
        yield TableEffect(TableAction.DROP, reader.name())
        if not reader.take_sign(","):
            break
    reader.skip_wait()
    reader.take("RESTRICT", "CASCADE")
    reader.end()


def _renames(reader: _Reader) -> Iterator[TableEffect]:
    reader.take_all("IF", "EXISTS")
    while True:
        old = reader.name()
        reader.skip_wait()
        if not reader.take("TO"):
            raise _UnclearError
        yield TableEffect(TableAction.DROP, old, reader.name())
        if not reader.take_sign(","):
            break
    reader.end()


def _creates(reader: _Reader) -> Iterator[TableEffect]:
    reader.take_all("OR", "REPLACE")
    if reader.take("TEMPORARY") or not reader.take("TABLE"):
        return
    # of a table that is there, this does nothing, and still it is logged
    if reader.take_all("IF", "NOT", "EXISTS"):
        yield TableEffect(TableAction.ALTER, reader.name())
    else:
        yield TableEffect(TableAction.CREATE, reader.name())


def _alters(reader: _Reader) -> Iterator[TableEffect]:
    reader.take_all("IF", "EXISTS")
    table = reader.name()
    reader.skip_wait()
    yield TableEffect(TableAction.ALTER, table)
    depth, is_first = 0, True
    names: list[str] = []
    while not reader.is_done:
        if depth == 0 and is_first:
            start = reader.at
            names += _named_columns(reader)
            reader.at = start
            yield from _alteration(reader, table)
        is_first = depth == 0 and reader.sign == ","
        depth += (reader.sign == "(") - (reader.sign == ")")
        reader.at += 1
    if names:
        yield TableEffect(TableAction.NAME, table, columns=tuple(names))


def _named_columns(reader: _Reader) -> Iterator[str]:
    """Read the names that one part of an ALTER TABLE gives to columns."""
    if reader.take("ADD"):
        if reader.word in _NO_COLUMNS:
            return
        reader.take("COLUMN")
        reader.take_all("IF", "NOT", "EXISTS")
        if not reader.take_sign("("):
            yield reader.identifier()
            return
        depth, is_first = 1, True
        while depth and not reader.is_done:
            if depth == 1 and is_first and reader.word not in _NO_COLUMNS:
                yield reader.identifier()
            is_first = depth == 1 and reader.sign == ","
            depth += (reader.sign == "(") - (reader.sign == ")")
            reader.at += 1
        return
    if reader.take_all("RENAME", "COLUMN"):
        reader.take_all("IF", "EXISTS")
        old = reader.identifier()
        if not reader.take("TO"):
            raise _UnclearError
    elif reader.take("CHANGE"):
        reader.take("COLUMN")
        reader.take_all("IF", "EXISTS")
        old = reader.identifier()
    else:
        return
    new = reader.identifier()
    if new.lower() != old.lower():
        yield new


def _alteration(reader: _Reader, table: SourceName) -> Iterator[TableEffect]:
    """Read one part of an ALTER TABLE, where it renames the table or moves partitions."""
    start, word = reader.at, reader.word
    if reader.take("RENAME"):
        if reader.word in {"COLUMN", "INDEX", "KEY"}:
            reader.at = start
            return
        reader.take("TO", "AS")
        reader.take_sign("=")
        yield TableEffect(TableAction.DROP, table, reader.name())
        return
    if word not in _PARTITION_WORDS:
        return
    reader.at += 1
    what = reader.take("PARTITION", "TABLESPACE", "TABLE")
    if not what or (word == "CONVERT" and what == "TABLESPACE"):
        reader.at = start
        return
    text = f"ALTER TABLE ... {word} {what} changed its rows without row events"
    yield TableEffect(TableAction.REREAD, table, reason=text)
    if word == "EXCHANGE":
        while not reader.is_done and not reader.take_all("WITH", "TABLE"):
            reader.at += 1
        yield TableEffect(TableAction.REREAD, reader.name(), reason=text)


def mentioned(statement: LoggedStatement, tables: Collection[SourceName]) -> list[SourceName]:
    """The tables that an unclear statement may be about."""
    return sorted(name for name in tables if name in statement.names)
