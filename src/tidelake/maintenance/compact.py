"""Procedures that rewrite files: compactions and other numbers of buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tidelake.errors import UnsupportedError
from tidelake.maintenance.answers import DONE
from tidelake.maintenance.partition_text import options_of, partitions_of
from tidelake.maintenance.procedure import Call, ParameterType, Procedure, optional, required
from tidelake.metadata.manifest.live_set import live_entries
from tidelake.options import declared, parse_value
from tidelake.table import Table
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.write.compaction_conflict import compaction_conflict
from tidelake.types.values import from_storage

__all__ = ["COMPACT", "COMPACT_MANIFEST", "RESCALE"]

Rows = Iterable[Sequence[object]]

FULL, MINOR = "full", "minor"

_TABLE = required("table", ParameterType.TABLE, "The table.")
_PARTITIONS = optional(
    "partitions",
    ParameterType.STRING,
    "Which partitions: `dt=2024-01-01,hh=8;dt=2024-01-02`; a comma is AND, a semicolon OR. All by"
    " default.",
)
_OPTIONS = optional(
    "options", ParameterType.STRING, "Options of the table for this call: `a=1,b=2`."
)


def _compact(call: Call) -> Rows:
    table = call.table
    strategy = (_given(call, "compact_strategy") or FULL).lower()
    if strategy not in (FULL, MINOR):
        raise call.wrong("compact_strategy", f"it is 'full' or 'minor', not '{strategy}'.")
    _refuse_order(call)
    chosen = _chosen(call, table)
    options = options_of(call["options"])
    buckets = _buckets(call)
    idle = _given(call, "partition_idle_time")
    if idle is not None:
        chosen = _idle_partitions(call, table, chosen, idle)
        if not chosen:
            return [(True,)]
    asked: dict[str, Any] = {"full": strategy == FULL, "partitions": chosen, "buckets": buckets}
    if call.runner is None:
        result = table.compact(**asked, options=options)
    else:
        result = call.runner.compact(table.identifier, **asked, options=options)
    if result.compactions_dropped:
        # the answer has no place for a number
        raise compaction_conflict(
            table.identifier,
            result.compactions_dropped,
            outcome="What other commits did not take is done.",
        )
    return [(True,)]


def _given(call: Call, name: str) -> str | None:
    """A text; None where it is blank."""
    text = call[name]
    return text.strip() if text and text.strip() else None


def _refuse_order(call: Call) -> None:
    order, columns = _given(call, "order_strategy"), _given(call, "order_by")
    if order is None or order.lower() == "none":
        if columns is not None:
            raise call.wrong("order_by", "it goes with an order_strategy other than 'none'.")
        return
    if order.lower() not in ("order", "zorder", "hilbert"):
        reason = f"it is 'order', 'zorder', 'hilbert' or 'none', not '{order}'."
        raise call.wrong("order_strategy", reason)
    message = (
        f"compact with order_strategy => '{order}' is not covered by this version: a sorted"
        " rewrite of an append table needs a shuffle. Leave order_strategy out, or rewrite the"
        " table with INSERT OVERWRITE from a sorted query."
    )
    raise UnsupportedError(message, kind="order_strategy", table=call["table"])


def _chosen(call: Call, table: Table) -> object:
    """Partitions as :meth:`tidelake.Table.compact` takes them."""
    partitions, where = _given(call, "partitions"), _given(call, "where")
    if partitions is not None and where is not None:
        raise call.wrong("where", "it cannot be used together with partitions.")
    return where if partitions is None else partitions_of(table, partitions)


def _buckets(call: Call) -> list[int] | None:
    text = _given(call, "buckets")
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise call.wrong("buckets", f"it is numbers with commas, not '{text}'.")
    return [int(part) for part in parts]


def _idle_partitions(
    call: Call, table: Table, chosen: object, idle: str
) -> list[dict[str, object]]:
    """Those partitions into which no file came for some time."""
    try:
        idle_ms = parse_value(declared.TAG_DEFAULT_TIME_RETAINED, idle)
    except ValueError as error:
        raise call.wrong(
            "partition_idle_time", f"'{idle}' is no duration such as '1 h'."
        ) from error
    assert isinstance(idle_ms, int)
    handle = table.handle
    snapshot = handle.snapshots.latest()
    if snapshot is None or not table.partition_keys:
        return []
    clock = handle.env.clock
    # files say the wall clock of their writer
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


def _compact_manifest(call: Call) -> Rows:
    options = options_of(call["options"])
    table = call.table if options is None else call.table.with_options(options)
    table.compact_manifests()
    return [(True,)]


def _rescale(call: Call) -> Rows:
    table = call.table
    partitions = _given(call, "partitions")
    if _given(call, "where") is not None:
        raise call.wrong("where", "it is not covered by this version: name the partitions.")
    chosen = None if partitions is None else partitions_of(table, partitions)
    table.rescale_bucket(call["bucket_num"], partitions=chosen)
    return [(True,)]


COMPACT = Procedure(
    "compact",
    (
        _TABLE,
        _PARTITIONS,
        optional("compact_strategy", ParameterType.STRING, "`full` (the default) or `minor`."),
        optional("order_strategy", ParameterType.STRING, "`none`; sorting is not covered."),
        optional("order_by", ParameterType.STRING, "Columns of a sorted compaction."),
        optional(
            "where",
            ParameterType.STRING,
            "Which partitions, as a condition on partition columns: `dt > '2024-01-01'`.",
        ),
        _OPTIONS,
        optional(
            "partition_idle_time",
            ParameterType.STRING,
            "Only partitions into which no file came for that time, such as `1 h`.",
        ),
        optional(
            "buckets", ParameterType.STRING, "Only these buckets: `0,1`. (2.1.)", is_ours=True
        ),
    ),
    DONE,
    "Merges files, or puts small ones together; runs on Spark's executors where there are any. It"
    " fails where another commit compacted or rewrote a bucket meanwhile; other buckets are done.",
    _compact,
    "compact(table => 'db.t', compact_strategy => 'minor')",
)
COMPACT_MANIFEST = Procedure(
    "compact_manifest",
    (_TABLE, _OPTIONS),
    DONE,
    "Merges the manifests of the newest snapshot, so that plans read few of them.",
    _compact_manifest,
    "compact_manifest(table => 'db.t')",
)
RESCALE = Procedure(
    "rescale",
    (
        _TABLE,
        optional("bucket_num", ParameterType.INTEGER, "The new number of buckets."),
        _PARTITIONS,
        optional("where", ParameterType.STRING, "Not covered: name the partitions."),
    ),
    DONE,
    "Gives the table another number of buckets and rewrites partitions into them. (2.1, where the"
    " table's own number stays.)",
    _rescale,
    "rescale(table => 'db.t', bucket_num => 2)",
)
