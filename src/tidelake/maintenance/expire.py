"""Procedures that let old snapshots and changelogs go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from tidelake.maintenance.partition_text import options_of
from tidelake.maintenance.procedure import Call, ParameterType, Procedure, optional, required

__all__ = ["EXPIRE_CHANGELOGS", "EXPIRE_SNAPSHOTS"]

Rows = Iterable[Sequence[object]]

_SNAPSHOTS = pa.schema([pa.field("deleted_snapshots_count", pa.int32(), nullable=False)])
_CHANGELOGS = pa.schema([pa.field("deleted_changelogs_count", pa.int32(), nullable=False)])
_DRY_RUN = optional(
    "dry_run", ParameterType.BOOLEAN, "Whether to say only what it would do.", is_ours=True
)
_WHICH = (
    required("table", ParameterType.TABLE, "The table."),
    optional("retain_max", ParameterType.INTEGER, "How many are kept at most."),
    optional("retain_min", ParameterType.INTEGER, "How many are kept at least."),
    optional(
        "older_than",
        ParameterType.TIME,
        "A timestamp, or milliseconds since the epoch: what was followed by another snapshot"
        " before it may go.",
    ),
    optional("max_deletes", ParameterType.INTEGER, "How many go at a time, the oldest first."),
)


def _snapshots(call: Call) -> Rows:
    options = options_of(call["options"])
    table = call.table.with_options(options) if options else call.table
    expired = table.expire_snapshots(
        retain_max=call["retain_max"],
        retain_min=call["retain_min"],
        older_than=call["older_than"],
        max_deletes=call["max_deletes"],
        dry_run=bool(call["dry_run"]),
    )
    return [(len(expired.ids),)]


def _changelogs(call: Call) -> Rows:
    expired = call.table.expire_changelogs(
        retain_max=call["retain_max"],
        retain_min=call["retain_min"],
        older_than=call["older_than"],
        max_deletes=call["max_deletes"],
        delete_all=bool(call["delete_all"]),
        dry_run=bool(call["dry_run"]),
    )
    return [(len(expired.ids),)]


EXPIRE_SNAPSHOTS = Procedure(
    "expire_snapshots",
    (
        *_WHICH,
        optional("options", ParameterType.STRING, "Options of the table for this call: `a=1,b=2`."),
        _DRY_RUN,
    ),
    _SNAPSHOTS,
    "Removes the oldest snapshots, with the files that only they need. What is not given is as the"
    " table's options say.",
    _snapshots,
    "expire_snapshots(table => 'db.t', retain_max => 5, retain_min => 1)",
)
EXPIRE_CHANGELOGS = Procedure(
    "expire_changelogs",
    (
        *_WHICH,
        optional("delete_all", ParameterType.BOOLEAN, "Whether all of them go."),
        _DRY_RUN,
    ),
    _CHANGELOGS,
    "Removes the oldest of the changelogs that outlived their snapshots. Paimon has it in Flink.",
    _changelogs,
    "expire_changelogs(table => 'db.t', delete_all => true)",
)
