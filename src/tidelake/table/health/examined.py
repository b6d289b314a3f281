"""A table at one snapshot, as the checks of an examination take it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.handle.handle import TableHandle
from tidelake.table.health.measures import FileMeasures


@dataclass(frozen=True, slots=True)
class Examined:
    """What all checks look at.

    Parameters
    ----------
    parallelism : int
        Tasks that write at once, as far as is known.
    figures : dict
        What the checks measured, by name; each adds its own.
    """

    handle: TableHandle
    snapshot: Snapshot
    files: FileMeasures
    parallelism: int
    figures: dict[str, float]

    @property
    def is_keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.handle.schema.primary_keys)

    def call(self, procedure: str, *arguments: str) -> str:
        """A statement that calls a procedure on the table."""
        given = ", ".join([f"table => '{self.handle.identifier}'", *arguments])
        return f"CALL sys.{procedure}({given})"
