"""A table followed as a stream: offsets, limits, and what is read between two offsets.

From where a stream begins, to the next offset under limits, to parts that tasks read, one home for
every engine and for streams without one. Only ``follow`` waits, nothing is written but a reader's
progress, and no engine is imported.
"""

from tidelake.table.stream.follow import StreamBatch
from tidelake.table.stream.lease import StreamLease, held_snapshot
from tidelake.table.stream.limits import NO_LIMITS, ReadLimits
from tidelake.table.stream.offset import StreamOffset
from tidelake.table.stream.parts import StreamPart, StreamParts, StreamRows
from tidelake.table.stream.plan import StreamLag, StreamPlan

__all__ = [
    "NO_LIMITS",
    "ReadLimits",
    "StreamBatch",
    "StreamLag",
    "StreamLease",
    "StreamOffset",
    "StreamPart",
    "StreamParts",
    "StreamPlan",
    "StreamRows",
    "held_snapshot",
]
