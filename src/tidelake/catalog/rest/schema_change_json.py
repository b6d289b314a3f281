"""Changes of a schema as the JSON objects of Paimon's REST API.

Source: the annotations of Paimon's ``SchemaChange`` (1.3.1). It has no column with a default: that
is two changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelake.options.user_options import option_text
from tidelake.types.arrow import type_of_column
from tidelake.types.data_type import type_to_json
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

Json = dict[str, Any]


def schema_changes_json(changes: Sequence[SchemaChange]) -> list[Json]:
    """Write changes for a catalog's server; they were checked before.

    Examples
    --------
    >>> schema_changes_json([RenameColumn("a", "b")])
    [{'action': 'renameColumn', 'fieldNames': ['a'], 'newName': 'b'}]
    """
    return [document for change in changes for document in _documents(change)]


def _documents(change: SchemaChange) -> list[Json]:
    match change:
        case AddColumn(column, given, comment, position, default):
            added: Json = {
                "action": "addColumn",
                "fieldNames": _names(column),
                "dataType": type_to_json(type_of_column(given)),
                "comment": comment,
                "move": None if position is None else _move(_names(column)[-1], position),
            }
            if default is None:
                return [added]
            return [added, _default(column, default)]
        case DropColumn(column):
            return [{"action": "dropColumn", "fieldNames": _names(column)}]
        case RenameColumn(column, new_name):
            return [{"action": "renameColumn", "fieldNames": _names(column), "newName": new_name}]
        case UpdateColumnType(column, given, keep_nullability):
            return [
                {
                    "action": "updateColumnType",
                    "fieldNames": _names(column),
                    "newDataType": type_to_json(type_of_column(given)),
                    "keepNullability": keep_nullability,
                }
            ]
        case UpdateColumnNullability(column, nullable):
            return [
                {
                    "action": "updateColumnNullability",
                    "fieldNames": _names(column),
                    "newNullability": nullable,
                }
            ]
        case UpdateColumnComment(column, comment):
            return [
                {
                    "action": "updateColumnComment",
                    "fieldNames": _names(column),
                    "newComment": comment,
                }
            ]
        case UpdateColumnDefaultValue(column, default):
            return [_default(column, default)]
        case UpdateColumnPosition(name, position):
            return [{"action": "updateColumnPosition", "move": _move(name, position)}]
        case SetOption(key, value):
            return [{"action": "setOption", "key": key, "value": option_text(value)}]
        case RemoveOption(key):
            return [{"action": "removeOption", "key": key}]
        case UpdateComment(comment):
            return [{"action": "updateComment", "comment": comment}]


def _default(column: ColumnPath, default: str | None) -> Json:
    return {
        "action": "updateColumnDefaultValue",
        "fieldNames": _names(column),
        "newDefaultValue": default,
    }


def _names(column: ColumnPath) -> list[str]:
    return [column] if isinstance(column, str) else list(column)


def _move(name: str, position: Position) -> Json:
    return {
        "fieldName": name,
        "referenceFieldName": position.reference,
        "type": position.where.upper(),
    }
