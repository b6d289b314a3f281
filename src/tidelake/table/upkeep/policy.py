"""What a maintenance job is to do for a table: the options ``maintenance.*``, as a value. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import Options, declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.options.derived import levels_count
from tidelake.table.handle.handle import TableHandle

NONE, ALWAYS = "none", "always"
RUNS_BELOW = 2
"""By how many sorted runs a job stays below the trigger of writers."""
RUNS_MIN = 2


class Task(enum.StrEnum):
    """A kind of work, in the order in which a job does it."""

    TAGS = "tags"
    COMPACTION = "compaction"
    DONE = "done"
    PARTITIONS = "partitions"
    SNAPSHOTS = "snapshots"
    ORPHANS = "orphans"


@dataclass(frozen=True, slots=True)
class UpkeepPolicy:
    """What is to be done, and how often.

    Parameters
    ----------
    tasks : frozenset of Task
        What the job does for the table.
    expiry_interval_ms, partitions_interval_ms, orphans_interval_ms : int
        The time between two looks.
    orphans_age_ms : int
        The age of orphan files from which they are removed.
    """

    tasks: frozenset[Task]
    expiry_interval_ms: int
    partitions_interval_ms: int
    orphans_interval_ms: int
    orphans_age_ms: int

    @classmethod
    def of(cls, handle: TableHandle) -> UpkeepPolicy:
        """The policy of a table's options."""
        options = handle.options
        named = {word.strip() for word in options.get(declared.MAINTENANCE_TASKS).split(",")}
        tasks = {task for task in Task if task.value in named}
        if not _leaves_compaction(handle):
            tasks.discard(Task.COMPACTION)
        if not handle.schema.partition_keys or not options.is_set(
            declared.PARTITION_EXPIRATION_TIME
        ):
            tasks.discard(Task.PARTITIONS)
        if not handle.schema.partition_keys or not options.is_set(
            declared.PARTITION_IDLE_TIME_TO_DONE
        ):
            tasks.discard(Task.DONE)
        return cls(
            frozenset(tasks),
            options.get(declared.MAINTENANCE_EXPIRY_INTERVAL),
            options.get(declared.PARTITION_EXPIRATION_CHECK_INTERVAL),
            options.get(declared.MAINTENANCE_ORPHANS_INTERVAL),
            options.get(declared.MAINTENANCE_ORPHANS_OLDER_THAN),
        )

    def interval_ms(self, task: Task) -> int:
        """The time between two looks for a task; 0 for one that is looked for in each round."""
        return {
            Task.TAGS: self.expiry_interval_ms,
            Task.DONE: self.expiry_interval_ms,
            Task.SNAPSHOTS: self.expiry_interval_ms,
            Task.PARTITIONS: self.partitions_interval_ms,
            Task.ORPHANS: self.orphans_interval_ms,
        }.get(task, 0)


def _leaves_compaction(handle: TableHandle) -> bool:
    """Whether the table is one that a job compacts."""
    options = handle.options
    return (
        options.get(declared.MAINTENANCE_COMPACTION) == ALWAYS
        or options.get(declared.WRITE_ONLY)
        or handle.bucket_mode is BucketMode.UNBUCKETED
        or options.get(declared.BUCKET) == POSTPONE_BUCKET
    )


def compaction_handle(handle: TableHandle) -> TableHandle:
    """The table with the trigger of a job's compactions; its levels stay those of the writers."""
    if not handle.schema.primary_keys:
        return handle
    options = handle.options
    of_writers = options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    given = options.get(declared.MAINTENANCE_SORTED_RUNS)
    trigger = max(RUNS_MIN, of_writers - RUNS_BELOW) if given is None else given
    return handle.with_options(_with_trigger(options, trigger))


def _with_trigger(options: Options, trigger: int) -> Options:
    return options.updated(
        {
            declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.key: str(trigger),
            declared.NUM_LEVELS.key: str(levels_count(options)),
        }
    )
