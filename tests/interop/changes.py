"""Changes of a schema as plain data, as ``java/Peer.java`` takes them, and as we do."""

from __future__ import annotations

from typing import Any

import tidelake
from tidelake.types import parse_type


def change_of(change: dict[str, Any]) -> Any:
    """Give our change."""
    name, to = change.get("name"), change.get("to")
    if isinstance(name, list):
        name = tuple(name)
    match change["change"]:
        case "add":
            return tidelake.AddColumn(name, parse_type(change["type"]), None, _position(change))
        case "drop":
            return tidelake.DropColumn(name)
        case "rename":
            return tidelake.RenameColumn(name, to)
        case "retype":
            return tidelake.UpdateColumnType(name, parse_type(change["type"]))
        case "nullable":
            return tidelake.UpdateColumnNullability(name, to)
        case "move":
            return tidelake.UpdateColumnPosition(name, _position(change))
        case "default":
            return tidelake.UpdateColumnDefaultValue(name, to)
        case "comment":
            return tidelake.UpdateColumnComment(name, to)
        case "table-comment":
            return tidelake.UpdateComment(to)
        case "set":
            return tidelake.SetOption(name, to)
        case "reset":
            return tidelake.RemoveOption(name)
    message = f"unknown change {change}"
    raise AssertionError(message)


def _position(change: dict[str, Any]) -> tidelake.Position | None:
    if "after" in change:
        return tidelake.Position.after(change["after"])
    return tidelake.Position.first() if "first" in change else None
