"""Procedures that rewrite files: compact, compact_manifest, rescale."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelake.engine.jobs import Chosen
from tidelake.engine.metadata import live_entries
from tidelake.engine.tables import Table
from tidelake.engine.write import compaction_conflict
from tidelake.errors import UnsupportedError
from tidelake.maintenance.parameters import OPTIONS, PARTITIONS, TABLE
from tidelake.maintenance.partition_text import options_of, partitions_of
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)
from tidelake.maintenance.result_schemas import DONE
from tidelake.options import declared, parse_value
from tidelake.types.values import from_storage

FULL, MINOR = "full", "minor"


def _compact(call: ProcedureCall) -> Rows:
    table = call.table
    strategy = (_text(call, "compact_strategy") or FULL).lower()
    if strategy not in (FULL, MINOR):
        raise call.invalid("compact_strategy", f"it is 'full' or 'minor', not '{strategy}'.")
    _refuse_order(call)
    chosen = _partitions(call, table)
    options = options_of(call["options"])
    buckets = _buckets(call)
    idle = _text(call, "partition_idle_time")
    if idle is not None:
        chosen = _idle_partitions(call, table, chosen, idle)
        if not chosen:
            return [(True,)]
    arguments: dict[str, Any] = {"full": strategy == FULL, "partitions": chosen, "buckets": buckets}
    if call.runner is None:
        result = table.compact(**arguments, options=options)
    else:
        result = call.runner.compact(table.identifier, **arguments, options=options)
    if result.compactions_dropped:
        # the answer has no column for a number
        raise compaction_conflict(
            table.identifier,
            result.compactions_dropped,
            outcome="The other buckets are compacted.",
        )
    return [(True,)]


def _text(call: ProcedureCall, name: str) -> str | None:
    """Return a text argument; None if blank."""
    text = call[name]
    return text.strip() if text and text.strip() else None


def _refuse_order(call: ProcedureCall) -> None:
    order, columns = _text(call, "order_strategy"), _text(call, "order_by")
    if order is None or order.lower() == "none":
        if columns is not None:
            raise call.invalid("order_by", "it needs an order_strategy other than 'none'.")
        return
    if order.lower() not in ("order", "zorder", "hilbert"):
        reason = f"it is 'order', 'zorder', 'hilbert' or 'none', not '{order}'."
        raise call.invalid("order_strategy", reason)
    message = (
        f"compact with order_strategy => '{order}' is not supported by this version: a sorted"
        " rewrite of an append table needs a shuffle. Leave order_strategy out, or rewrite the"
        " table with INSERT OVERWRITE from a sorted query."
    )
    raise UnsupportedError(message, kind="order_strategy", table=call["table"])


def _partitions(call: ProcedureCall, table: Table) -> object:
    """Return the partitions for :meth:`tidelake.Table.compact`."""
    partitions, where = _text(call, "partitions"), _text(call, "where")
    if partitions is not None and where is not None:
        raise call.invalid("where", "it cannot be used together with partitions.")
    return where if partitions is None else partitions_of(table, partitions)


def _buckets(call: ProcedureCall) -> list[int] | None:
    text = _text(call, "buckets")
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise call.invalid("buckets", f"write numbers with commas, not '{text}'.")
    return [int(part) for part in parts]


def _idle_partitions(
    call: ProcedureCall, table: Table, chosen: object, idle: str
) -> list[dict[str, object]]:
    """Return the partitions without new files for some time."""
    try:
        idle_ms = parse_value(declared.TAG_DEFAULT_TIME_RETAINED, idle)
    except ValueError as error:
        raise call.invalid(
            "partition_idle_time", f"'{idle}' is not a duration such as '1 h'."
        ) from error
    assert isinstance(idle_ms, int)
    handle = table.handle
    snapshot = handle.snapshots.latest()
    if snapshot is None or not table.partition_keys:
        return []
    clock = handle.env.clock
    # creation times of files are local times of their writers
    before_ms = clock.now_ms() + clock.local_offset_ms() - idle_ms
    entries = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    times = entries["creation_time_ms"].fill_null(0).to_numpy(zero_copy_only=False)
    newest = np.zeros(len(entries.partitions), np.int64)
    np.maximum.at(newest, entries["partition_id"], times)
    there = np.unique(entries["partition_id"])
    quiet = [entries.partitions[i] for i in there.tolist() if newest[i] < before_ms]
    kept = Chosen.of(handle, chosen, None).of_partitions(handle, quiet)
    paths = handle.paths
    return [
        {
            key: from_storage(value, data_type)
            for key, value, data_type in zip(
                paths.partition_keys,
                paths.partition_values(partition),
                paths.partition_types,
                strict=True,
            )
        }
        for partition in sorted(kept)
    ]


def _compact_manifest(call: ProcedureCall) -> Rows:
    options = options_of(call["options"])
    table = call.table if options is None else call.table.with_options(options)
    table.maintenance.compact_manifests()
    return [(True,)]


def _rescale(call: ProcedureCall) -> Rows:
    table = call.table
    partitions = _text(call, "partitions")
    if _text(call, "where") is not None:
        raise call.invalid("where", "it is not supported: use partitions.")
    chosen = None if partitions is None else partitions_of(table, partitions)
    table.rescale_bucket(call["bucket_num"], partitions=chosen)
    return [(True,)]


COMPACT = Procedure(
    "compact",
    (
        TABLE,
        PARTITIONS,
        optional("compact_strategy", ParameterType.STRING, "`full` (the default) or `minor`."),
        optional("order_strategy", ParameterType.STRING, "`none`; sorting is not supported."),
        optional("order_by", ParameterType.STRING, "Columns of a sorted compaction."),
        optional(
            "where",
            ParameterType.STRING,
            "A condition on partition columns: `dt > '2024-01-01'`.",
        ),
        OPTIONS,
        optional(
            "partition_idle_time",
            ParameterType.STRING,
            "Only partitions without new files for this time, such as `1 h`.",
        ),
        optional(
            "buckets", ParameterType.STRING, "Only these buckets: `0,1`. (2.1.)", is_ours=True
        ),
    ),
    DONE,
    "Merges files, or combines small ones; runs on Spark's executors if there are any. It fails if"
    " another commit compacted or rewrote a bucket meanwhile; other buckets are compacted.",
    _compact,
    "compact(table => 'db.t', compact_strategy => 'minor')",
)
COMPACT_MANIFEST = Procedure(
    "compact_manifest",
    (TABLE, OPTIONS),
    DONE,
    "Merges the manifests of the newest snapshot, so that plans read fewer.",
    _compact_manifest,
    "compact_manifest(table => 'db.t')",
)
RESCALE = Procedure(
    "rescale",
    (
        TABLE,
        optional("bucket_num", ParameterType.INTEGER, "The new number of buckets."),
        PARTITIONS,
        optional("where", ParameterType.STRING, "Not supported: use `partitions`."),
    ),
    DONE,
    "Changes the table's number of buckets and rewrites partitions into them. (2.1, which keeps the"
    " table's number.)",
    _rescale,
    "rescale(table => 'db.t', bucket_num => 2)",
)
