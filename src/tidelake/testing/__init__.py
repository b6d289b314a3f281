"""For tests of your own pipelines: a storage that fails or is slow, a clock that you move.

``tidelake.open`` takes a storage as ``fileio=`` and the outside world as ``env=``. Nothing else of
Tidelake imports this package. No code of an engine may enter.
"""

from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env, ManualClock, SeededIds, SeededRng
from tidelake.testing.delayed import DelayedFileIO, RequestCounts
from tidelake.testing.faulty import FaultMode, FaultyFileIO, SimulatedCrash, TraceEntry

__all__ = [
    "DelayedFileIO",
    "Env",
    "FaultMode",
    "FaultyFileIO",
    "ManualClock",
    "MemoryFileIO",
    "RequestCounts",
    "SeededIds",
    "SeededRng",
    "SimulatedCrash",
    "TraceEntry",
]
