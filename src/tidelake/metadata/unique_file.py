"""Files that are written once, under unique names."""

from __future__ import annotations

from tidelake.errors import AlreadyExistsError, CorruptError
from tidelake.fileio import SMALL_FILE_BYTES_MAX, FileIO

__all__ = ["resized", "whole_bytes_max", "write_unique"]

LARGE_FILE_BYTES_MAX = 1 << 30
"""The largest manifest, manifest list or index; a manifest is merged at 8 MiB."""


def whole_bytes_max(size_bytes: int | None = None) -> int:
    """The bytes to read of a file whose length other metadata gives (None if none does).

    A wrong length costs no more memory than the right one: the reader notices it after the read.
    """
    asked = LARGE_FILE_BYTES_MAX if size_bytes is None else size_bytes
    return min(max(asked, SMALL_FILE_BYTES_MAX), LARGE_FILE_BYTES_MAX)


def write_unique(fileio: FileIO, path: str, data: bytes) -> None:
    """Write a file under a unique name.

    If a storage client sends a call twice, it finds its own file; that is no error.
    """
    try:
        fileio.write_once(path, data)
    except AlreadyExistsError:
        if fileio.read_bytes(path, bytes_max=whole_bytes_max(len(data))) != data:
            raise


def resized(path: str, found: int, expected: int) -> CorruptError:
    """The error of a file whose size differs from other metadata."""
    message = (
        f"File {path} has {found} bytes but should have {expected}: it was truncated or"
        " replaced. Restore it from a backup."
    )
    return CorruptError(message, kind="file_size", path=path)
