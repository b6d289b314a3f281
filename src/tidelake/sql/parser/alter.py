"""Reads ALTER TABLE: Spark's words and Flink's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from tidelake.sql.parser.create import column_of, default_of, watermark_of
from tidelake.sql.syntax.ast import AlterTable, AlterTag, DropPartitions, RenameTable, Watermark
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.literal import partition_of
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import Word
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.sql.syntax.watermark import watermark_options
from tidelake.table.schema.watermark import WATERMARK_KEYS
from tidelake.types.schema_change import (
    AddColumn,
    ColumnPath,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)

__all__ = ["alter_table", "comment_on"]

_RETENTION_UNITS = ("DAYS", "DAY", "HOURS", "HOUR", "MINUTES", "MINUTE")

Altered: TypeAlias = AlterTable | AlterTag | DropPartitions | RenameTable


def alter_table(reader: Reader) -> Altered:
    """Read what stands behind ``ALTER TABLE``."""
    if_missing: Literal["error", "ignore"] = "ignore" if reader.take("IF", "EXISTS") else "error"
    name = reader.table_name()
    if reader.take("RENAME", "TO"):
        new_name = reader.table_name()
        reader.finish()
        return RenameTable(name, new_name, if_missing)
    for keyword, read in _OTHERS.items():
        if reader.sees(*keyword):
            reader.index += len(keyword)
            return read(reader, name)
    changes: list[SchemaChange] = []
    for keyword, read_changes in _CHANGES.items():
        if reader.sees(*keyword):
            reader.index += len(keyword)
            changes = read_changes(reader)
            break
    else:
        raise reader.fault(
            "ALTER TABLE goes on with ADD, DROP, RENAME, ALTER, MODIFY, SET, UNSET, RESET, or with"
            f" CREATE, REPLACE or DELETE TAG, not with '{reader.word.text if reader.word else ''}'."
        )
    reader.finish()
    return AlterTable(name, tuple(changes), if_missing)


def comment_on(reader: Reader) -> AlterTable:
    """Read what stands behind ``COMMENT ON``."""
    reader.need("TABLE")
    name = reader.table_name()
    reader.need("IS")
    comment = None if reader.take("NULL") else reader.string("comment")
    reader.finish()
    return AlterTable(name, (UpdateComment(comment),))


def _path(reader: Reader) -> ColumnPath:
    """A column, or one inside another: ``address.city``."""
    names = [reader.name("column")]
    while reader.take("."):
        names.append(reader.name("column"))
    return names[0] if len(names) == 1 else tuple(names)


def _listed(reader: Reader, item: Callable[[], list[SchemaChange]]) -> list[SchemaChange]:
    """Changes with or without parentheses around."""
    if reader.sees("("):
        return [change for some in reader.within("the columns", item) for change in some]
    changes = item()
    while reader.take(","):
        changes += item()
    return changes


def _position(reader: Reader) -> Position | None:
    if reader.take("FIRST"):
        return Position.first()
    if reader.take("AFTER"):
        return Position.after(reader.name("column"))
    return None


def _constraint(reader: Reader) -> Sequence[Word]:
    """What kind of constraint comes next: the word behind its name."""
    return reader.words[reader.index + 2 :][:1] if reader.sees("CONSTRAINT") else ()


def _add(reader: Reader, spelling: Spelling) -> list[SchemaChange]:
    def item() -> list[SchemaChange]:
        if reader.take("WATERMARK", "FOR"):
            return _set_watermark(watermark_of(reader, []))
        if reader.sees("CHECK") or any(w.upper == "CHECK" for w in _constraint(reader)):
            raise reader.refusal(
                "CHECK is not covered: rows are not checked when they are written."
            )
        if reader.sees("PRIMARY", "KEY") or reader.sees("CONSTRAINT"):
            raise reader.refusal(
                "A primary key decides how files are laid out and cannot be added: make a new table"
                " with it and INSERT INTO it."
            )
        known = reader.take("IF", "NOT", "EXISTS") or ignores
        start = reader.index
        path = _path(reader)
        # the reader of columns takes a plain name: the last part of the path
        reader.index = start + 2 * (len(path) - 1 if isinstance(path, tuple) else 0)
        field, is_key = column_of(reader, spelling)
        if is_key:
            raise reader.refusal("A new column cannot be the primary key: make a new table.")
        return [
            AddColumn(
                path,
                field.type,
                field.description,
                _position(reader),
                field.default_value,
                "ignore" if known else "error",
            )
        ]

    # before the parentheses it is of all columns in them
    ignores = reader.sees("IF", "NOT", "EXISTS", "(") and reader.take("IF", "NOT", "EXISTS")
    return _listed(reader, item)


def _drop(reader: Reader) -> list[SchemaChange]:
    ignores = reader.take("IF", "EXISTS")

    def item() -> list[SchemaChange]:
        known = reader.take("IF", "EXISTS") or ignores
        return [DropColumn(_path(reader), "ignore" if known else "error")]

    return _listed(reader, item)


def _rename(reader: Reader) -> list[SchemaChange]:
    column = _path(reader)
    reader.need("TO", why=" between the old name and the new one")
    return [RenameColumn(column, reader.name("new name"))]


def _alter(reader: Reader) -> list[SchemaChange]:
    """Spark's ``ALTER COLUMN a ...``, one change for one column."""
    column = _path(reader)
    if reader.take("TYPE") or reader.take("SET", "DATA", "TYPE"):
        return [UpdateColumnType(column, read_type(reader, Spelling.SPARK))]
    if reader.take("COMMENT"):
        return [UpdateColumnComment(column, reader.string("comment"))]
    if reader.take("SET", "NOT", "NULL"):
        return [UpdateColumnNullability(column, nullable=False)]
    if reader.take("DROP", "NOT", "NULL"):
        return [UpdateColumnNullability(column, nullable=True)]
    if reader.take("SET", "DEFAULT"):
        return [UpdateColumnDefaultValue(column, default_of(reader))]
    if reader.take("DROP", "DEFAULT"):
        return [UpdateColumnDefaultValue(column, None)]
    position = _position(reader)
    if position is not None:
        if not isinstance(column, str):
            raise reader.refusal("Only a column of the table itself can be moved.")
        return [UpdateColumnPosition(column, position)]
    raise reader.fault(
        "Behind the column must stand TYPE, COMMENT, FIRST, AFTER, SET NOT NULL, DROP NOT NULL, SET"
        " DEFAULT or DROP DEFAULT."
    )


