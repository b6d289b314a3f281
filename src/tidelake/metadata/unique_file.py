"""Files that are written once, under names that nobody else can have."""

from __future__ import annotations

from tidelake.errors import AlreadyExistsError, CorruptError
from tidelake.fileio import FileIO

__all__ = ["resized", "write_unique"]


def write_unique(fileio: FileIO, path: str, data: bytes) -> None:
    """Write a file under a name that nobody else can have.

    A storage client that sends a call twice finds its own file the second time; that is no error.
    """
    try:
        fileio.write_once(path, data)
    except AlreadyExistsError:
        if fileio.read_bytes(path) != data:
            raise


def resized(path: str, found: int, expected: int) -> CorruptError:
    """The error of a file that has not the size that other metadata says."""
    message = (
        f"File {path} has {found} bytes and should have {expected}: it was cut short or replaced."
        " Restore it from a backup."
    )
    return CorruptError(message, kind="file_size", path=path)
