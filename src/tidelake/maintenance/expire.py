"""Procedures that expire snapshots, changelogs and partitions."""

from __future__ import annotations

import pyarrow as pa

from tidelake.maintenance.parameters import DRY_RUN, OPTIONS, TABLE
from tidelake.maintenance.partition_text import options_of
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
)

_SNAPSHOTS = pa.schema([pa.field("deleted_snapshots_count", pa.int32(), nullable=False)])
_CHANGELOGS = pa.schema([pa.field("deleted_changelogs_count", pa.int32(), nullable=False)])
_PARTITIONS = pa.schema([pa.field("expired_partitions", pa.string())])
_RETENTION = (
    TABLE,
    optional("retain_max", ParameterType.INTEGER, "Maximum number to keep."),
    optional("retain_min", ParameterType.INTEGER, "Minimum number to keep."),
    optional(
        "older_than",
        ParameterType.TIME,
        "A timestamp (by default in the session's zone) or milliseconds since the epoch: what has"
        " an older successor may expire.",
    ),
    optional("max_deletes", ParameterType.INTEGER, "Maximum number to expire, oldest first."),
)


def _snapshots(call: ProcedureCall) -> Rows:
    options = options_of(call["options"])
    table = call.table.with_options(options) if options else call.table
    expired = table.maintenance.expire_snapshots(
        retain_max=call["retain_max"],
        retain_min=call["retain_min"],
        older_than=call["older_than"],
        max_deletes=call["max_deletes"],
        dry_run=bool(call["dry_run"]),
    )
    return [(len(expired.ids),)]


def _changelogs(call: ProcedureCall) -> Rows:
    expired = call.table.maintenance.expire_changelogs(
        retain_max=call["retain_max"],
        retain_min=call["retain_min"],
        older_than=call["older_than"],
        max_deletes=call["max_deletes"],
        delete_all=bool(call["delete_all"]),
        dry_run=bool(call["dry_run"]),
    )
    return [(len(expired.ids),)]


def _partitions(call: ProcedureCall) -> Rows:
    options = options_of(call["options"])
    table = call.table.with_options(options) if options else call.table
    names = (
        "expiration_time",
        "timestamp_formatter",
        "timestamp_pattern",
        "expire_strategy",
    )
    given = {name: (call[name] or "").strip() or None for name in names}
    expired = table.maintenance.expire_partitions(
        **given, max_expires=call["max_expires"], dry_run=bool(call["dry_run"])
    )
    return [(str(p),) for p in expired.partitions] or [("No expired partitions.",)]


EXPIRE_SNAPSHOTS = Procedure(
    "expire_snapshots",
    (
        *_RETENTION,
        OPTIONS,
        DRY_RUN,
    ),
    _SNAPSHOTS,
    "Expires the oldest snapshots, with the files that only they need. The table's options are the"
    " defaults.",
    _snapshots,
    "expire_snapshots(table => 'db.t', retain_max => 5, retain_min => 1)",
)
EXPIRE_CHANGELOGS = Procedure(
    "expire_changelogs",
    (
        *_RETENTION,
        optional("delete_all", ParameterType.BOOLEAN, "Expire all of them."),
        DRY_RUN,
    ),
    _CHANGELOGS,
    "Expires the oldest long-lived changelogs. Paimon has it in Flink.",
    _changelogs,
    "expire_changelogs(table => 'db.t', delete_all => true)",
)
EXPIRE_PARTITIONS = Procedure(
    "expire_partitions",
    (
        TABLE,
        optional("expiration_time", ParameterType.STRING, "The age, such as `7 d`."),
        optional("timestamp_formatter", ParameterType.STRING, "How a time is written: `yyyyMMdd`."),
        optional("timestamp_pattern", ParameterType.STRING, "The time's text: `$dt $hour:00:00`."),
        optional("expire_strategy", ParameterType.STRING, "`values-time` or `update-time`."),
        optional("max_expires", ParameterType.INTEGER, "Maximum number to drop."),
        OPTIONS,
        DRY_RUN,
    ),
    _PARTITIONS,
    "Drops partitions that are too old, with all their rows. The table's options are the defaults.",
    _partitions,
    "expire_partitions(table => 'db.days', expiration_time => '9000 d')",
)