def _modify(reader: Reader) -> list[SchemaChange]:
    """Flink's ``MODIFY a TYPE [COMMENT '...'] [FIRST | AFTER b]``."""

    def item() -> list[SchemaChange]:
        if reader.take("WATERMARK", "FOR"):
            return _set_watermark(watermark_of(reader, []))
        field, _ = column_of(reader, Spelling.FLINK)
        changes: list[SchemaChange] = [
            UpdateColumnType(field.name, field.type, keep_nullability=False)
        ]
        if field.description is not None:
            changes.append(UpdateColumnComment(field.name, field.description))
        position = _position(reader)
        if position is not None:
            changes.append(UpdateColumnPosition(field.name, position))
        return changes

    return _listed(reader, item)


def _change(reader: Reader) -> list[SchemaChange]:
    """Hive's ``CHANGE [COLUMN] a b TYPE``."""
    reader.take("COLUMN")
    old = reader.name("column")
    field, _ = column_of(reader, Spelling.SPARK)
    changes: list[SchemaChange] = [UpdateColumnType(old, field.type)]
    if field.description is not None:
        changes.append(UpdateColumnComment(old, field.description))
    position = _position(reader)
    if position is not None:
        changes.append(UpdateColumnPosition(old, position))
    if field.name != old:
        changes.append(RenameColumn(old, field.name))
    return changes


def _set(reader: Reader) -> list[SchemaChange]:
    start = reader.place
    given = reader.options()
    for key in WATERMARK_KEYS:
        if key in given:
            raise reader.fault(f"'{key}' is set by MODIFY WATERMARK FOR ... AS ....", start=start)
    return [
        UpdateComment(value) if key == "comment" else SetOption(key, value)
        for key, value in given.items()
    ]


def _unset(reader: Reader) -> list[SchemaChange]:
    reader.take("IF", "EXISTS")
    keys = reader.within("the options", reader.key)
    return [UpdateComment(None) if key == "comment" else RemoveOption(key) for key in keys]


