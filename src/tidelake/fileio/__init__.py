"""Storage behind one protocol: local, in memory, cached.

The protocol defines what is atomic in each call. No layout of a table may enter.
"""

from tidelake.fileio.cached import CachedFileIO
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileIO,
    FileStatus,
    OpenDirectory,
    OutputFile,
    check_range,
    parent_of,
    put_new,
    read_one_by_one,
)
from tidelake.fileio.local import LocalFileIO
from tidelake.fileio.memory import MemoryFileIO
from tidelake.fileio.name import validate_name

__all__ = [
    "SMALL_FILE_BYTES_MAX",
    "ByteRange",
    "CachedFileIO",
    "FileIO",
    "FileStatus",
    "LocalFileIO",
    "MemoryFileIO",
    "OpenDirectory",
    "OutputFile",
    "check_range",
    "parent_of",
    "put_new",
    "read_one_by_one",
    "validate_name",
]
