"""A part of a file, opened as if it were the whole file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelake.fileio import ByteRange, FileIO
from tidelake.fileio.files import PositionedFile
from tidelake.format.compacted.names import FileSlice
from tidelake.format.read_error import corrupt


def open_slice(fileio: FileIO, part: FileSlice) -> pa.NativeFile:
    """Open the part for random access; the file is closed with it.

    Raises
    ------
    NotFoundError
        The file is missing.
    CorruptError
        The file ends before the part does.
    """
    source = fileio.open_input(part.path)
    end, size = part.offset_bytes + part.length_bytes, source.size()
    if end > size:
        source.close()
        raise corrupt(part.path, f"it is {size} bytes long and a part of it ends at byte {end}")
    return pa.PythonFile(_Slice(source, part), mode="r")


def ranges_within(part: FileSlice, ranges: Sequence[ByteRange]) -> list[ByteRange]:
    """Move ranges of the part to where they are in the file.

    Raises
    ------
    CorruptError
        One of them ends after the part: it would give bytes of another one.
    """
    for start, length in ranges:
        if start + length > part.length_bytes:
            reason = f"a part of {part.length_bytes} bytes is read to byte {start + length}"
            raise corrupt(part.path, reason)
    return [(part.offset_bytes + start, length) for start, length in ranges]


class _Slice(PositionedFile):
    """The part as pyarrow reads it."""

    def __init__(self, source: pa.NativeFile, part: FileSlice) -> None:
        super().__init__(part.length_bytes)
        self._source = source
        self._part = part

    def read_at(self, offset: int, length: int) -> bytes:
        self._source.seek(self._part.offset_bytes + offset)
        return bytes(self._source.read(length))

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