def _set_watermark(watermark: Watermark) -> list[SchemaChange]:
    return [SetOption(k, v) for k, v in watermark_options(watermark).items()]


def _drop_watermark(reader: Reader) -> list[SchemaChange]:
    del reader
    return [RemoveOption(key) for key in WATERMARK_KEYS]


def _set_location(reader: Reader) -> list[SchemaChange]:
    raise reader.refusal("A table stays where it is: the warehouse and its name say where.")


_CHANGES: dict[tuple[str, ...], Callable[[Reader], list[SchemaChange]]] = {
    ("SET", "TBLPROPERTIES"): _set,
    ("SET", "LOCATION"): _set_location,
    ("SET",): _set,
    ("UNSET", "TBLPROPERTIES"): _unset,
    ("RESET",): _unset,
    ("ADD", "COLUMNS"): lambda reader: _add(reader, Spelling.SPARK),
    ("ADD", "COLUMN"): lambda reader: _add(reader, Spelling.SPARK),
    ("ADD",): lambda reader: _add(reader, Spelling.FLINK),
    ("DROP", "COLUMNS"): _drop,
    ("DROP", "COLUMN"): _drop,
    ("DROP", "WATERMARK"): _drop_watermark,
    ("DROP",): _drop,
    ("RENAME", "COLUMN"): _rename,
    ("RENAME",): _rename,
    ("ALTER", "COLUMN"): _alter,
    ("ALTER",): _alter,
    ("MODIFY",): _modify,
    ("CHANGE",): _change,
}


def _drop_partitions(reader: Reader, name: TableName) -> Altered:
    partitions = [partition_of(reader)]
    while reader.take(","):
        reader.take("PARTITION")
        partitions.append(partition_of(reader))
    reader.take("PURGE")
    reader.finish()
    return DropPartitions(name, tuple(partitions))


def _add_partition(reader: Reader, name: TableName) -> Altered:
    del name
    raise reader.refusal(
        "A partition is there when rows are in it: INSERT INTO the table.",
        start=reader.words[reader.index - 1].start,
    )


def _tag_name(reader: Reader) -> str:
    word = reader.word
    return reader.string("tag") if word is not None and word.is_string else reader.name("tag")


def _tag(
    action: Literal["create", "create_or_replace", "replace", "drop", "rename"],
) -> Callable[[Reader, TableName], Altered]:
    def read(reader: Reader, name: TableName) -> Altered:
        ignore = False
        if action == "create":
            ignore = reader.take("IF", "NOT", "EXISTS")
        elif action == "drop":
            ignore = reader.take("IF", "EXISTS")
        tag = _tag_name(reader)
        snapshot_id = None
        if reader.take("AS", "OF", "VERSION"):
            snapshot_id = reader.number("snapshot's id")
        new_name = retained = None
        if action == "rename":
            reader.need("TO", why=" between the old name and the new one")
            new_name = _tag_name(reader)
        if reader.take("RETAIN"):
            count = reader.number("number of days")
            unit = reader.choice(_RETENTION_UNITS, "The unit")
            retained = f"{count} {unit.lower()}"
        reader.finish()
        on_there: Literal["error", "ignore"] = "ignore" if ignore else "error"
        return AlterTag(name, tag, action, snapshot_id, on_there, retained, new_name)

    return read


_OTHERS: dict[tuple[str, ...], Callable[[Reader, TableName], Altered]] = {
    ("DROP", "IF", "EXISTS", "PARTITION"): _drop_partitions,
    ("DROP", "PARTITION"): _drop_partitions,
    ("ADD", "PARTITION"): _add_partition,
    ("ADD", "IF", "NOT", "EXISTS", "PARTITION"): _add_partition,
    ("CREATE", "OR", "REPLACE", "TAG"): _tag("create_or_replace"),
    ("CREATE", "TAG"): _tag("create"),
    ("REPLACE", "TAG"): _tag("replace"),
    ("DELETE", "TAG"): _tag("drop"),
    ("DROP", "TAG"): _tag("drop"),
    ("RENAME", "TAG"): _tag("rename"),
}
