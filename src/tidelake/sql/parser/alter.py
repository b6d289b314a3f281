"""Parses ALTER TABLE of Spark and of Flink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from tidelake.engine.schemas import WATERMARK_KEYS
from tidelake.options import CONSTRAINT_PREFIX
from tidelake.sql.parser.create import read_column, read_default, read_watermark
from tidelake.sql.syntax.ast import (
    AddConstraint,
    AlterTable,
    AlterTag,
    DropConstraint,
    DropPartitions,
    RenameTable,
    Watermark,
)
from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.literal import read_partition
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.sql.syntax.watermark import watermark_options
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

_RETENTION_UNITS = ("DAYS", "DAY", "HOURS", "HOUR", "MINUTES", "MINUTE")

Altered: TypeAlias = AlterTable | AlterTag | DropPartitions | RenameTable


def alter_table(cursor: Cursor) -> Altered:
    """Parse the rest of ``ALTER TABLE``."""
    if_missing = cursor.if_exists()
    name = cursor.table_name()
    if cursor.accept("RENAME", "TO"):
        new_name = cursor.table_name()
        cursor.expect_end()
        return RenameTable(name, new_name, if_missing)
    for keyword, read in _OTHERS.items():
        if cursor.peek(*keyword):
            cursor.index += len(keyword)
            return read(cursor, name)
    changes: list[SchemaChange] = []
    for keyword, read_changes in _CHANGES.items():
        if cursor.peek(*keyword):
            cursor.index += len(keyword)
            changes = read_changes(cursor)
            break
    else:
        raise cursor.error(
            "ALTER TABLE continues with ADD, DROP, RENAME, ALTER, MODIFY, SET, UNSET, RESET, or"
            f" with CREATE, REPLACE or DELETE TAG, not with {cursor.next_text()}."
        )
    cursor.expect_end()
    return AlterTable(name, tuple(changes), if_missing)


def comment_on(cursor: Cursor) -> AlterTable:
    """Parse the rest of ``COMMENT ON``."""
    cursor.expect("TABLE")
    name = cursor.table_name()
    cursor.expect("IS")
    comment = None if cursor.accept("NULL") else cursor.string("comment")
    cursor.expect_end()
    return AlterTable(name, (UpdateComment(comment),))


def _path(cursor: Cursor) -> ColumnPath:
    """Read a column or a nested field: ``address.city``."""
    names = [cursor.name("column")]
    while cursor.accept("."):
        names.append(cursor.name("column"))
    return names[0] if len(names) == 1 else tuple(names)


def _listed(cursor: Cursor, item: Callable[[], list[SchemaChange]]) -> list[SchemaChange]:
    """Read a list of changes, with or without parentheses."""
    if cursor.peek("("):
        return [change for some in cursor.parenthesized("the columns", item) for change in some]
    changes = item()
    while cursor.accept(","):
        changes += item()
    return changes


def _position(cursor: Cursor) -> Position | None:
    if cursor.accept("FIRST"):
        return Position.first()
    if cursor.accept("AFTER"):
        return Position.after(cursor.name("column"))
    return None


def _is_check(cursor: Cursor) -> bool:
    """Whether CONSTRAINT <name> CHECK comes next."""
    after_name = cursor.tokens[cursor.index + 2 :][:1] if cursor.peek("CONSTRAINT") else ()
    return any(token.upper == "CHECK" for token in after_name)


def _check(cursor: Cursor) -> list[SchemaChange]:
    """Read ``CONSTRAINT <name> CHECK (<condition>)``: an option of the table."""
    cursor.expect("CONSTRAINT")
    name = cursor.name("constraint's name")
    cursor.expect("CHECK")
    cursor.expect("(", why=" before the condition")
    start = cursor.position
    depth = 1
    while True:
        token = cursor.token
        if token is None:
            raise cursor.error("The condition has no closing parenthesis.", start=start)
        is_sign = not token.is_string and not token.is_quoted
        depth += (is_sign and token.text == "(") - (is_sign and token.text == ")")
        if not depth:
            break
        cursor.index += 1
    condition = cursor.text[start : cursor.end]
    cursor.index += 1
    cursor.accept("ENFORCED")
    return [AddConstraint(CONSTRAINT_PREFIX + name, condition.strip())]


def _drop_constraint(cursor: Cursor) -> list[SchemaChange]:
    if_missing = cursor.if_exists()
    return [DropConstraint(CONSTRAINT_PREFIX + cursor.name("constraint's name"), if_missing)]


def _add(cursor: Cursor, spelling: Spelling) -> list[SchemaChange]:
    def item() -> list[SchemaChange]:
        if cursor.accept("WATERMARK", "FOR"):
            return _set_watermark(read_watermark(cursor, []))
        if cursor.peek("CHECK"):
            raise cursor.unsupported(
                "A CHECK needs a name: ALTER TABLE t ADD CONSTRAINT name CHECK (...)."
            )
        if _is_check(cursor):
            return _check(cursor)
        if cursor.peek("PRIMARY", "KEY") or cursor.peek("CONSTRAINT"):
            raise cursor.unsupported(
                "A primary key decides the layout of files and cannot be added: create a new table"
                " with it and INSERT INTO it."
            )
        known = cursor.accept("IF", "NOT", "EXISTS") or ignores
        start = cursor.index
        path = _path(cursor)
        # read_column takes a plain name: the last part of the path
        cursor.index = start + 2 * (len(path) - 1 if isinstance(path, tuple) else 0)
        field, is_key = read_column(cursor, spelling)
        if is_key:
            raise cursor.unsupported("A new column cannot be the primary key: create a new table.")
        return [
            AddColumn(
                path,
                field.type,
                field.description,
                _position(cursor),
                field.default_value,
                "ignore" if known else "error",
            )
        ]

    # before the parentheses it applies to all columns
    ignores = cursor.peek("IF", "NOT", "EXISTS", "(") and cursor.accept("IF", "NOT", "EXISTS")
    return _listed(cursor, item)


def _drop(cursor: Cursor) -> list[SchemaChange]:
    ignores = cursor.accept("IF", "EXISTS")

    def item() -> list[SchemaChange]:
        known = cursor.accept("IF", "EXISTS") or ignores
        return [DropColumn(_path(cursor), "ignore" if known else "error")]

    return _listed(cursor, item)


def _rename(cursor: Cursor) -> list[SchemaChange]:
    column = _path(cursor)
    cursor.expect("TO", why=" between the old name and the new one")
    return [RenameColumn(column, cursor.name("new name"))]


def _alter(cursor: Cursor) -> list[SchemaChange]:
    """Parse Spark's ``ALTER COLUMN a ...``: one change of one column."""
    column = _path(cursor)
    if cursor.accept("TYPE") or cursor.accept("SET", "DATA", "TYPE"):
        return [UpdateColumnType(column, read_type(cursor, Spelling.SPARK))]
    if cursor.accept("COMMENT"):
        return [UpdateColumnComment(column, cursor.string("comment"))]
    if cursor.accept("SET", "NOT", "NULL"):
        return [UpdateColumnNullability(column, nullable=False)]
    if cursor.accept("DROP", "NOT", "NULL"):
        return [UpdateColumnNullability(column, nullable=True)]
    if cursor.accept("SET", "DEFAULT"):
        return [UpdateColumnDefaultValue(column, read_default(cursor))]
    if cursor.accept("DROP", "DEFAULT"):
        return [UpdateColumnDefaultValue(column, None)]
    position = _position(cursor)
    if position is not None:
        if not isinstance(column, str):
            raise cursor.unsupported("Only a top-level column can be moved.")
        return [UpdateColumnPosition(column, position)]
    raise cursor.error(
        "Write TYPE, COMMENT, FIRST, AFTER, SET NOT NULL, DROP NOT NULL, SET DEFAULT or DROP"
        " DEFAULT after the column."
    )


