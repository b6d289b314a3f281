"""An opened lookup file: finds the row of a key, or of many, and gives their values.

Opening checks the whole file once: its size, its header, and the checksum of its body, which also
brings its pages into memory. A file that this process has just written is not checked again.

An opened file never changes. Threads share it. It is unmapped when nobody refers to it any more.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64

from tidelake.codec.arrow_memory import fixed_values
from tidelake.lookup.column_memory import column_from, nodes_count_of
from tidelake.lookup.file_memory import FileBytes, Items, MappedBudget, map_file
from tidelake.lookup.key_form import Hashes, Image, Images
from tidelake.lookup.layout import SLOTS_BEHIND, ByteRange, LookupHeader
from tidelake.lookup.row_values import (
    CODES,
    RawOf,
    ValueOf,
    raw_reader,
    value_reader,
    value_width,
)
from tidelake.lookup.stored_columns import StoredColumns
from tidelake.telemetry import kept_property
from tidelake.types import DataField

Finder = Callable[[int, Image], int]
"""From a key's hash and image to its row; -1 where the file does not have the key."""
RowNumbers = npt.NDArray[np.int64]

HEADER_READ_BYTES = 1 << 13
CHECK_BYTES = 1 << 22
SLOTS_BITS = SLOTS_BEHIND.bit_length() - 1
FOUND_SINGLY_MAX = 24
"""Keys of a batch that are looked for one by one in the end: a step for all costs as much."""
assert SLOTS_BEHIND == 1 << SLOTS_BITS, "slots are counted by shifts"
INTEGER_BYTES_MAX = 8
_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MASK = 0xFFFFFFFF


