"""Reads CREATE TABLE: Flink's form, Spark's form, and AS."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from tidelake.errors import TidelakeError
from tidelake.sql.syntax.ast import CreateTable, Query, Watermark
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.name import TableName, quoted_name
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.types import DataField

__all__ = ["column_of", "create_table", "spelling_of", "watermark_of"]

_BEHIND = frozenset({",", ")"})
"""The signs that may stand behind a default; all else there goes on with an expression."""
OWN_FORMATS = frozenset({"tidelake", "paimon"})
_REFUSED_CLAUSES = {
    "LOCATION": "the warehouse and the table's name say where it is; CREATE TEMPORARY TABLE takes"
    " a 'path'",
    "CLUSTERED": "say 'bucket' and 'bucket-key' in the options",
    "DISTRIBUTED": "say 'bucket' and 'bucket-key' in the options",
    "ROW": "tables of Hive are Spark's: use spark.sql",
    "STORED": "say 'file.format' in the options",
    "CLUSTER": "an order of rows is not kept by writes here; leave it out",
    "SKEWED": "say 'bucket' and 'bucket-key' in the options",
}


def spelling_of(reader: Reader) -> Spelling:
    """Say whose form a CREATE TABLE has, by the clauses ahead.

    ``WITH (``, ``NOT ENFORCED``, ``WATERMARK FOR`` are Flink's; without any of them, it is Spark's.
    """
    words = reader.words[reader.index :]
    depth = 0
    for word, following in zip_longest(words, words[1:]):
        depth += (word.upper == "(") - (word.upper == ")")
        pair = (word.upper, following.upper if following is not None else "")
        if pair in {("NOT", "ENFORCED"), ("WATERMARK", "FOR")}:
            return Spelling.FLINK
        if depth == 0:
            if pair == ("WITH", "("):
                return Spelling.FLINK
            if word.upper in {"USING", "TBLPROPERTIES", "AS"}:
                return Spelling.SPARK
    return Spelling.SPARK


@dataclass(slots=True)
class _Columns:
    """What stands in the parentheses of CREATE TABLE."""

    fields: list[DataField] = field(default_factory=list)
    primary_keys: tuple[str, ...] = ()
    watermark: Watermark | None = None


@dataclass(slots=True)
class _Clauses:
    """What stands behind them."""

    partition_keys: tuple[str, ...] = ()
    partition_fields: list[DataField] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None


def create_table(
    reader: Reader,
    *,
    is_temporary: bool = False,
    if_exists: Literal["error", "ignore", "replace"] = "error",
    must_exist: bool = False,
) -> CreateTable:
    """Read what stands behind ``CREATE TABLE``."""
    if reader.take("IF", "NOT", "EXISTS"):
        if if_exists == "replace":
            raise reader.fault("Say OR REPLACE or IF NOT EXISTS, not both.")
        if_exists = "ignore"
    name = reader.table_name()
    spelling = spelling_of(reader)
    like = _like(reader, is_replaced=if_exists == "replace") if reader.sees("LIKE") else None
    columns = _columns(reader, spelling) if reader.sees("(") and like is None else _Columns()
    clauses = _clauses(reader, spelling)
    query = None
    if reader.take("AS") or reader.sees("SELECT") or reader.sees("WITH"):
        if columns.fields:
            raise reader.refusal("Columns come from the query behind AS: leave out one of the two.")
        query = Query(reader.text, reader.place, reader.words[-1].end)
        reader.index = len(reader.words)
    elif not columns.fields and not is_temporary and like is None:
        raise reader.fault(f"Table '{name}' needs columns: (name TYPE, ...), or AS and a query.")
    reader.finish()
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
    )


def _like(reader: Reader, *, is_replaced: bool) -> TableName:
    """Read ``LIKE table``, of Spark's form."""
    if is_replaced:
        raise reader.refusal("OR REPLACE does not go with LIKE: DROP the old table first.")
    reader.need("LIKE")
    name = reader.table_name()
    if reader.sees("("):
        raise reader.refusal("What LIKE takes over cannot be chosen: leave INCLUDING and such out.")
    if reader.sees("PARTITIONED", "BY") or reader.sees("AS"):
        raise reader.refusal("Columns and partitions are those of the table behind LIKE.")
    return name


def _columns(reader: Reader, spelling: Spelling) -> _Columns:
    columns = _Columns()

    def item() -> None:
        start = reader.place
        if reader.take("CONSTRAINT"):
            reader.name("constraint's name")
            _table_key(reader, columns, start)
        elif reader.sees("PRIMARY", "KEY"):
            _table_key(reader, columns, start)
        elif reader.take("WATERMARK", "FOR"):
            if columns.watermark is not None:
                raise reader.refusal("A table has one watermark.", start=start)
            columns.watermark = watermark_of(reader, [f.name for f in columns.fields])
        elif reader.sees("UNIQUE") or reader.sees("CHECK") or reader.sees("FOREIGN", "KEY"):
            raise reader.refusal(
                "Of constraints there is PRIMARY KEY ... NOT ENFORCED, and NOT NULL."
            )
        elif reader.sees("LIKE"):
            raise reader.refusal(
                "LIKE among the columns is not covered: write CREATE TABLE t LIKE other."
            )
        else:
            column, is_key = column_of(reader, spelling)
            if column.name in {f.name for f in columns.fields}:
                raise reader.fault(f"Column '{column.name}' is there twice.", start=start)
            columns.fields.append(column)
            if is_key:
                _set_key(reader, columns, (column.name,), start)

    reader.within("the columns", item)
    names = [f.name for f in columns.fields]
    if columns.watermark is not None and columns.watermark.column not in names:
        raise reader.fault(
            f"WATERMARK names the column '{columns.watermark.column}', which the table does not"
            f" have. The columns are: {', '.join(names)}."
        )
    return columns


def _table_key(reader: Reader, columns: _Columns, start: int) -> None:
    reader.need("PRIMARY", "KEY")
    names = reader.within("the primary key", lambda: reader.name("column"))
    _set_key(reader, columns, tuple(names), start)
    _enforced(reader)


def _enforced(reader: Reader) -> None:
    if reader.sees("ENFORCED"):
        raise reader.refusal(
            "A key is not checked, rows of one key are merged: write NOT ENFORCED or nothing."
        )
    reader.take("NOT", "ENFORCED")
    reader.take("RELY")


def _set_key(reader: Reader, columns: _Columns, names: tuple[str, ...], start: int) -> None:
    if columns.primary_keys:
        raise reader.fault("A table has one primary key: name all its columns in it.", start=start)
    columns.primary_keys = names


def column_of(reader: Reader, spelling: Spelling) -> tuple[DataField, bool]:
    """Read a column and whether it says that it is the primary key."""
    name = reader.name("column")
    if reader.sees("AS") or reader.sees("GENERATED") or reader.sees("METADATA"):
        raise reader.refusal(
            f"Column '{name}' is computed, which tables here do not store: compute it in queries,"
            " or in the INSERT."
        )
    data_type = read_type(reader, spelling)
    is_key = False
    comment = default = None
    while True:
        if reader.take("COMMENT"):
            comment = reader.string("comment")
        elif reader.take("DEFAULT"):
            default = default_of(reader)
        elif reader.take("NOT", "NULL"):
            data_type = data_type.not_null()
        elif reader.take("PRIMARY", "KEY"):
            is_key = True
            _enforced(reader)
        elif reader.sees("GENERATED") or reader.sees("COLLATE") or reader.sees("METADATA"):
            raise reader.refusal(
                f"'{reader.word.text if reader.word else ''}' is not covered: leave it out."
            )
        else:
            return DataField(0, name, data_type, comment, default), is_key


def default_of(reader: Reader) -> str:
    """Read a default: a literal; a text keeps its quotes, as Paimon keeps it.

    Paimon's schema holds a default as the text of a value, so what is worked out anew for each row
    or statement has no place in it.
    """
    start = reader.place
    default = _literal_default(reader)
    word = reader.word
    if word is not None and (word.upper == "(" or not (word.is_name or word.upper in _BEHIND)):
        raise _no_constant(reader, start)
    return default


def _no_constant(reader: Reader, start: int) -> TidelakeError:
    return reader.refusal(
        "A default is one literal, which Paimon keeps as text: write the value itself, as in"
        " DEFAULT 3. What a function or an expression gives, such as current_date(), is given in"
        " the INSERT.",
        start=start,
    )


def _literal_default(reader: Reader) -> str:
    if reader.word is not None and reader.word.is_string:
        return f"'{reader.string('default')}'"
    if reader.take("NULL"):
        raise reader.refusal(
            "A column without a default is null where nothing is given: leave it out."
        )
    for name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        if reader.take(name):
            return reader.string("default")
    word = reader.word
    if word is not None and not word.is_quoted and word.upper not in {"TRUE", "FALSE"}:
        sign = word.text == "-"
        following = reader.words[reader.index + sign : reader.index + sign + 1]
        if word.text in {"(", "+"} or (following and following[0].is_name):
            raise _no_constant(reader, reader.place)
    return reader.value("default")


def watermark_of(reader: Reader, columns: list[str]) -> Watermark:
    """Read what stands behind WATERMARK FOR."""
    column = reader.name("column of the watermark")
    reader.need("AS", why=" behind the watermark's column")
    depth = 0
    parts: list[str] = []
    end = -1
    while (word := reader.word) is not None:
        depth += (word.upper == "(") - (word.upper == ")")
        if depth < 0 or (depth == 0 and word.upper == ","):
            break
        text = reader.text[word.start : word.end]
        if not word.is_quoted and (word.text in columns or word.text == column):
            text = quoted_name(word.text)
        parts.append((" " if end >= 0 and word.start > end else "") + text)
        end = word.end
        reader.index += 1
    if not parts:
        raise reader.fault("The watermark's expression is missing here.")
    return Watermark(column, "".join(parts))


def _clauses(reader: Reader, spelling: Spelling) -> _Clauses:
    clauses = _Clauses()
    while True:
        if reader.take("COMMENT"):
            clauses.comment = reader.string("comment")
        elif (
            reader.sees("WITH", "(") or reader.sees("TBLPROPERTIES") or reader.sees("OPTIONS", "(")
        ):
            reader.index += 1
            clauses.options.update(reader.options())
        elif reader.take("USING"):
            start = reader.place
            used = reader.name("format")
            if used.lower() not in OWN_FORMATS:
                raise reader.refusal(
                    f"Tables here are USING tidelake or paimon; one of '{used}' is Spark's own:"
                    " make it by spark.sql.",
                    start=start,
                )
        elif reader.take("PARTITIONED", "BY"):
            _partitions(reader, spelling, clauses)
        else:
            _refuse_clause(reader)
            return clauses


def _partitions(reader: Reader, spelling: Spelling, clauses: _Clauses) -> None:
    def item() -> str:
        start = reader.place
        following = reader.words[reader.index + 1 : reader.index + 2]
        if following and following[0].upper == "(":
            raise reader.refusal(
                "A partition is a column, not a function of one: add a column that holds it.",
                start=start,
            )
        if following and following[0].upper not in {",", ")"}:
            column, _ = column_of(reader, spelling)
            clauses.partition_fields.append(column)
            return column.name
        return reader.name("partition column")

    clauses.partition_keys = tuple(reader.within("the partition columns", item))


def _refuse_clause(reader: Reader) -> None:
    word = reader.word
    if word is not None and word.upper in _REFUSED_CLAUSES:
        raise reader.refusal(f"{word.upper} is not covered: {_REFUSED_CLAUSES[word.upper]}.")
