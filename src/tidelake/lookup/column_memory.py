"""Columns as Arrow lays them out in memory: taken apart batch by batch, put together from a file.

1. Each batch's column is split into its nodes (:mod:`tidelake.lookup.layout`), and the bytes of
   each node go to its spools. Validity and booleans are a byte per row there, offsets are 64-bit
   numbers.
2. The spools share a budget of memory. When it is used up all of them move to unlinked temporary
   files.
3. At the end each spool is written in its final form: bits, and offsets of 32 bits where they fit.

Memory: the budget, and a block of one spool.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import fixed_values, valid_rows
from tidelake.lookup.layout import Node
from tidelake.types.nested import is_list_like, list_parts, struct_children

BLOCK_ITEMS = 1 << 20
"""Items of a spool that are converted at a time; a multiple of 8."""

NOTHING = pa.py_buffer(b"")

Bytes = npt.NDArray[np.uint8]
BufferOf = Callable[[], pa.Buffer | None]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def children_of(kind: pa.DataType) -> list[pa.DataType]:
    """The types of a node's children."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if is_list_like(kind):
        return [kind.value_type]
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    return []


def nodes_count_of(kind: pa.DataType) -> int:
    """Nodes of a column."""
    return 1 + sum(map(nodes_count_of, children_of(kind)))


class SpoolBudget:
    """The memory that the spools of one file share.

    Parameters
    ----------
    bytes_max : int
        Bytes that they hold before they go to disk.
    """

    def __init__(self, bytes_max: int, directory: str) -> None:
        self._bytes_max = bytes_max
        self._directory = directory
        self._spools: list[Spool] = []
        self._held_bytes = 0

    def add(self, spool: Spool) -> None:
        """Count a spool's bytes from now on."""
        self._spools.append(spool)

    def hold(self, size_bytes: int) -> None:
        """Count more bytes; past the budget all spools go to disk."""
        self._held_bytes += size_bytes
        if self._held_bytes > self._bytes_max:
            for spool in self._spools:
                spool.spill(self._directory)
            self._held_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all spools."""
        return sum(spool.size_bytes for spool in self._spools)

    def close(self) -> None:
        """Release all."""
        for spool in self._spools:
            spool.close()


class Spool:
    """Bytes of one buffer, in order."""

    def __init__(self, budget: SpoolBudget) -> None:
        self._budget = budget
        self._pieces: list[Bytes] = []
        self._file: IO[bytes] | None = None
        self.size_bytes = 0
        """All bytes so far."""
        budget.add(self)

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values; they must not change afterwards."""
        if not values.nbytes:
            return
        piece = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self._pieces.append(piece)
        self.size_bytes += len(piece)
        self._budget.hold(len(piece))

    def spill(self, directory: str) -> None:
        """Move what is held to disk."""
        if not self._pieces:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by close()
        for piece in self._pieces:
            self._file.write(piece.data)
        self._pieces = []

    def blocks(self, item_bytes: int) -> Iterator[Bytes]:
        """All bytes, in blocks of whole items; each but the last has :data:`BLOCK_ITEMS`."""
        rest = np.empty(0, np.uint8)
        size = BLOCK_ITEMS * item_bytes
        for piece in self._all():
            rest = np.concatenate([rest, piece]) if len(rest) else piece
            while len(rest) >= size:
                yield rest[:size]
                rest = rest[size:]
        if len(rest):
            yield rest

    def pieces(self) -> Iterator[Bytes]:
        """All bytes, in pieces of any length."""
        yield from self._all()

    def _all(self) -> Iterator[Bytes]:
        if self._file is not None:
            self._file.seek(0)
            while data := self._file.read(BLOCK_ITEMS * 8):
                yield np.frombuffer(data, np.uint8)
        yield from self._pieces

    def close(self) -> None:
        """Release all."""
        self._pieces = []
        if self._file is not None:
            self._file.close()


class _Written:
    """A buffer in its final form."""

    def __init__(self, size_bytes: int, blocks: Callable[[], Iterator[Bytes]]) -> None:
        self.size_bytes = size_bytes
        self.blocks = blocks


