"""The journal of schemas: what a job did with a target when its source changed, as text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from tidelake.errors import CorruptError
from tidelake.types.arrow import type_of_column
from tidelake.types.schema_change import (
    AddColumn,
    ColumnPath,
    DropColumn,
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

VERSION = 1


@dataclass(frozen=True, slots=True)
class DdlEntry:
    """One change.

    Parameters
    ----------
    epoch : int
        The epoch whose rows are the first after it.
    table : str
        The target.
    source : str
        The table of the source.
    changes : tuple of str
        As :func:`change_text` writes them.
    position : str
        Of the source, before the first row after the change.
    action : str
        What :class:`~tidelake.cdc.evolution.plan.EvolutionAction` names.
    reason : str
        Why the table is read again or suspended; empty otherwise.
    """

    epoch: int
    table: str
    source: str
    changes: tuple[str, ...]
    position: str
    action: str = "proceed"
    reason: str = ""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Write it as one line. On disk: never rename a key."""
        return json.dumps({"v": VERSION, **asdict(self)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> DdlEntry:
        """Read a line.

        Raises
        ------
        CorruptError
            It is none, or of a later version.
        """
        try:
            document: dict[str, Any] = json.loads(text)
            version = document.pop("v")
            if version != VERSION:
                message = f"A DDL entry has version {version}; this library reads {VERSION}."
                raise CorruptError(message, kind="cdc_ddl_entry")
            for key in ("changes", "warnings"):
                document[key] = tuple(map(str, document[key]))
            return cls(**document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"A DDL entry cannot be read: {error!r}. Restore the journal from a backup."
            raise CorruptError(message, kind="cdc_ddl_entry") from error


def change_text(change: SchemaChange) -> str:
    """Write a change as a clause of ALTER TABLE.

    Examples
    --------
    >>> change_text(AddColumn("a", "int", "it's"))
    "ADD COLUMN `a` INT COMMENT 'it''s'"
    >>> change_text(UpdateColumnType(("b", "element"), "bigint"))
    'ALTER COLUMN `b`.`element` TYPE BIGINT'
    """
    match change:
        case AddColumn():
            comment = "" if change.comment is None else f" COMMENT {_text(change.comment)}"
            kind = type_of_column(change.type)
            return f"ADD COLUMN {_name(change.column)} {kind}{comment}"
        case DropColumn():
            return f"DROP COLUMN {_name(change.column)}"
        case RenameColumn():
            return f"RENAME COLUMN {_name(change.column)} TO {_name(change.new_name)}"
        case UpdateColumnType():
            return f"ALTER COLUMN {_name(change.column)} TYPE {type_of_column(change.type)}"
        case UpdateColumnNullability():
            verb = "DROP" if change.nullable else "SET"
            return f"ALTER COLUMN {_name(change.column)} {verb} NOT NULL"
        case UpdateColumnComment():
            return f"ALTER COLUMN {_name(change.column)} COMMENT {_text(change.comment)}"
        case UpdateColumnDefaultValue():
            return f"ALTER COLUMN {_name(change.column)} SET DEFAULT {_text(change.default)}"
        case UpdateColumnPosition():
            where = change.position
            after = f" {_name(where.reference)}" if where.reference else ""
            return f"ALTER COLUMN {_name(change.column)} {where.where.upper()}{after}"
        case SetOption():
            return f"SET TBLPROPERTIES ({_text(change.key)} = {_text(str(change.value))})"
        case RemoveOption():
            return f"UNSET TBLPROPERTIES ({_text(change.key)})"
        case UpdateComment():
            return f"COMMENT {_text(change.comment)}"


def _name(column: ColumnPath) -> str:
    parts = (column,) if isinstance(column, str) else column
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _text(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"
