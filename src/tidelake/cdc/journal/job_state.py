"""What a job knows of its tables: phase, version, where the first copy stands, commits made.

Texts on disk: never rename a key within a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidelake.cdc.source.source_table import OldRows, SourceColumn, SourceName, SourceTable
from tidelake.engine.streams import MadeCommit
from tidelake.types.data_type import parse_type_text


class Phase(StrEnum):
    """What a job does with a table."""

    COPYING = "copying"
    """Its first copy is not whole: it begins again after a crash."""
    LIVE = "live"
    SUSPENDED = "suspended"
    """Its changes are left out until it is copied again."""
    GONE = "gone"
    """It was dropped in the source; the target stays."""
    LEFT_OUT = "left out"
    """The job's arguments no longer take it; the target stays."""


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """One table of the source.

    Parameters
    ----------
    target : str
        ``database.table`` in the lake.
    version : SourceTable
        As of the last row that was applied.
    since : tuple of int
        The order of the first copy: changes up to it are part of the copy.
    reason : str
        Why it is suspended, left out, or copied again.
    copies_count : int
        How often it was copied.
    rows_count : int
        Changed rows applied, with those of the copies.
    changed_ms : int or None
        When the source made the last change that was applied.
    is_bounded : bool
        Of a table that waits for a copy: whether a large one is left to a person.
    copied_at : str
        The position that the last copy shows; empty if it shows none.
    """

    target: str
    phase: Phase
    version: SourceTable
    since: tuple[int, int] = (-1, -1)
    reason: str = ""
    copies_count: int = 0
    rows_count: int = 0
    changed_ms: int | None = None
    is_bounded: bool = False
    copied_at: str = ""

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        return {
            "target": self.target,
            "phase": str(self.phase),
            "version": _table_json(self.version),
            "since": list(self.since),
            "reason": self.reason,
            "copies": self.copies_count,
            "rows": self.rows_count,
            "changed": self.changed_ms,
            "bounded": self.is_bounded,
            "copied_at": self.copied_at,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SyncedTable:
        """Read a JSON object; ``KeyError``, ``TypeError`` or ``ValueError`` if it is another."""
        first, second = found["since"]
        return cls(
            str(found["target"]),
            Phase(found["phase"]),
            _table_of(found["version"]),
            (int(first), int(second)),
            str(found["reason"]),
            int(found["copies"]),
            int(found["rows"]),
            None if found["changed"] is None else int(found["changed"]),
            bool(found["bounded"]),
            str(found.get("copied_at", "")),
        )


@dataclass(frozen=True, slots=True)
class JobState:
    """All tables of a job.

    Parameters
    ----------
    made : mapping of str to MadeCommit
        The last commit to each target; a target that was rolled back is recognised by it.
    quarantined_count : int
        Rows in the quarantine.
    source : str
        The identity of the source; empty before the first copy.
    schema_ids : mapping of str to int
        The schema of each target after the last epoch. An epoch that comes again is planned from
        it, as the table may have the epoch's changes already.
    """

    tables: Mapping[SourceName, SyncedTable] = field(default_factory=dict)
    made: Mapping[str, MadeCommit] = field(default_factory=dict)
    quarantined_count: int = 0
    source: str = ""
    schema_ids: Mapping[str, int] = field(default_factory=dict)

    def with_table(self, name: SourceName, state: SyncedTable) -> JobState:
        """Give the state with one table as given."""
        return replace(self, tables={**self.tables, name: state})

    def changes_from(self, before: JobState) -> dict[str, Any]:
        """What differs from an earlier state, as JSON; no table ever goes."""
        tables = [
            {"name": [name.database, name.schema, name.table], **state.to_json()}
            for name, state in self.tables.items()
            if before.tables.get(name) != state
        ]
        made = {
            target: commit.to_json()
            for target, commit in self.made.items()
            if before.made.get(target) != commit
        }
        return {
            "tables": tables,
            "made": made,
            "quarantined": self.quarantined_count,
            "source": self.source,
            "schemas": {
                target: schema_id
                for target, schema_id in self.schema_ids.items()
                if before.schema_ids.get(target) != schema_id
            },
        }

    def updated(self, found: Mapping[str, Any]) -> JobState:
        """Apply what :meth:`changes_from` gave."""
        tables = dict(self.tables)
        for one in found["tables"]:
            database, schema, table = one["name"]
            tables[SourceName(database, schema, table)] = SyncedTable.from_json(one)
        made = {target: MadeCommit.from_json(text) for target, text in found["made"].items()}
        schemas = {target: int(number) for target, number in found["schemas"].items()}
        return JobState(
            tables,
            {**self.made, **made},
            int(found["quarantined"]),
            str(found["source"]),
            {**self.schema_ids, **schemas},
        )


def _table_json(table: SourceTable) -> dict[str, Any]:
    return {
        "name": [table.name.database, table.name.schema, table.name.table],
        "columns": [
            {
                "name": column.name,
                "native": column.native_type,
                "type": None if column.type is None else str(column.type),
                "number": column.number,
                "default": column.has_default,
                "comment": column.comment,
            }
            for column in table.columns
        ],
        "keys": list(table.keys),
        "old_rows": str(table.old_rows),
        "identity": table.identity,
        "comment": table.comment,
    }


def _table_of(found: Mapping[str, Any]) -> SourceTable:
    database, schema, table = found["name"]
    columns = tuple(
        SourceColumn(
            one["name"],
            one["native"],
            None if one["type"] is None else parse_type_text(one["type"]),
            one["number"],
            bool(one["default"]),
            one["comment"],
        )
        for one in found["columns"]
    )
    return SourceTable(
        SourceName(database, schema, table),
        columns,
        tuple(found["keys"]),
        OldRows(found["old_rows"]),
        found["identity"],
        found["comment"],
    )
