"""The bytes of a lookup file.

A lookup file is private to the machine and the version that made it: nobody else reads it, and a
file of another version is built again. Numbers are little-endian. Layout (a change needs a new
version)::

    header
      0   magic         8 bytes   "tidelook"
      8   version       u32       1
      12  flags         u32       bit 0: offsets have 64 bits
      16  file size     u64       bytes of the whole file
      24  rows          u64       n, those of the data file, deleted ones too
      32  homes         u64       the home slot of hash h is (h * homes) >> 32
      40  slots at      u64       where the slots begin
      48  slots         u64       their number
      56  body checksum u64       XXH3 of all bytes behind the header
      64  nodes         u32       number of nodes
      68  buffers       u32       number of buffers
      72  identity      u32       bytes of the identity
      76  zero          u32
      80  node table    nodes x (rows u64, nulls u64)
          buffer table  buffers x (where it begins u64, bytes u64)
          identity      bytes     what the file was made of
          checksum      u64       XXH3 of the header before it
    body, each part at a multiple of 64
      slots             u64 each  hash << 32 | row + 1, or 0; hashes rise
      buffers           Arrow's memory of the columns, depth first

A node is a column or a child of one, depth first: list: its elements; map: keys, then values;
struct: its fields. The buffers of a node are validity (no bytes if nothing is null), then its
values, or its offsets and bytes, or its offsets alone.

The slots are an open hash table without a wrap: a key's slot is its home or the next free one
behind it. Because they are filled in the order of the hashes, a search ends at an empty slot or at
a larger hash. At least :data:`SLOTS_BEHIND` empty slots end the table, so a search of that many at
once stays inside.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from tidelake.lookup.key_form import Hashes

MAGIC = b"tidelook"
VERSION = 1
ALIGNMENT = 64
SLOTS_BEHIND = 4
HOMES_PER_ROW = 2
HOMES_MIN = 8
ROWS_MAX = (1 << 31) - 1

_FIXED = struct.Struct("<8sIIQQQQQQIIII")
_PAIR = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<Q")
_WIDE = 1


def aligned(position: int) -> int:
    """Round up to the next part's place."""
    return -(-position // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Node:
    """A column, or a child of one."""

    rows_count: int
    nulls_count: int


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A stretch of the file."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LookupHeader:
    """The header of a lookup file.

    Parameters
    ----------
    has_wide_offsets : bool
        Whether offsets have 64 bits.
    nodes, buffers : tuple
        Depth first.
    body_checksum : int
        XXH3 of the body.
    """

    rows_count: int
    homes_count: int
    slots: ByteRange
    has_wide_offsets: bool
    nodes: tuple[Node, ...]
    buffers: tuple[ByteRange, ...]
    identity: bytes
    file_size_bytes: int
    body_checksum: int

    @staticmethod
    def size_bytes(nodes_count: int, buffers_count: int, identity: bytes) -> int:
        """Bytes of a header."""
        tables = _PAIR.size * (nodes_count + buffers_count)
        return _FIXED.size + tables + len(identity) + _CHECKSUM.size

    def encode(self) -> bytes:
        """The header's bytes."""
        fixed = _FIXED.pack(
            MAGIC,
            VERSION,
            _WIDE if self.has_wide_offsets else 0,
            self.file_size_bytes,
            self.rows_count,
            self.homes_count,
            self.slots.offset,
            self.slots.size_bytes // 8,
            self.body_checksum,
            len(self.nodes),
            len(self.buffers),
            len(self.identity),
            0,
        )
        tables = [_PAIR.pack(node.rows_count, node.nulls_count) for node in self.nodes]
        tables += [_PAIR.pack(part.offset, part.size_bytes) for part in self.buffers]
        head = b"".join([fixed, *tables, self.identity])
        return head + _CHECKSUM.pack(xxh3_64_intdigest(head))

    @staticmethod
    def needed_bytes(data: bytes) -> int:
        """Bytes of the header that these bytes begin; of something else any number."""
        if len(data) < _FIXED.size:
            return _FIXED.size
        nodes, buffers, identity = _FIXED.unpack_from(data)[-4:-1]
        end: int = _FIXED.size + _PAIR.size * (nodes + buffers) + identity + _CHECKSUM.size
        return end

    @classmethod
    def decode(cls, data: bytes | memoryview, *, identity: bytes) -> LookupHeader:
        """Read a header.

        Parameters
        ----------
        data : bytes
            The file, or at least as much as the header has.
        identity : bytes
            What the file must have been made of.

        Raises
        ------
        ValueError
            It is damaged, cut short, of another version or of something else; says what.
        """
        if len(data) < _FIXED.size:
            raise ValueError("it ends inside the header")
        (
            magic,
            version,
            flags,
            size,
            rows,
            homes,
            slots_at,
            slots,
            checksum,
            nodes,
            buffers,
            own,
            _,
        ) = _FIXED.unpack_from(data)
        if magic != MAGIC or version != VERSION:
            raise ValueError(f"it has version {version} of {magic!r}")
        end = _FIXED.size + _PAIR.size * (nodes + buffers) + own
        if len(data) < end + _CHECKSUM.size:
            raise ValueError("it ends inside the header")
        if _CHECKSUM.unpack_from(data, end)[0] != xxh3_64_intdigest(bytes(data[:end])):
            raise ValueError("the checksum of its header differs")
        pairs = [
            _PAIR.unpack_from(data, _FIXED.size + _PAIR.size * place)
            for place in range(nodes + buffers)
        ]
        if bytes(data[end - own : end]) != identity:
            raise ValueError("it was made of something else")
        return cls(
            rows_count=rows,
            homes_count=homes,
            slots=ByteRange(slots_at, slots * 8),
            has_wide_offsets=bool(flags & _WIDE),
            nodes=tuple(Node(*pair) for pair in pairs[:nodes]),
            buffers=tuple(ByteRange(*pair) for pair in pairs[nodes:]),
            identity=identity,
            file_size_bytes=size,
            body_checksum=checksum,
        )


def slots_of(hashes: Hashes) -> tuple[npt.NDArray[np.uint64], int]:
    """Make the hash table of some rows.

    Parameters
    ----------
    hashes : uint64 array [n]
        The hash of each row.

    Returns
    -------
    slots : uint64 array
        The table.
    homes_count : int
        Its home slots.

    Examples
    --------
    >>> slots, homes = slots_of(np.array([5 << 29, 1 << 29, 5 << 29], np.uint64))
    >>> homes, [int(slot) & 0xFFFFFFFF for slot in slots[:8]]
    (8, [0, 2, 0, 0, 0, 1, 3, 0])
    """
    count = len(hashes)
    assert count <= ROWS_MAX, "a data file with more rows than a slot can name"
    homes_count = max(HOMES_MIN, HOMES_PER_ROW * count)
    filled = hashes << np.uint64(32)
    filled |= np.arange(1, count + 1, dtype=np.uint64)
    filled.sort()
    homes = ((filled >> np.uint64(32)) * np.uint64(homes_count)) >> np.uint64(32)
    # the place of a row is its home, or the one behind the row before it: a running maximum
    places = homes.astype(np.int64)
    places -= np.arange(count)
    np.maximum.accumulate(places, out=places)
    places += np.arange(count)
    last = int(places[-1]) if count else 0
    slots = np.zeros(max(homes_count, last + 1) + SLOTS_BEHIND, np.uint64)
    slots[places] = filled
    return slots, homes_count
