"""Iceberg metadata beside the table's own: derived after each commit, for readers of Iceberg.

:mod:`~tidelake.commit.iceberg.sync` has the algorithm. Nothing of the table depends on these files.
"""

from tidelake.commit.iceberg.shown_names import shown_names
from tidelake.commit.iceberg.sync import Synced, sync, sync_before_expiry, sync_quietly
from tidelake.commit.iceberg.table_check import check_iceberg

__all__ = [
    "Synced",
    "check_iceberg",
    "shown_names",
    "sync",
    "sync_before_expiry",
    "sync_quietly",
]
