"""Planted bugs of what is believed of a store.

Those of its client are planted in `tests/unit/fileio/object_store/test_planted_bugs.py`.
"""

from __future__ import annotations

import tidelake.commit.store_snapshot_commit as store_commit
import tidelake.metadata.log.incarnation as incarnation
import tidelake.metadata.log.schema_log as schema_log
import tidelake.metadata.log.snapshot_log as snapshot_log
import tidelake.metadata.log.tag as tag
import tidelake.table.jobs.rollback as rollback
from proving.planting import edited, passed_over

__all__ = ["PLANTED"]


def _believed(_):
    def put_new(fileio, path, data, *, within=None):
        return fileio.put_if_absent(path, data, within=within)

    return put_new


PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "a table is said to exist because a put conflicts",
        "check_conflicts_where_nothing_is",
        (schema_log, "put_new", _believed),
    ),
    (
        "a tag is said to exist because a put conflicts",
        "check_conflicts_where_nothing_is",
        (tag, "put_new", _believed),
    ),
    (
        "a snapshot's number is given up while it is absent",
        "check_late_puts",
        (
            store_commit.StoreSnapshotCommit,
            "_outcome",
            edited("if done else Outcome.IN_DOUBT", "if done else Outcome.LOST"),
        ),
    ),
    (
        "a late snapshot of a dropped table is taken for the new one's",
        "check_late_commits_to_dropped_tables",
        (incarnation.Incarnation, "has", lambda _: lambda *_: True),
    ),
    (
        "a commit takes a number that others had and that has expired",
        "check_numbers_that_expired",
        (snapshot_log.SnapshotLog, "is_passed", lambda _: lambda *_: False),
    ),
    (
        "a snapshot follows whatever has the number before its own",
        "check_late_schedules",
        (snapshot_log, "follows", lambda _: lambda *_: True),
    ),
    (
        "a rollback on a store leaves its target without a mark",
        "check_late_schedules",
        (rollback._Step, "_mark_target", passed_over),
    ),
    (
        "a base is believed that came back with the one before it",
        "check_late_schedules",
        (snapshot_log.SnapshotLog, "is_reached", lambda _: lambda *_: True),
    ),
)