class ColumnSpool:
    """The memory of one column, or of a child of one, that grows batch by batch."""

    def __init__(self, kind: pa.DataType, budget: SpoolBudget) -> None:
        self._kind = kind
        self._budget = budget
        self._rows_count = self._nulls_count = 0
        self._validity: Spool | None = None
        self._is_bytes, self._is_list = _is_bytes(kind), is_list_like(kind) or pa.types.is_map(kind)
        self._values = None if self._is_list or pa.types.is_struct(kind) else Spool(budget)
        self._offsets = Spool(budget) if self._is_bytes or self._is_list else None
        self._end = 0
        self._children = [ColumnSpool(child, budget) for child in children_of(kind)]
        if self._offsets is not None:
            self._offsets.append(np.zeros(1, np.int64))

    def append(self, array: pa.Array) -> None:
        """Add the rows of a batch."""
        self._add_validity(array)
        self._rows_count += len(array)
        if self._is_bytes:
            self._add_bytes(array)
        elif self._is_list:
            parts = list_parts(array)
            self._add_offsets(parts.offsets.to_numpy().astype(np.int64))
            for child, values in zip(self._children, parts.children, strict=True):
                child.append(values)
        elif self._values is None:
            for child, values in zip(self._children, struct_children(array), strict=True):
                child.append(values)
        elif pa.types.is_boolean(self._kind):
            self._values.append(fixed_values(array, np.uint8))
        else:
            width = self._kind.bit_width // 8
            self._values.append(fixed_values(array, np.uint8, per_row=width))

    @property
    def needs_wide_offsets(self) -> bool:
        """Whether some offset does not fit 32 bits."""
        own = self._end > np.iinfo(np.int32).max
        return own or any(child.needs_wide_offsets for child in self._children)

    def nodes(self) -> Iterator[Node]:
        """The node and its children's, depth first."""
        yield Node(self._rows_count, self._nulls_count)
        for child in self._children:
            yield from child.nodes()

    def buffers(self, *, wide: bool) -> Iterator[_Written]:
        """The buffers of the node and its children, depth first."""
        yield _bits(self._validity, self._rows_count)
        if self._offsets is not None:
            yield _offsets(self._offsets, wide=wide)
        if self._values is not None:
            values = self._values
            if pa.types.is_boolean(self._kind):
                yield _bits(values, self._rows_count)
            else:
                yield _Written(values.size_bytes, values.pieces)
        for child in self._children:
            yield from child.buffers(wide=wide)

    def _add_validity(self, array: pa.Array) -> None:
        valid = valid_rows(array)
        if valid is not None and self._validity is None:
            self._validity = Spool(self._budget)
            self._validity.append(np.ones(self._rows_count, np.uint8))
        if self._validity is not None:
            self._validity.append(np.ones(len(array), np.uint8) if valid is None else valid)
        self._nulls_count += array.null_count

    def _add_bytes(self, array: pa.Array) -> None:
        assert self._values is not None
        is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        dtype = np.dtype(np.int64 if is_large else np.int32)
        _, offsets_memory, memory = array.buffers()
        if not len(array):
            return
        at = array.offset * dtype.itemsize
        given = np.frombuffer(offsets_memory, dtype, len(array) + 1, at).astype(np.int64)
        begin, end = int(given[0]), int(given[-1])
        if end > begin:
            self._values.append(np.frombuffer(memory, np.uint8, end - begin, begin))
        self._add_offsets(given - begin)

    def _add_offsets(self, offsets: npt.NDArray[np.int64]) -> None:
        assert self._offsets is not None
        self._offsets.append(offsets[1:] + self._end)
        self._end += int(offsets[-1])


def _bits(spool: Spool | None, count: int) -> _Written:
    if spool is None:
        return _Written(0, lambda: iter(()))
    given = spool

    def blocks() -> Iterator[Bytes]:
        for block in given.blocks(1):
            yield np.packbits(block, bitorder="little")

    return _Written(-(-count // 8), blocks)


def _offsets(spool: Spool, *, wide: bool) -> _Written:
    if wide:
        return _Written(spool.size_bytes, spool.pieces)

    def blocks() -> Iterator[Bytes]:
        for block in spool.blocks(8):
            yield np.ascontiguousarray(block).view(np.int64).astype(np.int32).view(np.uint8)

    return _Written(spool.size_bytes // 2, blocks)


def column_from(
    kind: pa.DataType,
    nodes: Iterator[Node],
    buffers: Iterator[pa.Buffer | None],
    *,
    wide: bool,
) -> pa.Array:
    """Put a column together from a file's nodes and buffers; nothing is copied.

    Parameters
    ----------
    kind : pyarrow.DataType
        Its type; with wide offsets text and lists become their large forms.
    nodes, buffers : iterator
        Depth first, at this column; those of the column are taken from them.
    wide : bool
        Whether offsets have 64 bits.
    """
    node = next(nodes)
    own = [next(buffers)]
    if _is_bytes(kind):
        own += [next(buffers) or NOTHING, next(buffers) or NOTHING]
        return pa.Array.from_buffers(_large(kind) if wide else kind, node.rows_count, own)
    kinds = children_of(kind)
    if pa.types.is_map(kind) or is_list_like(kind):
        own.append(next(buffers) or NOTHING)
        children = [column_from(child, nodes, buffers, wide=wide) for child in kinds]
        return _list_from(kind, node, own, children, wide=wide)
    if kinds or pa.types.is_struct(kind):
        children = [column_from(child, nodes, buffers, wide=wide) for child in kinds]
        fields = [pa.field(f.name, c.type, f.nullable) for f, c in zip(kind, children, strict=True)]
        made = pa.struct(fields)
        return pa.Array.from_buffers(made, node.rows_count, own, children=children)
    own.append(next(buffers) or NOTHING)
    return pa.Array.from_buffers(kind, node.rows_count, own)


def _list_from(
    kind: pa.DataType,
    node: Node,
    own: Sequence[pa.Buffer | None],
    children: Sequence[pa.Array],
    *,
    wide: bool,
) -> pa.Array:
    if pa.types.is_map(kind):
        if wide:
            raise ValueError("a map of more than 2^31 entries")
        keys, values = children
        entries = pa.struct(
            [pa.field("key", keys.type, nullable=False), pa.field("value", values.type)]
        )
        pairs = pa.Array.from_buffers(entries, len(keys), [None], children=[keys, values])
        made = pa.map_(keys.type, pa.field("value", values.type, kind.item_field.nullable))
        return pa.Array.from_buffers(made, node.rows_count, list(own), children=[pairs])
    (values,) = children
    element = pa.field(kind.value_field.name, values.type, kind.value_field.nullable)
    made = pa.large_list(element) if wide else pa.list_(element)
    return pa.Array.from_buffers(made, node.rows_count, list(own), children=[values])


def _large(kind: pa.DataType) -> pa.DataType:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pa.large_string() if is_text else pa.large_binary()
