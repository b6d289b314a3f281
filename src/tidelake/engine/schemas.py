"""Schemas that change, and the event time that they declare."""

from __future__ import annotations

from tidelake.table.schema.alter import alter_table, with_newest_schema
from tidelake.table.schema.constraints import Constraints
from tidelake.table.schema.evolution import evolved_schema
from tidelake.table.schema.schema_merging import merging_changes
from tidelake.table.schema.watermark import (
    DATA_TYPE,
    EXPRESSION,
    ROWTIME,
    WATERMARK_KEYS,
    EventTime,
    check_event_time,
    event_time,
)

__all__ = [
    "DATA_TYPE",
    "EXPRESSION",
    "ROWTIME",
    "WATERMARK_KEYS",
    "Constraints",
    "EventTime",
    "alter_table",
    "check_event_time",
    "event_time",
    "evolved_schema",
    "merging_changes",
    "with_newest_schema",
]