class OpenedFile:
    """One lookup file.

    Parameters
    ----------
    identity : bytes
        What it must have been made of.
    budget : MappedBudget
        Maps it if it fits.
    is_new : bool
        Whether this process has just written it: its body is not checked then.

    Raises
    ------
    ValueError
        It is damaged, cut short or another file; says what.
    OSError
        It is not there, or cannot be read.
    """

    def __init__(
        self,
        path: Path,
        stored: StoredColumns,
        fields: tuple[DataField, ...],
        *,
        identity: bytes,
        budget: MappedBudget,
        is_new: bool = False,
    ) -> None:
        self.path = path
        self.fields = fields
        self._stored = stored
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        close = weakref.finalize(self, os.close, self._file)
        self._names = [field.name for field in fields]
        self._kinds = stored.arrow_types(fields)
        size = os.fstat(self._file).st_size
        self._header = self._read_header(size, identity)
        self._map: mmap.mmap | None = None
        self._window: Callable[[], mmap.mmap | None] = _no_window
        self._mapped_windows: tuple[npt.NDArray[np.uint64], int] | None = None
        self.map_if_fits(budget)
        if not is_new:
            self._check_body()
        if self.is_mapped:
            close()  # the map keeps a descriptor of its own

    # ---- what it is

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self._header.file_size_bytes

    @property
    def rows_count(self) -> int:
        """Rows, deleted ones too."""
        return self._header.rows_count

    @property
    def is_mapped(self) -> bool:
        """Whether it is mapped, and not read piece by piece."""
        return self._map is not None

    def map_if_fits(self, budget: MappedBudget) -> bool:
        """Map the file if it is not mapped and fits now; returns whether that changed."""
        if self._map is not None or not budget.take(self.size_bytes):
            return False
        weakref.finalize(self, budget.give, self.size_bytes)
        self._map = map_file(self._file, self.size_bytes, populated=True)
        self.__dict__.pop("find", None)  # it reads piece by piece
        return True

    def warm(self) -> None:
        """Bring the file's pages into memory."""
        for _ in self._blocks(0):
            pass

    # ---- one key

    @kept_property
    def find(self) -> Finder:
        """Finds one key."""
        slots = self._items(self._header.slots, "Q")
        homes = self._header.homes_count
        place = self._key_index
        kind = self._kinds[place]
        is_text = kind not in CODES and not self._stored.form.is_integer
        if is_text:
            ends = self._column_items(place)(1, self._offset_code)
            return _bytes_finder(slots, homes, ends, self._bytes(place))
        return _integer_finder(slots, homes, self._column_items(place)(1, self._integer_code(kind)))

    def value_of(self, name: str) -> ValueOf:
        """The function that reads a column of one row; None for a column that the file lacks."""
        if name not in self._names:
            return _no_value
        place = self._names.index(name)
        kind, node = self._kinds[place], self._header.nodes[self._node_starts[place]]
        arrow = self._large_type(kind)

        def by_arrow(row: int) -> Any:
            return self._column(place)[row].as_py()

        return value_reader(
            arrow,
            self._column_items(place),
            self._bytes(place),
            has_nulls=node.nulls_count > 0,
            wide=self._header.has_wide_offsets,
            by_arrow=by_arrow,
        )

    def raw_of(self, name: str) -> RawOf | None:
        """The function that gives the bytes of a column's value; None for nested types."""
        if name not in self._names:
            return _no_value
        place = self._names.index(name)
        kind, node = self._kinds[place], self._header.nodes[self._node_starts[place]]
        return raw_reader(
            self._large_type(kind),
            self._column_items(place),
            self._bytes(place),
            has_nulls=node.nulls_count > 0,
            wide=self._header.has_wide_offsets,
            mapped=None if self._map is None else (self._map, self._values_begin(place)),
        )

    # ---- many keys

    def find_many(self, hashes: Hashes, images: Images) -> tuple[RowNumbers, RowNumbers]:
        """Find keys.

        Parameters
        ----------
        hashes : uint64 array [n]
            Of the keys.
        images : int64 array or binary array [n]
            The keys.

        Returns
        -------
        keys : int array [m]
            Which of the keys the file has.
        rows : int64 array [m]
            Their rows.
        """
        memory = self._memory()
        windows, last_window = self._windows(memory)
        key_column = self._key_column(memory)
        homes = np.uint64(self._header.homes_count)
        at = ((hashes * homes) >> _U32).view(np.int64)
        halves = hashes.astype(np.uint32)
        pending: RowNumbers | None = None  # all of them
        found_keys: list[RowNumbers] = []
        found_rows: list[RowNumbers] = []
        while True:
            seen = windows[at]
            upper = seen.view(np.uint32)[:, 1::2]
            hit = (upper == halves[:, None]).ravel().nonzero()[0]
            slots = seen.ravel().take(hit)
            if np.count_nonzero(slots) < len(slots):  # an empty slot looks like a hash of 0
                hit, slots = hit[slots != 0], slots[slots != 0]
            if len(hit):
                key = hit >> SLOTS_BITS
                rows = (slots & _LOW).view(np.int64) - 1
                keys = key if pending is None else pending[key]
                same = _equal(key_column, rows, images, keys)
                if np.count_nonzero(same) < len(same):
                    keys, rows = keys[same], rows[same]
                found_keys.append(keys)
                found_rows.append(rows)
            # a search goes on behind a full window, unless a larger hash ends it
            more = ((seen[:, -1] != 0) & (upper[:, -1] <= halves)).nonzero()[0]
            if not len(more):
                break
            pending = more if pending is None else pending[more]
            if len(pending) <= FOUND_SINGLY_MAX and self.is_mapped:
                self._find_singly(pending, hashes, images, found_keys, found_rows)
                break
            halves = halves[more]
            at = np.minimum(at[more] + SLOTS_BEHIND, last_window)
        if len(found_keys) == 1:
            return found_keys[0], found_rows[0]
        if not found_keys:
            nothing = np.empty(0, np.int64)
            return nothing, nothing
        return np.concatenate(found_keys), np.concatenate(found_rows)

    def _find_singly(
        self,
        keys: RowNumbers,
        hashes: Hashes,
        images: Images,
        found_keys: list[RowNumbers],
        found_rows: list[RowNumbers],
    ) -> None:
        """Find a few keys that were not all seen in their windows; add what is new."""
        is_open = np.ones(len(hashes), np.bool_)
        for found in found_keys:
            is_open[found] = False
        keys = keys[is_open[keys]]
        sought = images[keys].tolist() if isinstance(images, np.ndarray) else _some(images, keys)
        rows = np.array(list(map(self.find, hashes[keys].tolist(), sought)), np.int64)
        hit = rows >= 0
        if hit.any():
            found_keys.append(keys[hit])
            found_rows.append(rows[hit])

    def _windows(self, memory: mmap.mmap) -> tuple[npt.NDArray[np.uint64], int]:
        """The slots from each on, so many as are seen at once; and where the last ones begin."""
        part = self._header.slots
        if memory is self._map and self._mapped_windows is not None:
            return self._mapped_windows
        slots = np.frombuffer(memory, np.uint64, part.size_bytes // 8, part.offset)
        last = len(slots) - SLOTS_BEHIND
        windows = np.lib.stride_tricks.as_strided(
            slots, (last + 1, SLOTS_BEHIND), (8, 8), writeable=False
        )
        if memory is self._map:
            self._mapped_windows = (windows, last)
        return windows, last

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """Give a whole column; one that the file lacks is null. Nothing is copied.

        Parameters
        ----------
        kind : pyarrow.DataType
            Its type; text and lists may come in their large forms.
        """
        if name not in self._names:
            return pa.nulls(self.rows_count, kind)
        return self._column_of(self._names.index(name), self._memory())

    def fixed(self, name: str, kind: pa.DataType) -> npt.NDArray[Any] | None:
        """A whole column as values of one width, text of one length too.

        None if some are null, or of other widths, or if the file is not mapped. Nothing is copied.
        """
        if self._map is None or name not in self._names:
            return None
        try:
            return self._fixed_columns[name]
        except KeyError:
            width = value_width(kind)
            found = None if width is None else _fixed(self.column(name, kind), width)
            self._fixed_columns[name] = found
            return found

    @kept_property
    def _fixed_columns(self) -> dict[str, npt.NDArray[Any] | None]:
        return {}

    # ---- the file's memory

    def _read_header(self, size_bytes: int, identity: bytes) -> LookupHeader:
        data = os.pread(self._file, HEADER_READ_BYTES, 0)
        needed = min(LookupHeader.needed_bytes(data), size_bytes)
        if len(data) < needed:
            data = os.pread(self._file, needed, 0)
        header = LookupHeader.decode(data, identity=identity)
        if header.file_size_bytes != size_bytes:
            message = f"it has {size_bytes} bytes and should have {header.file_size_bytes}"
            raise ValueError(message)
        return header

    def _check_body(self) -> None:
        checksum, header = xxh3_64(), self._header
        begin = LookupHeader.size_bytes(len(header.nodes), len(header.buffers), header.identity)
        for block in self._blocks(begin):
            checksum.update(block)
        if checksum.intdigest() != self._header.body_checksum:
            raise ValueError("the checksum of its content differs")

    def _blocks(self, begin: int) -> Iterator[bytes | memoryview]:
        whole = None if self._map is None else memoryview(self._map)
        for at in range(begin, self.size_bytes, CHECK_BYTES):
            if whole is not None:
                yield whole[at : at + CHECK_BYTES]
                continue
            yield os.pread(self._file, min(CHECK_BYTES, self.size_bytes - at), at)

    def _memory(self) -> mmap.mmap:
        """The file mapped: as it is, or for as long as the answer refers to it."""
        if self._map is not None:
            return self._map
        window = self._window()
        if window is None:
            window = map_file(self._file, self.size_bytes)
            self._window = weakref.ref(window)
        return window

    def _items(self, part: ByteRange, code: str) -> Items:
        if self._map is None:
            return FileBytes(self._file, part.offset, code)
        view = memoryview(self._map)[part.offset : part.offset + part.size_bytes]
        return view.cast(code)  # type: ignore[call-overload]

    @kept_property
    def _node_starts(self) -> list[int]:
        counts = [nodes_count_of(kind) for kind in self._kinds]
        return [sum(counts[:place]) for place in range(len(counts))]

    @kept_property
    def _buffer_starts(self) -> list[int]:
        counts = [_buffers_count_of(kind) for kind in self._kinds]
        return [sum(counts[:place]) for place in range(len(counts))]

    @kept_property
    def _key_index(self) -> int:
        if self._stored.has_images:
            return len(self.fields)
        return self._names.index(self._stored.key_columns[0])

    @property
    def _offset_code(self) -> str:
        return "q" if self._header.has_wide_offsets else "i"

    @staticmethod
    def _integer_code(kind: pa.DataType) -> str:
        return CODES.get(kind) or ("i" if kind.bit_width == 32 else "q")

    def _large_type(self, kind: pa.DataType) -> pa.DataType:
        if self._header.has_wide_offsets:
            if pa.types.is_string(kind):
                return pa.large_string()
            if pa.types.is_binary(kind):
                return pa.large_binary()
        return kind

    def _column_items(self, place: int) -> Callable[[int, str], Items]:
        first = self._buffer_starts[place]

        def items(number: int, code: str) -> Items:
            return self._items(self._header.buffers[first + number], code)

        return items

    def _values_begin(self, place: int) -> int:
        """Where a column's values, or its text, begin; 0 of nested types."""
        number = 2 if _has_bytes(self._kinds[place]) else 1
        if value_width(self._kinds[place]) is None:
            return 0
        return self._header.buffers[self._buffer_starts[place] + number].offset

    def _bytes(self, place: int) -> Callable[[int, int], bytes]:
        mapped, file, base = self._map, self._file, self._values_begin(place)
        if mapped is None:
            return lambda begin, end: os.pread(file, end - begin, base + begin)
        return lambda begin, end: mapped[base + begin : base + end]

    def _column(self, place: int) -> pa.Array:
        if self._map is None:
            return self._column_of(place, self._memory())
        return self._mapped_columns.setdefault(place, self._column_of(place, self._map))

    @kept_property
    def _mapped_columns(self) -> dict[int, pa.Array]:
        return {}

    def _column_of(self, place: int, memory: mmap.mmap) -> pa.Array:
        made = self._mapped_columns.get(place) if memory is self._map else None
        if made is not None:
            return made
        whole = pa.py_buffer(memory)
        kind = self._kinds[place]
        first = self._buffer_starts[place]
        parts = self._header.buffers[first : first + _buffers_count_of(kind)]
        nodes = iter(self._header.nodes[self._node_starts[place] :])
        buffers = (whole.slice(p.offset, p.size_bytes) if p.size_bytes else None for p in parts)
        made = column_from(kind, nodes, buffers, wide=self._header.has_wide_offsets)
        if memory is self._map:
            self._mapped_columns[place] = made
        return made

    def _key_column(self, memory: mmap.mmap) -> npt.NDArray[Any] | pa.Array:
        column = self._column_of(self._key_index, memory)
        if not self._stored.form.is_integer:
            large = pa.large_binary() if self._header.has_wide_offsets else pa.binary()
            return column.cast(large)
        return fixed_values(column, f"i{column.type.bit_width // 8}")


def _no_window() -> None:
    return None


def _no_value(_: int) -> None:
    return None


def _has_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _buffers_count_of(kind: pa.DataType) -> int:
    own = 1
    if _has_bytes(kind):
        own = 3
    elif not pa.types.is_struct(kind):
        own = 2
    children = []
    if pa.types.is_map(kind):
        children = [kind.key_type, kind.item_type]
    elif pa.types.is_list(kind):
        children = [kind.value_type]
    elif pa.types.is_struct(kind):
        children = [field.type for field in kind]
    return own + sum(map(_buffers_count_of, children))


def _equal(
    column: npt.NDArray[Any] | pa.Array, rows: RowNumbers, images: Images, keys: RowNumbers
) -> npt.NDArray[np.bool_]:
    """Whether rows of a file have these keys."""
    if isinstance(column, np.ndarray):
        same: npt.NDArray[np.bool_] = column[rows] == images[keys]
        return same
    stored = pc.take(column, pa.array(rows), boundscheck=False)
    sought = pc.take(images, pa.array(keys), boundscheck=False)
    return pc.equal(stored, sought.cast(stored.type)).to_numpy(zero_copy_only=False)


def _some(images: pa.Array, keys: RowNumbers) -> list[bytes]:
    found: list[bytes] = pc.take(images, pa.array(keys), boundscheck=False).to_pylist()
    return found


def _fixed(column: pa.Array, width: int) -> npt.NDArray[Any] | None:
    """The values of a column as items of so many bytes; of text (0) if all have as many."""
    if column.null_count or pa.types.is_boolean(column.type) or not len(column):
        return None
    if width:
        dtype = np.dtype(f"u{width}" if width <= INTEGER_BYTES_MAX else f"V{width}")
        return np.frombuffer(column.buffers()[1], dtype, len(column))
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(column.buffers()[1], "i8" if is_large else "i4", len(column) + 1)
    width = int(offsets[1] - offsets[0])
    if width <= 0 or int(offsets[-1] - offsets[0]) != width * len(column):
        return None
    # most columns of varying lengths show it in their first rows
    if any((np.diff(part) != width).any() for part in (offsets[:64], offsets)):
        return None
    return np.frombuffer(column.buffers()[2], f"V{width}", len(column), int(offsets[0]))


def _integer_finder(slots: Items, homes: int, numbers: Items) -> Finder:
    def find(hashed: int, number: Any) -> int:
        low = hashed << 32 | 1
        place = hashed * homes >> 32
        slot = slots[place]
        while slot < low:
            if not slot:
                return -1
            place += 1
            slot = slots[place]
        high = low | _MASK
        while slot <= high:
            if not slot:
                return -1
            row: int = (slot & _MASK) - 1
            if numbers[row] == number:
                return row
            place += 1
            slot = slots[place]
        return -1

    return find


def _bytes_finder(
    slots: Items, homes: int, ends: Items, image_at: Callable[[int, int], bytes]
) -> Finder:
    def find(hashed: int, image: Any) -> int:
        low = hashed << 32 | 1
        place = hashed * homes >> 32
        slot = slots[place]
        while slot < low:
            if not slot:
                return -1
            place += 1
            slot = slots[place]
        high = low | _MASK
        while slot <= high:
            if not slot:
                return -1
            row: int = (slot & _MASK) - 1
            if image_at(ends[row], ends[row + 1]) == image:
                return row
            place += 1
            slot = slots[place]
        return -1

    return find
