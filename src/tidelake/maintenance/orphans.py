"""The procedures that remove orphan files, and entries of files that are lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelake.engine.jobs import OrphansOfTables
from tidelake.maintenance.parameters import TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)

LOCAL, DISTRIBUTED = "local", "distributed"
_ANSWER = pa.schema(
    [
        pa.field("deletedFileCount", pa.int64()),
        pa.field("deletedFileTotalLenInBytes", pa.int64()),
        pa.field("quarantinedFileCount", pa.int64()),
        pa.field("quarantinedFileTotalLenInBytes", pa.int64()),
    ]
)
"""The last two columns are ours."""


def _remove(call: ProcedureCall) -> Rows:
    mode = (call["mode"] or DISTRIBUTED).lower()
    if mode not in (LOCAL, DISTRIBUTED):
        raise call.invalid("mode", f"it is 'local' or 'distributed', not '{call['mode']}'.")
    given: dict[str, Any] = {"older_than": call["older_than"], "dry_run": bool(call["dry_run"])}
    if call["parallelism"] is not None:
        given["parallelism"] = call["parallelism"]
    if mode == LOCAL or call.runner is None:
        found = call.catalog.remove_orphan_files(call["table"], **given)
    else:
        found = call.runner.remove_orphan_files(call["table"], **given)
    return [_row(found)]


def _row(found: OrphansOfTables) -> tuple[int, ...]:
    """The answer; the error of a table that could not be searched, once the others are done."""
    for error in found.failed.values():
        raise error
    return (
        found.removed_count,
        found.removed_bytes,
        found.quarantined_count,
        found.quarantined_bytes,
    )


REMOVE_ORPHAN_FILES = Procedure(
    "remove_orphan_files",
    (
        TABLE,
        optional(
            "older_than",
            ParameterType.TIME,
            "A time as of `expire_snapshots`: only files last changed before it. A day ago by"
            " default.",
        ),
        optional(
            "dry_run", ParameterType.BOOLEAN, "Report what would be removed, and change nothing."
        ),
        optional(
            "parallelism",
            ParameterType.INTEGER,
            "Threads that list and delete; on executors, tasks that list.",
        ),
        optional(
            "mode",
            ParameterType.STRING,
            "`distributed` (the default): list on Spark's executors if there are any; or `local`.",
        ),
    ),
    _ANSWER,
    "Removes files that nothing names, of a table or of all (`db.*`). A first call puts them into"
    " quarantine, and one a day later removes those that are still not named. Paimon removes them"
    " at once, and lacks the last two columns.",
    _remove,
    "remove_orphan_files(table => 'db.*', dry_run => true)",
)


_LOST_ANSWER = pa.schema([pa.field("fileName", pa.string())])


def _remove_lost(call: ProcedureCall) -> Rows:
    if call["parallelism"] is not None and call["parallelism"] < 1:
        raise call.invalid("parallelism", "it is a number from 1 on.")
    found = call.table.maintenance.remove_missing_files(dry_run=bool(call["dry_run"]))
    return [(path,) for path in found.paths]


REMOVE_UNEXISTING_FILES = Procedure(
    "remove_unexisting_files",
    (
        TABLE,
        optional("dry_run", ParameterType.BOOLEAN, "Report the files, and change nothing."),
        optional(
            "parallelism", ParameterType.INTEGER, "No effect: a directory is listed at a time."
        ),
    ),
    _LOST_ANSWER,
    "Takes data files that are lost out of a table, so that the others can be read; their rows are"
    " gone. Answers with the files.",
    _remove_lost,
    "remove_unexisting_files(table => 'db.t', dry_run => true)",
)
