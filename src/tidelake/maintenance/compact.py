"""Procedures that rewrite files: compact, compact_database, compact_manifest, rescale, maintain."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.engine.jobs import Chosen, MaintenanceRound
from tidelake.engine.metadata import live_entries
from tidelake.engine.tables import Table
from tidelake.engine.write import WriteResult, compaction_conflict
from tidelake.maintenance.parameters import DRY_RUN, OPTIONS, PARTITIONS, TABLE
from tidelake.maintenance.partition_text import options_of, partitions_of
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)
from tidelake.maintenance.result_schemas import DONE, MESSAGE
from tidelake.options import declared, parse_value
from tidelake.types.values import from_storage

FULL, MINOR = "full", "minor"
ORDERS = ("order", "zorder", "hilbert")
MODES = ("combined", "divided")
_LOG = logging.getLogger("tidelake")
ALL_TABLES = "*.*"
_DONE_BY_TASK = pa.schema(
    [
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("task", pa.string()),
        pa.field("figures", pa.string()),
        pa.field("error", pa.string()),
    ]
)
IS_TAKEN = "another job is at work on it"


def _compact(call: ProcedureCall) -> Rows:
    table = call.table
    options = options_of(call["options"])
    given = (options or {}).get(declared.CLUSTERING_INCREMENTAL.key)
    clusters = table.options.get(declared.CLUSTERING_INCREMENTAL) if given is None else given
    default = MINOR if str(clusters).lower() == "true" else FULL
    strategy = (_text(call, "compact_strategy") or default).lower()
    if strategy not in (FULL, MINOR):
        raise call.invalid("compact_strategy", f"it is 'full' or 'minor', not '{strategy}'.")
    order, by = _order(call)
    chosen = _partitions(call, table)
    buckets = _buckets(call)
    idle = _text(call, "partition_idle_time")
    if idle is not None:
        chosen = _idle_partitions(call, table, chosen, idle)
        if not chosen:
            return [(True,)]
    arguments: dict[str, Any] = {"full": strategy == FULL, "partitions": chosen, "buckets": buckets}
    if order is not None:
        arguments |= {"order": order, "by": by}
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


def _compact_database(call: ProcedureCall) -> Rows:
    mode = (_text(call, "mode") or MODES[0]).lower()
    if mode not in MODES:
        raise call.invalid("mode", f"it is 'combined' or 'divided', not '{mode}'.")
    idle = _text(call, "partition_idle_time")

    def compact(name: str, *, full: bool, options: Mapping[str, object] | None) -> WriteResult:
        table = call.catalog.table(name)
        assert isinstance(table, Table), "names of tables"
        if _text(call, "compact_strategy") is None:
            full = not table.options.get(declared.CLUSTERING_INCREMENTAL)
        given: dict[str, Any] = {"full": full, "options": options}
        if idle is not None and table.partition_keys:
            given["partitions"] = _idle_partitions(call, table, None, idle)
            if not given["partitions"]:
                return WriteResult()
        if call.runner is None:
            return table.compact(**given)
        return call.runner.compact(name, **given)

    found = call.catalog.compact_database(
        including_databases=_text(call, "including_databases"),
        including_tables=_text(call, "including_tables"),
        excluding_tables=_text(call, "excluding_tables"),
        full=_is_full(call),
        options=options_of(call["options"]),
        compact=compact,
    )
    for name, error in found.failed.items():
        _LOG.warning("compact_database: table '%s' is not compacted: %s", name, error)
    text = f"Success: {len(found.tables)}, Failed: {len(found.failed)}"
    return [(f"Compact database finished. {text}",)]


def _is_full(call: ProcedureCall) -> bool:
    strategy = (_text(call, "compact_strategy") or FULL).lower()
    if strategy not in (FULL, MINOR):
        raise call.invalid("compact_strategy", f"it is 'full' or 'minor', not '{strategy}'.")
    return strategy == FULL


def _text(call: ProcedureCall, name: str) -> str | None:
    """Return a text argument; None if blank."""
    text = call[name]
    return text.strip() if text and text.strip() else None


def _order(call: ProcedureCall) -> tuple[str | None, list[str] | None]:
    """Return the order of a sorted compaction and its columns."""
    order, columns = _text(call, "order_strategy"), _text(call, "order_by")
    if order is None or order.lower() == "none":
        if columns is not None:
            raise call.invalid("order_by", "it needs an order_strategy other than 'none'.")
        return None, None
    if order.lower() not in ORDERS:
        known = ", ".join(f"'{one}'" for one in ORDERS)
        raise call.invalid("order_strategy", f"it is {known} or 'none', not '{order}'.")
    if _text(call, "partition_idle_time") is not None:
        raise call.invalid("partition_idle_time", "it does not go with an order_strategy.")
    return order, None if columns is None else [name.strip() for name in columns.split(",")]


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


def _maintain(call: ProcedureCall) -> Rows:
    names = [name.strip() for name in (call["tables"] or ALL_TABLES).split(",") if name.strip()]
    is_dry = bool(call["dry_run"])
    # only work is for executors: a plan is made of metadata
    runner = call.catalog if call.runner is None or is_dry else call.runner
    found = runner.maintain(*names, rounds=1, dry_run=is_dry)
    if not isinstance(found, MaintenanceRound):
        due: list[tuple[str | None, ...]] = [
            (plan.table, str(task.task), _figures(task.figures), None)
            for plan in found
            for task in plan.tasks
        ]
        due += [(p.table, None, None, str(p.error)) for p in found if p.error is not None]
        return due
    rows: list[tuple[str | None, ...]] = [
        (
            done.table,
            str(task.task),
            _figures(task.figures),
            None if task.error is None else str(task.error),
        )
        for done in found.tables
        for task in done.tasks
    ]
    rows += [(done.table, None, None, IS_TAKEN) for done in found.tables if done.is_taken]
    rows += [(name, None, None, str(error)) for name, error in found.failed.items()]
    return rows


def _figures(figures: Mapping[str, int]) -> str:
    return json.dumps(dict(figures))


COMPACT = Procedure(
    "compact",
    (
        TABLE,
        PARTITIONS,
        optional(
            "compact_strategy",
            ParameterType.STRING,
            "`full` (the default) or `minor` (the default with `clustering.incremental`).",
        ),
        optional(
            "order_strategy",
            ParameterType.STRING,
            "`order`, `zorder` or `hilbert`: sort the rows of the partitions, of an append table"
            " without buckets. `none` by default.",
        ),
        optional(
            "order_by",
            ParameterType.STRING,
            "The columns to sort by: `a,b`; those of `clustering.columns` by default.",
        ),
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
    "Merges files, combines small ones, or sorts the rows; runs on Spark's executors if there are"
    " any. It fails if another commit compacted or rewrote a bucket meanwhile; other buckets are"
    " compacted.",
    _compact,
    "compact(table => 'db.t', compact_strategy => 'minor')",
)
COMPACT_DATABASE = Procedure(
    "compact_database",
    (
        optional(
            "including_databases",
            ParameterType.STRING,
            "A regular expression of the names of databases, such as `db1|db2`; all by default.",
        ),
        optional(
            "including_tables",
            ParameterType.STRING,
            "A regular expression of whole names, such as `db1[.].*`; all by default.",
        ),
        optional(
            "excluding_tables",
            ParameterType.STRING,
            "A regular expression of whole names that are left out.",
        ),
        OPTIONS,
        optional(
            "mode",
            ParameterType.STRING,
            "`combined` or `divided`, as in Flink; here both do one table after the other.",
        ),
        optional(
            "partition_idle_time",
            ParameterType.STRING,
            "Of partitioned tables, only partitions without new files for this time. (Flink.)",
        ),
        optional(
            "compact_strategy",
            ParameterType.STRING,
            "`full` (the default) or `minor`. (Flink.)",
        ),
    ),
    MESSAGE,
    "Compacts all tables whose names match, each in one commit. A table that fails is counted and"
    " logged, and the others go on. (2.1.)",
    _compact_database,
    "compact_database(including_databases => 'db.*', compact_strategy => 'minor')",
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
MAINTAIN = Procedure(
    "maintain",
    (
        optional(
            "tables",
            ParameterType.STRING,
            "Tables, with commas between: `db.t`, `db.*`; all by default.",
            is_ours=True,
        ),
        DRY_RUN,
    ),
    _DONE_BY_TASK,
    "Does what is due in tables, once, by the options of each: compaction, tags, old partitions,"
    " snapshots, orphan files. A row for each task that did something or failed. Ours.",
    _maintain,
    "maintain(tables => 'db.*', dry_run => true)",
)
