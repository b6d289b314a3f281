"""Gives a file a second name: by a hard link, by the storage's own copy, or through this process.

1. On one storage :meth:`FileIO.copy_within` is asked: a link on a file system, a copy by the store.
2. Else the bytes are read and written, :data:`COPY_BLOCK_BYTES` at a time.

The new name is the caller's alone. A file of the right length that is there already is an earlier
attempt's, and done; any other is what a killed attempt left, and written again.
"""

from __future__ import annotations

from tidelake.errors import AlreadyExistsError, CorruptError
from tidelake.fileio.file_io import FileIO

COPY_BLOCK_BYTES = 8 << 20
"""Bytes of a file in memory while it is copied."""


def copy_file(
    source: FileIO, source_path: str, target: FileIO, target_path: str, *, size_bytes: int
) -> bool:
    """Copy a file that never changes.

    Parameters
    ----------
    size_bytes : int
        The source's length.

    Returns
    -------
    bool
        Whether no byte passed through this process.

    Raises
    ------
    CorruptError
        The source has another length.
    NotFoundError
        The source is missing.

    Examples
    --------
    >>> from tidelake.fileio import MemoryFileIO
    >>> here, there = MemoryFileIO(), MemoryFileIO()
    >>> here.write_once("/a", b"123")
    >>> copy_file(here, "/a", here, "/b", size_bytes=3)
    True
    >>> copy_file(here, "/a", there, "/b", size_bytes=3), there.read_bytes("/b")
    (False, b'123')
    """
    is_one = source.storage_id == target.storage_id
    try:
        if is_one and source.copy_within(source_path, target_path):
            return True
        _stream(source, source_path, target, target_path, size_bytes)
    except AlreadyExistsError:
        if target.size(target_path) != size_bytes:
            target.delete(target_path)
            _stream(source, source_path, target, target_path, size_bytes)
    return False


def _stream(
    source: FileIO, source_path: str, target: FileIO, target_path: str, size_bytes: int
) -> None:
    with source.open_input(source_path) as read:
        found = read.size()
        if found != size_bytes:
            message = (
                f"File {source_path} has {found} bytes, where {size_bytes} were listed: it is"
                " being written, or damaged."
            )
            raise CorruptError(message, kind="file_length", path=source_path)
        output = target.open_output(target_path)
        try:
            while block := read.read(COPY_BLOCK_BYTES):
                output.write(block)
            output.close()
        except BaseException:
            output.abort()
            raise
