"""Parses CREATE TABLE of Flink and of Spark, with or without AS."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from tidelake.errors import TidelakeError
from tidelake.sql.syntax.ast import CreateTable, MetadataKey, Query, Watermark
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.tokens import tokenize
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.types import DataField

_AFTER_DEFAULT = frozenset({",", ")"})
"""Tokens that may follow a default; any other one continues an expression."""
OWN_FORMATS = frozenset({"tidelake", "paimon"})
_REFUSED_CLAUSES = {
    "LOCATION": "the warehouse and the table's name give its location; CREATE TEMPORARY TABLE takes"
    " a 'path'",
    "CLUSTERED": "set 'bucket' and 'bucket-key' in the options",
    "DISTRIBUTED": "set 'bucket' and 'bucket-key' in the options",
    "ROW": "use spark.sql for tables of Hive",
    "STORED": "set 'file.format' in the options",
    "CLUSTER": "set 'clustering.columns' in the options",
    "SKEWED": "set 'bucket' and 'bucket-key' in the options",
}


def detect_spelling(cursor: Cursor) -> Spelling:
    """Detect the dialect of a CREATE TABLE by its clauses.

    ``WITH (`` and ``WATERMARK FOR`` are Flink's, ``USING`` and ``TBLPROPERTIES`` Spark's. Without
    any of them ``NOT ENFORCED`` is Flink's too, although Spark has it for keys; otherwise it is
    Spark's.
    """
    tokens = cursor.tokens[cursor.index :]
    depth, found = 0, Spelling.SPARK
    for token, following in zip_longest(tokens, tokens[1:]):
        depth += token.nesting
        pair = (token.upper, following.upper if following is not None else "")
        if pair == ("WATERMARK", "FOR") or (depth == 0 and pair == ("WITH", "(")):
            return Spelling.FLINK
        if depth == 0 and token.upper in {"USING", "TBLPROPERTIES"}:
            return Spelling.SPARK
        if depth == 0 and token.upper == "AS":
            break
        if pair == ("NOT", "ENFORCED"):
            found = Spelling.FLINK
    return found


@dataclass(slots=True)
class _Columns:
    """The parenthesized part of CREATE TABLE."""

    fields: list[DataField] = field(default_factory=list)
    primary_keys: tuple[str, ...] = ()
    watermark: Watermark | None = None
    metadata: dict[str, MetadataKey] = field(default_factory=dict)


@dataclass(slots=True)
class _Clauses:
    """The clauses after the columns."""

    partition_keys: tuple[str, ...] = ()
    partition_fields: list[DataField] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None


def create_table(
    cursor: Cursor,
    *,
    is_temporary: bool = False,
    if_exists: Literal["error", "ignore", "replace"] = "error",
    must_exist: bool = False,
) -> CreateTable:
    """Parse the rest of ``CREATE TABLE``."""
    if cursor.accept("IF", "NOT", "EXISTS"):
        if if_exists == "replace":
            raise cursor.error("Write OR REPLACE or IF NOT EXISTS, not both.")
        if_exists = "ignore"
    name = cursor.table_name()
    spelling = detect_spelling(cursor)
    like = _like(cursor, is_replaced=if_exists == "replace") if cursor.peek("LIKE") else None
    columns = _columns(cursor, spelling) if cursor.peek("(") and like is None else _Columns()
    clauses = _clauses(cursor, spelling)
    query = None
    if cursor.accept("AS") or cursor.peek("SELECT") or cursor.peek("WITH"):
        if columns.fields:
            raise cursor.unsupported(
                "The query after AS gives the columns: leave out the columns or the query."
            )
        query = Query(cursor.text, cursor.position, cursor.tokens[-1].end)
        cursor.index = len(cursor.tokens)
    elif not columns.fields and not is_temporary and like is None:
        raise cursor.error(f"Table '{name}' needs columns: (name TYPE, ...), or AS and a query.")
    cursor.expect_end()
    fields = [*columns.fields, *clauses.partition_fields]
    return CreateTable(
        name,
        fields=tuple(fields),
        primary_keys=columns.primary_keys,
        partition_keys=clauses.partition_keys,
        options=clauses.options,
        comment=clauses.comment,
        watermark=columns.watermark,
        query=query,
        if_exists=if_exists,
        must_exist=must_exist,
        is_temporary=is_temporary,
        like=like,
        metadata=columns.metadata,
    )


def _like(cursor: Cursor, *, is_replaced: bool) -> TableName:
    """Parse Spark's ``LIKE table``."""
    if is_replaced:
        raise cursor.unsupported("OR REPLACE cannot be used with LIKE: DROP the old table first.")
    cursor.expect("LIKE")
    name = cursor.table_name()
    if cursor.peek("("):
        raise cursor.unsupported(
            "LIKE copies columns, keys and options: leave out INCLUDING and EXCLUDING."
        )
    if cursor.peek("PARTITIONED", "BY") or cursor.peek("AS"):
        raise cursor.unsupported("The table after LIKE gives columns and partitions: leave it out.")
    return name


def _columns(cursor: Cursor, spelling: Spelling) -> _Columns:
    columns = _Columns()

    def item() -> None:
        start = cursor.position
        if cursor.accept("CONSTRAINT"):
            cursor.name("constraint's name")
            _table_key(cursor, columns, start)
        elif cursor.peek("PRIMARY", "KEY"):
            _table_key(cursor, columns, start)
        elif cursor.accept("WATERMARK", "FOR"):
            if columns.watermark is not None:
                raise cursor.unsupported("A table has one watermark.", start=start)
            columns.watermark = read_watermark(cursor, [f.name for f in columns.fields])
        elif cursor.peek("UNIQUE") or cursor.peek("CHECK") or cursor.peek("FOREIGN", "KEY"):
            raise cursor.unsupported(
                "Supported constraints are PRIMARY KEY ... NOT ENFORCED, and NOT NULL. A condition"
                " on the rows is an option of the table: 'constraint.<name>' = 'price >= 0'."
            )
        elif cursor.peek("LIKE"):
            raise cursor.unsupported(
                "LIKE among the columns is not supported: write CREATE TABLE t LIKE other."
            )
        else:
            column, is_key = read_column(cursor, spelling, columns.metadata)
            if column.name in {f.name for f in columns.fields}:
                raise cursor.error(f"Column '{column.name}' is listed twice.", start=start)
            columns.fields.append(column)
            if is_key:
                _set_key(cursor, columns, (column.name,), start)

    cursor.parenthesized("the columns", item)
    names = [f.name for f in columns.fields]
    if columns.watermark is not None and columns.watermark.column not in names:
        raise cursor.error(
            f"WATERMARK names an unknown column '{columns.watermark.column}'. The columns are:"
            f" {', '.join(names)}."
        )
    return columns


def _table_key(cursor: Cursor, columns: _Columns, start: int) -> None:
    cursor.expect("PRIMARY", "KEY")
    names = cursor.parenthesized("the primary key", lambda: cursor.name("column"))
    _set_key(cursor, columns, tuple(names), start)
    _enforced(cursor)


def _enforced(cursor: Cursor) -> None:
    if cursor.peek("ENFORCED"):
        raise cursor.unsupported(
            "Keys are not enforced, rows of one key are merged: write NOT ENFORCED or nothing."
        )
    cursor.accept("NOT", "ENFORCED")
    cursor.accept("RELY")


def _set_key(cursor: Cursor, columns: _Columns, names: tuple[str, ...], start: int) -> None:
    if columns.primary_keys:
        raise cursor.error("A table has one primary key: list all its columns in it.", start=start)
    columns.primary_keys = names


def read_column(
    cursor: Cursor, spelling: Spelling, metadata: dict[str, MetadataKey] | None = None
) -> tuple[DataField, bool]:
    """Read a column, and True if it is declared PRIMARY KEY.

    If `metadata` is given, METADATA is allowed and `metadata` gets its key.
    """
    name = cursor.name("column")
    if cursor.peek("AS") or cursor.peek("GENERATED") or cursor.peek("METADATA"):
        raise cursor.unsupported(
            f"Computed columns are not supported: compute '{name}' in queries or in the INSERT."
        )
    data_type = read_type(cursor, spelling)
    is_key = False
    comment = default = None
    while True:
        if cursor.accept("COMMENT"):
            comment = cursor.string("comment")
        elif cursor.accept("DEFAULT"):
            default = read_default(cursor)
        elif cursor.accept("NOT", "NULL"):
            data_type = data_type.not_null()
        elif cursor.accept("PRIMARY", "KEY"):
            is_key = True
            _enforced(cursor)
        elif metadata is not None and cursor.accept("METADATA"):
            key = cursor.string("metadata key") if cursor.accept("FROM") else name
            metadata[name] = MetadataKey(key, bool(cursor.accept("VIRTUAL")))
        elif cursor.peek("GENERATED") or cursor.peek("COLLATE") or cursor.peek("METADATA"):
            raise cursor.unsupported(
                f"'{cursor.token.text if cursor.token else ''}' is not supported: leave it out."
            )
        else:
            return DataField(0, name, data_type, comment, default), is_key


def parse_default(text: str) -> str:
    """Parse a default that stands alone, as Spark hands it over.

    Examples
    --------
    >>> parse_default("DATE '2026-11-30'")
    '2026-11-30'
    """
    cursor = Cursor(text, tokenize(text))
    default = read_default(cursor)
    if cursor.token is not None:
        raise _default_refusal(cursor, 0)
    return default


def read_default(cursor: Cursor) -> str:
    """Read a default: one literal; a string keeps its quotes.

    Paimon's schema stores a default as the text of a value, so functions are refused.
    """
    start = cursor.position
    default = _literal_default(cursor)
    token = cursor.token
    if token is not None and (
        token.upper == "(" or not (token.is_name or token.upper in _AFTER_DEFAULT)
    ):
        raise _default_refusal(cursor, start)
    return default


def _default_refusal(cursor: Cursor, start: int) -> TidelakeError:
    return cursor.unsupported(
        "A default must be one literal, as in DEFAULT 3. Give the value of a function or an"
        " expression, such as current_date(), in the INSERT.",
        start=start,
    )


def _literal_default(cursor: Cursor) -> str:
    if cursor.token is not None and cursor.token.is_string:
        return f"'{cursor.string('default')}'"
    if cursor.accept("NULL"):
        raise cursor.unsupported(
            "A column without a default is null anyway: leave out DEFAULT NULL."
        )
    for name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        if cursor.accept(name):
            return cursor.string("default")
    token = cursor.token
    if token is not None and not token.is_quoted and token.upper not in {"TRUE", "FALSE"}:
        sign = token.text == "-"
        following = cursor.tokens[cursor.index + sign : cursor.index + sign + 1]
        if token.text in {"(", "+"} or (following and following[0].is_name):
            raise _default_refusal(cursor, cursor.position)
    return cursor.option_value("default")


def read_watermark(cursor: Cursor, columns: list[str]) -> Watermark:
    """Parse the rest of WATERMARK FOR."""
    column = cursor.name("column of the watermark")
    cursor.expect("AS", why=" after the watermark's column")
    depth = 0
    parts: list[str] = []
    end = -1
    while (token := cursor.token) is not None:
        depth += token.nesting
        if depth < 0 or (depth == 0 and token.upper == ","):
            break
        text = cursor.text[token.start : token.end]
        if not token.is_quoted and (token.text in columns or token.text == column):
            text = quoted_name(token.text)
        parts.append((" " if end >= 0 and token.start > end else "") + text)
        end = token.end
        cursor.index += 1
    if not parts:
        raise cursor.error("The watermark's expression is missing here.")
    return Watermark(column, "".join(parts))


def _clauses(cursor: Cursor, spelling: Spelling) -> _Clauses:
    clauses = _Clauses()
    while True:
        if cursor.accept("COMMENT"):
            clauses.comment = cursor.string("comment")
        elif (
            cursor.peek("WITH", "(") or cursor.peek("TBLPROPERTIES") or cursor.peek("OPTIONS", "(")
        ):
            cursor.index += 1
            clauses.options.update(cursor.options())
        elif cursor.accept("USING"):
            start = cursor.position
            used = cursor.name("format")
            if used.lower() not in OWN_FORMATS:
                raise cursor.unsupported(
                    f"Write USING tidelake or paimon; create a table of '{used}' by spark.sql.",
                    start=start,
                )
        elif cursor.accept("PARTITIONED", "BY"):
            _partitions(cursor, spelling, clauses)
        else:
            _refuse_clause(cursor)
            return clauses


def _partitions(cursor: Cursor, spelling: Spelling, clauses: _Clauses) -> None:
    def item() -> str:
        start = cursor.position
        following = cursor.tokens[cursor.index + 1 : cursor.index + 2]
        if following and following[0].upper == "(":
            raise cursor.unsupported(
                "A partition key is a column, not a function: add a column with its value.",
                start=start,
            )
        if following and following[0].upper not in {",", ")"}:
            column, _ = read_column(cursor, spelling)
            clauses.partition_fields.append(column)
            return column.name
        return cursor.name("partition column")

    clauses.partition_keys = tuple(cursor.parenthesized("the partition columns", item))


def _refuse_clause(cursor: Cursor) -> None:
    token = cursor.token
    if token is not None and token.upper in _REFUSED_CLAUSES:
        raise cursor.unsupported(
            f"{token.upper} is not supported: {_REFUSED_CLAUSES[token.upper]}."
        )
