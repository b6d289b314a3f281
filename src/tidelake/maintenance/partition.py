"""Procedures on partitions."""

from __future__ import annotations

from tidelake.engine.codec import serialize_row
from tidelake.engine.metadata import write_success_file
from tidelake.errors import UnsupportedError
from tidelake.maintenance.parameters import TABLE
from tidelake.maintenance.partition_text import partitions_of
from tidelake.maintenance.procedure import ParameterType, Procedure, ProcedureCall, Rows, required
from tidelake.maintenance.result_schemas import DONE, MESSAGE
from tidelake.options import declared
from tidelake.types.values import to_storage

SUCCESS_FILE = "_SUCCESS"


def _drop(call: ProcedureCall) -> Rows:
    table = call.table
    table.drop_partitions(partitions_of(table, call["partitions"]))
    return [("Success",)]


def _mark_done(call: ProcedureCall) -> Rows:
    table = call.table
    handle = table.handle
    action = table.options.get(declared.PARTITION_MARK_DONE_ACTION)
    if action != "success-file":
        message = (
            f"Table '{table.identifier}' has partition.mark-done-action = '{action}', which is not"
            " supported: set it to 'success-file'."
        )
        raise UnsupportedError(message, kind="mark_done_action", table=table.identifier)
    paths = []
    for partition in partitions_of(table, call["partitions"]):
        missing = [key for key in table.partition_keys if key not in partition]
        if missing:
            raise call.invalid("partitions", f"add the missing partition column '{missing[0]}'.")
        types = handle.paths.partition_types
        values = [partition[key] for key in table.partition_keys]
        stored = [to_storage(v, t) for v, t in zip(values, types, strict=True)]
        path = handle.paths.partition_path(serialize_row(stored, types))
        paths.append(f"{handle.paths.location}/{path}/{SUCCESS_FILE}")
    for path in paths:
        write_success_file(handle.fileio, path, now_ms=handle.env.clock.now_ms())
    return [(True,)]


DROP_PARTITION = Procedure(
    "drop_partition",
    (
        TABLE,
        required("partitions", ParameterType.STRING, "As `dt=2024-01-01,hh=8;dt=2024-01-02`."),
    ),
    MESSAGE,
    "Drops partitions with all their rows. (Flink's; in Spark: ALTER TABLE ... DROP PARTITION.)",
    _drop,
    "drop_partition(table => 'db.days', partitions => 'day=2024-01-01')",
)
MARK_PARTITION_DONE = Procedure(
    "mark_partition_done",
    (
        TABLE,
        required("partitions", ParameterType.STRING, "Each with all partition columns."),
    ),
    DONE,
    "Writes a file `_SUCCESS` into the directories of complete partitions.",
    _mark_done,
    "mark_partition_done(table => 'db.days', partitions => 'day=2024-01-02')",
)
