"""What a search for orphan files does with many tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tidelake.errors import TidelakeError
from tidelake.table.jobs.orphans import OrphanFiles

ALL = "*"


@dataclass(frozen=True, slots=True)
class OrphansOfTables:
    """What a run did with the tables of a database.

    Parameters
    ----------
    tables : tuple of OrphanFiles
        By the names of the tables.
    failed : mapping of str to TidelakeError
        Tables of which nothing was removed, and why.
    dropped_directories : int
        Directories of killed drops that were deleted; of a dry run, those that are there.
    """

    tables: tuple[OrphanFiles, ...] = ()
    failed: Mapping[str, TidelakeError] = field(default_factory=lambda: MappingProxyType({}))
    dropped_directories: int = 0

    @property
    def removed_count(self) -> int:
        """Files that were removed, of all tables."""
        return sum(found.removed_count for found in self.tables)

    @property
    def removed_bytes(self) -> int:
        """Their bytes."""
        return sum(found.removed_bytes for found in self.tables)

    @property
    def quarantined_count(self) -> int:
        """Files that came into quarantine, of all tables."""
        return sum(found.quarantined_count for found in self.tables)

    @property
    def quarantined_bytes(self) -> int:
        """Their bytes."""
        return sum(found.quarantined_bytes for found in self.tables)
