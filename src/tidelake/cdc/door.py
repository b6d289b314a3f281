"""The door of change data capture: what Spark and the program use of it, beside ``tidelake.cdc``.

Spark drives the same job from the batches of a query, and copies tables on executors; the program
shows a job as it runs. For that they need parts that users do not: the opened job, a copy's chunks,
the figures. An import contract says that they import from here and from no room inside. Nothing is
defined here.
"""

from tidelake.cdc.command.argument import SYNC_COMMANDS, Argument, arguments_of
from tidelake.cdc.command.figures import CopyFigures, JobFigures, SyncProgress
from tidelake.cdc.command.given import Given, read_words
from tidelake.cdc.command.job_epochs import epochs_of
from tidelake.cdc.command.job_file import read_job, read_job_file
from tidelake.cdc.command.metrics import JobMetrics
from tidelake.cdc.command.opening import OpenedJob, opened
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync import Sync, Watch
from tidelake.cdc.command.sync_config import SyncConfig, config_of, interval_ms
from tidelake.cdc.command.values import given_of
from tidelake.cdc.job.epoch_view import EpochView
from tidelake.cdc.job.job import EpochDone, SyncJob
from tidelake.cdc.job.table_copy import ChunkNote, TableCopy
from tidelake.cdc.journal.entry import EntryKind
from tidelake.cdc.journal.job_state import JobState, Phase

__all__ = [
    "SYNC_COMMANDS",
    "Argument",
    "ChunkNote",
    "CopyFigures",
    "EntryKind",
    "EpochDone",
    "EpochView",
    "Given",
    "JobFigures",
    "JobMetrics",
    "JobState",
    "OpenedJob",
    "Phase",
    "SecretWays",
    "Sync",
    "SyncConfig",
    "SyncJob",
    "SyncProgress",
    "TableCopy",
    "Watch",
    "arguments_of",
    "config_of",
    "epochs_of",
    "given_of",
    "interval_ms",
    "opened",
    "read_job",
    "read_job_file",
    "read_words",
]
