"""Answer columns of several procedures, by Paimon's names."""

from __future__ import annotations

import pyarrow as pa

DONE = pa.schema([pa.field("result", pa.bool_())])
MESSAGE = pa.schema([pa.field("result", pa.string())])
ROLLED_BACK = pa.schema(
    [
        pa.field("previous_snapshot_id", pa.int64(), nullable=False),
        pa.field("current_snapshot_id", pa.int64(), nullable=False),
    ]
)
TAGGED = pa.schema(
    [
        pa.field("tagName", pa.string()),
        pa.field("snapshot", pa.int64()),
        pa.field("commit_time", pa.int64()),
        pa.field("watermark", pa.string()),
    ]
)
