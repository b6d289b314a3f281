"""Messages of pgoutput in the order of the log, as arrays: :class:`LogMessages`.

Each message arrives in a frame of the replication protocol::

    1  'w'
    8  LSN, 8 LSN, 8 microseconds since 2000: not needed
    .. the message: one byte for its kind, then its body

Frames are joined to one run of bytes, and the places of the messages' first bytes are kept. So a
number that all messages of a kind have is read for all of them at once. Every message knows its
transaction, and how many changes of it are before it or are it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FRAME_BYTES = 25
"""Of a frame before its message."""
PADDING = b"\0" * 16
"""Lets a number be read for rows that do not have it."""
EPOCH_MS = 946_684_800_000
"""PostgreSQL counts from 2000-01-01."""
BEGIN, COMMIT, RELATION, SIGNAL = ord("B"), ord("C"), ord("R"), ord("M")
INSERT, UPDATE, DELETE, TRUNCATE = ord("I"), ord("U"), ord("D"), ord("T")
_IS_CHANGE = np.zeros(256, bool)
_IS_CHANGE[[INSERT, UPDATE, DELETE, TRUNCATE, SIGNAL]] = True
IS_ROW = np.zeros(256, bool)
IS_ROW[[INSERT, UPDATE, DELETE]] = True


def big_endian(data: NDArray[np.uint8], at: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Read one number of `width` bytes at each place."""
    numbers = np.zeros(len(at), np.int64)
    for i in range(width):
        numbers = (numbers << 8) | data[at + i]
    return numbers


class Frames:
    """Frames that follow one another, with their bytes in one place.

    Five times as fast as a list of them: the memory of each is used again for the next.

    Attributes
    ----------
    data : bytearray
        All bytes.
    lengths : list of int
        Of each frame.
    """

    __slots__ = ("data", "lengths")

    def __init__(self, frames: Iterable[bytes] = ()) -> None:
        self.data = bytearray()
        self.lengths: list[int] = []
        for frame in frames:
            self.data += frame
            self.lengths.append(len(frame))


@dataclass(frozen=True, slots=True)
class Transaction:
    """Where a reader of the log stands.

    Parameters
    ----------
    lsn : int
        Where the transaction's commit record begins.
    index : int
        Changes of it so far.
    committed_ms : int
        Since 1970, UTC.
    is_open : bool
        Whether its end has not come yet.
    """

    lsn: int = 0
    index: int = 0
    committed_ms: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class LogMessages:
    """Some messages that follow one another.

    Parameters
    ----------
    data : numpy.ndarray
        uint8: frames, and :data:`PADDING`.
    starts, ends : numpy.ndarray
        int64, ``[n]``: places of each message in `data`.
    kinds : numpy.ndarray
        uint8, ``[n]``: the first byte of each.
    lsn : numpy.ndarray
        int64, ``[n]``: where the commit record of its transaction begins.
    index : numpy.ndarray
        int64, ``[n]``: number of the change within the transaction, from 1; of a message that is
        no change that of the one before.
    committed_ms : numpy.ndarray
        int64, ``[n]``: when its transaction committed.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    index: NDArray[np.int64]
    committed_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def size_bytes(self) -> int:
        """Of the frames."""
        return int(self.ends[-1] - self.starts[0]) if len(self) else 0

    @property
    def is_change(self) -> NDArray[np.bool_]:
        """Whether each message is one that :attr:`index` counts."""
        return _IS_CHANGE[self.kinds]

    def message(self, place: int) -> bytes:
        """The bytes of one."""
        return self.data[self.starts[place] : self.ends[place]].tobytes()

    def part(self, start: int, end: int) -> LogMessages:
        """Some of them, with their bytes only."""
        if start >= end:
            return NO_MESSAGES
        first, last = self.starts[start], self.ends[end - 1]
        data = np.append(self.data[first:last], np.zeros(len(PADDING), np.uint8))
        chosen = slice(start, end)
        return LogMessages(
            data,
            self.starts[chosen] - first,
            self.ends[chosen] - first,
            self.kinds[chosen],
            self.lsn[chosen],
            self.index[chosen],
            self.committed_ms[chosen],
        )

    @classmethod
    def join(cls, parts: Sequence[LogMessages]) -> LogMessages:
        """All of several, one after the other."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return NO_MESSAGES
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
        return cls(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.starts + by for part, by in zip(parts, shifts, strict=True)]),
            np.concatenate([part.ends + by for part, by in zip(parts, shifts, strict=True)]),
            np.concatenate([part.kinds for part in parts]),
            np.concatenate([part.lsn for part in parts]),
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.committed_ms for part in parts]),
        )


def _none() -> LogMessages:
    numbers, data = np.zeros(0, np.int64), np.frombuffer(PADDING, np.uint8)
    return LogMessages(data, numbers, numbers, np.zeros(0, np.uint8), numbers, numbers, numbers)


NO_MESSAGES = _none()


def scan(frames: Frames, before: Transaction) -> tuple[LogMessages, Transaction]:
    """Find transactions in frames that follow one another.

    Parameters
    ----------
    before : Transaction
        Where the frame before left the reader.
    """
    if not frames.lengths:
        return NO_MESSAGES, before
    lengths = np.array(frames.lengths, np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths + FRAME_BYTES
    data = np.frombuffer(frames.data + PADDING, np.uint8)
    kinds = data[starts]
    begins = np.flatnonzero(kinds == BEGIN)
    at = starts[begins]
    turn = np.cumsum(kinds == BEGIN)  # 0 belongs to the transaction before
    lsn = np.append(before.lsn, big_endian(data, at + 1, 8))[turn]
    micros = big_endian(data, at + 9, 8)
    committed_ms = np.append(before.committed_ms, micros // 1000 + EPOCH_MS)[turn]
    counted = np.cumsum(_IS_CHANGE[kinds])
    index = counted - np.append(-before.index, counted[begins])[turn]
    is_open = bool(turn[-1]) or before.is_open
    commits = np.flatnonzero(kinds == COMMIT)
    if len(commits):
        is_open = bool(len(begins)) and bool(begins[-1] > commits[-1])
    messages = LogMessages(data, starts, ends, kinds, lsn, index, committed_ms)
    after = Transaction(int(lsn[-1]), int(index[-1]), int(committed_ms[-1]), is_open)
    return messages, after


_COMMIT = struct.Struct(">BQQq")


def commit_end(message: bytes) -> int:
    """The LSN after a transaction, from its COMMIT."""
    return int(_COMMIT.unpack_from(message, 1)[2])


def truncated_oids(message: bytes) -> tuple[int, ...]:
    """The tables of a TRUNCATE."""
    count, _ = struct.unpack_from(">IB", message, 1)
    return struct.unpack_from(f">{count}I", message, 6)


def signal_parts(message: bytes) -> tuple[bool, str, bytes]:
    """Read what ``pg_logical_emit_message`` wrote: whether in a transaction, prefix, content."""
    end = message.index(0, 10)
    (length,) = struct.unpack_from(">I", message, end + 1)
    return bool(message[1] & 1), message[10:end].decode(), message[end + 5 : end + 5 + length]
