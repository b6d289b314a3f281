"""Change data capture: a database's tables kept equal in the lake.

A *source* reads the log of a database, or topics of change events, as batches of typed rows with
positions. A *job* cuts them into epochs, writes the end of each epoch down before its commits, and
gives each epoch to the tables once.
"""

from tidelake.cdc.command.face import (
    from_file,
    mysql_sync_database,
    mysql_sync_table,
    postgres_sync_database,
    postgres_sync_table,
    sync,
)
from tidelake.cdc.command.job_lag import JobLag
from tidelake.cdc.command.sync import PlannedTable, Sync, SyncPlan, SyncStatus, TableStatus
from tidelake.cdc.job.epoch_reads import EpochTables
from tidelake.cdc.job.replay import ReplayPlan
from tidelake.cdc.source.slot_status import SlotStatus

__all__ = [
    "EpochTables",
    "JobLag",
    "PlannedTable",
    "ReplayPlan",
    "SlotStatus",
    "Sync",
    "SyncPlan",
    "SyncStatus",
    "TableStatus",
    "from_file",
    "mysql_sync_database",
    "mysql_sync_table",
    "postgres_sync_database",
    "postgres_sync_table",
    "sync",
]
