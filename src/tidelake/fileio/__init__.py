"""Storage behind one protocol: local, in memory, and with planned faults; the check of names.

The protocol defines what is atomic in each call. No layout of a table may enter.
"""

from tidelake.fileio.faulty import FaultMode, FaultyFileIO, SimulatedCrash, TraceEntry
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    FileIO,
    FileStatus,
    OpenDirectory,
    OutputFile,
    parent_of,
)
from tidelake.fileio.local import LocalFileIO
from tidelake.fileio.memory import MemoryFileIO
from tidelake.fileio.name import validate_name

__all__ = [
    "SMALL_FILE_BYTES_MAX",
    "FaultMode",
    "FaultyFileIO",
    "FileIO",
    "FileStatus",
    "LocalFileIO",
    "MemoryFileIO",
    "OpenDirectory",
    "OutputFile",
    "SimulatedCrash",
    "TraceEntry",
    "parent_of",
    "validate_name",
]