def _modify(cursor: Cursor) -> list[SchemaChange]:
    """Parse Flink's ``MODIFY a TYPE [COMMENT '...'] [FIRST | AFTER b]``."""

    def item() -> list[SchemaChange]:
        if cursor.accept("WATERMARK", "FOR"):
            return _set_watermark(read_watermark(cursor, []))
        field, _ = read_column(cursor, Spelling.FLINK)
        changes: list[SchemaChange] = [
            UpdateColumnType(field.name, field.type, keep_nullability=False)
        ]
        if field.description is not None:
            changes.append(UpdateColumnComment(field.name, field.description))
        position = _position(cursor)
        if position is not None:
            changes.append(UpdateColumnPosition(field.name, position))
        return changes

    return _listed(cursor, item)


def _change(cursor: Cursor) -> list[SchemaChange]:
    """Parse Hive's ``CHANGE [COLUMN] a b TYPE``."""
    cursor.accept("COLUMN")
    old = cursor.name("column")
    field, _ = read_column(cursor, Spelling.SPARK)
    changes: list[SchemaChange] = [UpdateColumnType(old, field.type)]
    if field.description is not None:
        changes.append(UpdateColumnComment(old, field.description))
    position = _position(cursor)
    if position is not None:
        changes.append(UpdateColumnPosition(old, position))
    if field.name != old:
        changes.append(RenameColumn(old, field.name))
    return changes


