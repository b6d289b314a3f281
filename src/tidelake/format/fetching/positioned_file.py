"""The part of a Python file that pyarrow calls beside ``read``: where it is, and how long."""

from __future__ import annotations

import io

__all__ = ["PositionedFile"]


class PositionedFile(io.RawIOBase):
    """A file for random access; how bytes are read is left to its subclass.

    Parameters
    ----------
    size_bytes : int
        Its length.
    """

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
        """Move the position; also behind the end, where nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = base[whence] + offset
        return self._at
