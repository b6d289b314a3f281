"""Catalogs: databases and tables by name.

A catalog finds, creates, renames and drops tables of one warehouse. What a table holds is
:mod:`tidelake.table`; no rows are read here.
"""

from tidelake.catalog.catalog import Catalog
from tidelake.catalog.copies.clone import CloneResult
from tidelake.catalog.copies.migrate import MigrateResult
from tidelake.catalog.opening import maintain, open_catalog
from tidelake.catalog.upkeep.maintain_methods import CompactionOfTables
from tidelake.catalog.upkeep.maintenance_job import MaintenanceJob, MaintenanceRound
from tidelake.catalog.upkeep.orphan_files import OrphansOfTables

__all__ = [
    "Catalog",
    "CloneResult",
    "CompactionOfTables",
    "MaintenanceJob",
    "MaintenanceRound",
    "MigrateResult",
    "OrphansOfTables",
    "maintain",
    "open_catalog",
]