def _set(cursor: Cursor) -> list[SchemaChange]:
    start = cursor.position
    given = cursor.options()
    for key in WATERMARK_KEYS:
        if key in given:
            raise cursor.error(f"Set '{key}' by MODIFY WATERMARK FOR ... AS ....", start=start)
    return [
        UpdateComment(value) if key == "comment" else SetOption(key, value)
        for key, value in given.items()
    ]


def _unset(cursor: Cursor) -> list[SchemaChange]:
    cursor.accept("IF", "EXISTS")
    keys = cursor.parenthesized("the options", cursor.option_key)
    return [UpdateComment(None) if key == "comment" else RemoveOption(key) for key in keys]


def _set_watermark(watermark: Watermark) -> list[SchemaChange]:
    return [SetOption(k, v) for k, v in watermark_options(watermark).items()]


def _drop_watermark(cursor: Cursor) -> list[SchemaChange]:
    del cursor
    return [RemoveOption(key) for key in WATERMARK_KEYS]


def _set_location(cursor: Cursor) -> list[SchemaChange]:
    raise cursor.unsupported("A table cannot move: the warehouse and its name give its location.")


_CHANGES: dict[tuple[str, ...], Callable[[Cursor], list[SchemaChange]]] = {
    ("SET", "TBLPROPERTIES"): _set,
    ("SET", "LOCATION"): _set_location,
    ("SET",): _set,
    ("UNSET", "TBLPROPERTIES"): _unset,
    ("RESET",): _unset,
    ("ADD", "COLUMNS"): lambda cursor: _add(cursor, Spelling.SPARK),
    ("ADD", "COLUMN"): lambda cursor: _add(cursor, Spelling.SPARK),
    ("ADD",): lambda cursor: _add(cursor, Spelling.FLINK),
    ("DROP", "COLUMNS"): _drop,
    ("DROP", "COLUMN"): _drop,
    ("DROP", "WATERMARK"): _drop_watermark,
    ("DROP", "CONSTRAINT"): _drop_constraint,
    ("DROP",): _drop,
    ("RENAME", "COLUMN"): _rename,
    ("RENAME",): _rename,
    ("ALTER", "COLUMN"): _alter,
    ("ALTER",): _alter,
    ("MODIFY",): _modify,
    ("CHANGE",): _change,
}


def _drop_partitions(cursor: Cursor, name: TableName) -> Altered:
    partitions = [read_partition(cursor)]
    while cursor.accept(","):
        cursor.accept("PARTITION")
        partitions.append(read_partition(cursor))
    cursor.accept("PURGE")
    cursor.expect_end()
    return DropPartitions(name, tuple(partitions))


def _add_partition(cursor: Cursor, name: TableName) -> Altered:
    del name
    raise cursor.unsupported(
        "A partition exists once it has rows: INSERT INTO the table.",
        start=cursor.tokens[cursor.index - 1].start,
    )


def _tag_name(cursor: Cursor) -> str:
    token = cursor.token
    return cursor.string("tag") if token is not None and token.is_string else cursor.name("tag")


def _tag(
    action: Literal["create", "create_or_replace", "replace", "drop", "rename"],
) -> Callable[[Cursor, TableName], Altered]:
    def read(cursor: Cursor, name: TableName) -> Altered:
        if_exists: Literal["error", "ignore"] = "error"
        if action == "create":
            if_exists = cursor.if_not_exists()
        elif action == "drop":
            if_exists = cursor.if_exists()
        tag = _tag_name(cursor)
        snapshot_id = None
        if cursor.accept("AS", "OF", "VERSION"):
            snapshot_id = cursor.number("snapshot's id")
        new_name = retained = None
        if action == "rename":
            cursor.expect("TO", why=" between the old name and the new one")
            new_name = _tag_name(cursor)
        if cursor.accept("RETAIN"):
            count = cursor.number("number of days")
            unit = cursor.choice(_RETENTION_UNITS, "The unit")
            retained = f"{count} {unit.lower()}"
        cursor.expect_end()
        return AlterTag(name, tag, action, snapshot_id, if_exists, retained, new_name)

    return read


_OTHERS: dict[tuple[str, ...], Callable[[Cursor, TableName], Altered]] = {
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
