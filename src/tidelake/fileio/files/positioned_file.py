"""The Python file that pyarrow reads: where it is, how long, and the bytes there."""

from __future__ import annotations

import io

import pyarrow as pa


class PositionedFile(io.RawIOBase):
    """A file for random access; how a range is read is left to its subclass."""

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._at = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it has a position."""
        return True

    def size(self) -> int:
        """Its length in bytes."""
        return self._size

    def tell(self) -> int:
        """Its position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; also behind the end, where nothing is read, but not before 0."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, base[whence] + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes | pa.Buffer:
        """Read from the position; all that is left by default."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        data = self.read_at(self._at, wanted)
        self._at += len(data)
        return data

    def read_at(self, offset: int, length: int) -> bytes | pa.Buffer:
        """Read a range that is within the file."""
        raise NotImplementedError
