"""Reads big-endian numbers and ranges from an index's bytes, never beyond their end."""

from __future__ import annotations

from tidelake.errors import CorruptError


class ByteSource:
    """Reads bytes in order, or at a position."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        """Read the next bytes."""
        if not 0 <= size <= len(self.data) - self.at or self.at < 0:
            message = f"it needs {size} bytes at {self.at} but has {len(self.data)}"
            raise damaged(message)
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, width: int = 4) -> int:
        """Read the next signed number."""
        return int.from_bytes(self.take(width), "big", signed=True)

    def count(self, item_size: int = 1) -> int:
        """Read a count of items, which must fit into the bytes behind it."""
        number = self.integer()
        if not 0 <= number * item_size <= len(self.data) - self.at:
            message = f"it claims {number} items, more than its bytes can hold"
            raise damaged(message)
        return number

    def truth(self) -> bool:
        """Read the next byte, which must be 0 or 1."""
        byte = self.take(1)[0]
        if byte > 1:
            message = f"it has {byte} instead of 0 or 1"
            raise damaged(message)
        return byte == 1


def damaged(reason: str) -> CorruptError:
    """Make the error for a damaged index."""
    message = f"A file index is damaged: {reason}."
    return CorruptError(message, kind="file_index")
