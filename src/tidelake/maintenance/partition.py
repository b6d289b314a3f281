"""Procedures on partitions."""

from __future__ import annotations

from tidelake.engine.codec import serialize_row
from tidelake.engine.jobs import mark_done
from tidelake.maintenance.parameters import TABLE
from tidelake.maintenance.partition_text import partitions_of
from tidelake.maintenance.procedure import ParameterType, Procedure, ProcedureCall, Rows, required
from tidelake.maintenance.result_schemas import DONE, MESSAGE
from tidelake.types.values import to_storage


def _drop(call: ProcedureCall) -> Rows:
    table = call.table
    table.drop_partitions(partitions_of(table, call["partitions"]))
    return [("Success",)]


def _mark_done(call: ProcedureCall) -> Rows:
    table = call.table
    types = table.handle.paths.partition_types
    partitions = []
    for partition in partitions_of(table, call["partitions"]):
        missing = [key for key in table.partition_keys if key not in partition]
        if missing:
            raise call.invalid("partitions", f"add the missing partition column '{missing[0]}'.")
        values = [partition[key] for key in table.partition_keys]
        stored = [to_storage(v, t) for v, t in zip(values, types, strict=True)]
        partitions.append(serialize_row(stored, types))
    mark_done(table.handle, partitions)
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
    "Marks complete partitions as `partition.mark-done-action` says: by a file `_SUCCESS` in their"
    " directories, a report to a server, or in a REST catalog.",
    _mark_done,
    "mark_partition_done(table => 'db.days', partitions => 'day=2024-01-02')",
)
