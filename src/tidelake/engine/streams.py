"""Changes, streams and consumers: what they plan, hold and commit."""

from __future__ import annotations

from tidelake.commit.partition_expiry import is_partition_expiry
from tidelake.commit.stream_step import Covered, MadeCommit, StreamStep
from tidelake.metadata.log.consumer import ConsumerLog, Lease
from tidelake.table.changelog.change_filter import (
    INCOMPLETE,
    WITHOUT_OLD_ROWS,
    ChangeFilter,
    UpdateFilter,
    change_filter,
    knows_old_rows,
)
from tidelake.table.changelog.changelog_files import ChangesMode
from tidelake.table.changelog.changelog_plan import moments_between, planned_changes
from tidelake.table.changelog.changelog_protocols import (
    ChangePart,
    ChangeRows,
    PlannedChanges,
    change_fields,
)
from tidelake.table.partition_done import (
    IdleMarks,
    mark_written,
    marks_at_end_of_stream,
    partitions_with_new_files,
)
from tidelake.table.stream.consumer_reset import clear_consumers, reset_consumer
from tidelake.table.stream.follow import Start, StreamBatch
from tidelake.table.stream.lease import READ_RETAINED_MS, StreamLease
from tidelake.table.stream.offset import StreamOffset, snapshot_identity, table_identity
from tidelake.table.stream.parts import StreamParts
from tidelake.table.stream.plan import StreamPlan
from tidelake.table.stream.schema_fit import difference
from tidelake.table.stream.start import START_OPTIONS
from tidelake.table.system.cdc_epochs_table import CDC_USER, COPY_MARK, REPLAY_MARK

__all__ = [
    "CDC_USER",
    "COPY_MARK",
    "INCOMPLETE",
    "READ_RETAINED_MS",
    "REPLAY_MARK",
    "START_OPTIONS",
    "WITHOUT_OLD_ROWS",
    "ChangeFilter",
    "ChangePart",
    "ChangeRows",
    "ChangesMode",
    "ConsumerLog",
    "Covered",
    "IdleMarks",
    "Lease",
    "MadeCommit",
    "PlannedChanges",
    "Start",
    "StreamBatch",
    "StreamLease",
    "StreamOffset",
    "StreamParts",
    "StreamPlan",
    "StreamStep",
    "UpdateFilter",
    "change_fields",
    "change_filter",
    "clear_consumers",
    "difference",
    "is_partition_expiry",
    "knows_old_rows",
    "mark_written",
    "marks_at_end_of_stream",
    "moments_between",
    "partitions_with_new_files",
    "planned_changes",
    "reset_consumer",
    "snapshot_identity",
    "table_identity",
]
