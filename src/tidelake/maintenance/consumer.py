"""Procedures that set and remove consumers."""

from __future__ import annotations

from tidelake.engine.streams import clear_consumers, reset_consumer
from tidelake.maintenance.parameters import TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)
from tidelake.maintenance.result_schemas import DONE


def _reset(call: ProcedureCall) -> Rows:
    reset_consumer(call.table.handle, call["consumerId"], call["nextSnapshotId"])
    return [(True,)]


def _clear(call: ProcedureCall) -> Rows:
    clear_consumers(call.table.handle, call["includingConsumers"], call["excludingConsumers"])
    return [(True,)]


RESET_CONSUMER = Procedure(
    "reset_consumer",
    (
        TABLE,
        required("consumerId", ParameterType.STRING, "The consumer."),
        optional(
            "nextSnapshotId",
            ParameterType.LONG,
            "The snapshot that it reads next; without it the consumer is removed.",
        ),
    ),
    DONE,
    "Sets the next snapshot of a consumer, or removes it. Unlike Paimon, it refuses a consumer"
    " that a running stream of Tidelake uses.",
    _reset,
    "reset_consumer(table => 'db.t', consumerId => 'mailer', nextSnapshotId => 2)",
)
CLEAR_CONSUMERS = Procedure(
    "clear_consumers",
    (
        TABLE,
        optional(
            "includingConsumers",
            ParameterType.STRING,
            "A regular expression of names; all by default.",
        ),
        optional(
            "excludingConsumers", ParameterType.STRING, "A regular expression of names to keep."
        ),
    ),
    DONE,
    "Removes consumers, so that they keep no snapshots. If a running stream of Tidelake uses one"
    " of them, it fails and removes none.",
    _clear,
    "clear_consumers(table => 'db.t', includingConsumers => 'old_.*')",
)
