"""A table read as a stream: offsets, limits, and the rows between two offsets.

This room finds where a stream begins, finds the next offset under limits, and plans the parts that
tasks read. Spark and the reader without an engine both use it. Only ``follow`` waits. A stream
writes nothing but a reader's progress. No engine is imported.
"""

from tidelake.table.stream.follow import StreamBatch
from tidelake.table.stream.lag import StreamLag
from tidelake.table.stream.lease import StreamLease, held_snapshot
from tidelake.table.stream.limits import NO_LIMITS, ReadLimits
from tidelake.table.stream.offset import StreamOffset
from tidelake.table.stream.parts import StreamPart, StreamParts, StreamRows
from tidelake.table.stream.plan import StreamPlan

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
