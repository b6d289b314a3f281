"""Rows as packed columns, the form in which keys and rows go over the wire, from and to Arrow.

A column is Arrow's own memory where that is possible, so packing costs a copy and no loop:

1. Fixed width: the values, little-endian, zero under a null. Booleans take one byte each.
2. Text and bytes: the values of all rows joined, and ``count + 1`` offsets of 4 bytes from 0 on.
3. Validity: a bit per row, lowest bit first; left out where nothing is null.

Columns of nested types and variants have no packed form: such rows go as an Arrow stream. What
arrives is checked before it is used: each length, the order of the offsets, UTF-8, and that
booleans are 0 or 1. Source of the widths: the message ``Column`` of ``tidelake_query_v1.proto``. On
the wire: never change; ``tests/golden/packed_columns.txt`` has the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.engine.codec import contiguous, fixed_values, valid_rows
from tidelake.errors import InvalidInputError
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField

WIDTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
    TypeRoot.DECIMAL: 16,
}
JOINED = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
CHECKED = TEXT | {TypeRoot.DECIMAL}
OFFSET_MAX = 2**31 - 1
MS_PER_DAY = 86_400_000


def is_packable(data_type: DataType) -> bool:
    """Whether a column of the type has a packed form."""
    return data_type.root in WIDTHS or data_type.root in JOINED


def value_width(data_type: DataType) -> int | None:
    """Bytes of a value; None for text and bytes.

    Requires: :func:`is_packable`.
    """
    assert is_packable(data_type), f"{data_type} has no packed form"
    return WIDTHS.get(data_type.root)


def pack(rows: pa.RecordBatch | pa.Table, types: Sequence[DataType]) -> pb.PackedRows:
    """Pack rows.

    Parameters
    ----------
    rows : pyarrow.RecordBatch or pyarrow.Table [n]
        One column per type, in its order.

    Raises
    ------
    InvalidInputError
        A column holds more than 2 GiB of text or bytes.
    """
    assert rows.num_columns == len(types), "one type per column"
    columns = [pack_column(c, t) for c, t in zip(rows.columns, types, strict=True)]
    return pb.PackedRows(count=rows.num_rows, columns=columns)


def pack_column(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> pb.Column:
    """Pack one column: see :func:`pack`."""
    width = value_width(data_type)
    array = contiguous(column, data_type)
    valid = valid_rows(array)
    packed = pb.Column() if valid is None else pb.Column(valid=bits(valid))
    if width is None:
        _pack_joined(packed, array, valid)
        return packed
    words: npt.NDArray[np.uint8]
    if data_type.root is TypeRoot.BOOLEAN:
        words = fixed_values(array, np.uint8).reshape(-1, 1)
    else:
        words = _memory(array, width)
    if valid is not None:
        words = np.where(valid[:, None], words, np.uint8(0))
    packed.values = words.tobytes()
    return packed


def _memory(array: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    """The bytes of a fixed-width column [n, width]."""
    memory = array.buffers()[1]
    if len(array) == 0 or memory is None:
        return np.zeros((len(array), width), np.uint8)
    start = array.offset * width
    found = np.frombuffer(memory, np.uint8, count=len(array) * width, offset=start)
    return found.reshape(-1, width)


def _pack_joined(packed: pb.Column, array: pa.Array, valid: npt.NDArray[np.bool_] | None) -> None:
    if len(array) == 0 or array.buffers()[1] is None:
        packed.offsets = bytes(4 * (len(array) + 1))
        return
    is_large = array.type in {pa.large_string(), pa.large_binary()}
    dtype = np.dtype(np.int64 if is_large else np.int32)
    offsets = np.frombuffer(
        array.buffers()[1], dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize
    )
    lengths = np.diff(offsets)
    if valid is not None and lengths[~valid].any():
        # a null may have bytes in Arrow; take leaves them out
        kept = array.take(pa.array(np.flatnonzero(valid)))
        ends = np.zeros(len(array) + 1, np.int64)
        np.cumsum(np.where(valid, lengths, 0), out=ends[1:])
        _pack_joined(packed, kept, None)
        packed.offsets = ends.astype("<u4").tobytes()
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    if end - begin > OFFSET_MAX:
        message = (
            f"A column of {len(array)} rows holds {end - begin} bytes, more than the {OFFSET_MAX}"
            " of one message: ask for fewer keys at once."
        )
        raise InvalidInputError(message, kind="message_too_large")
    packed.offsets = (offsets - begin).astype("<u4").tobytes()
    memory = array.buffers()[2]
    packed.values = b"" if memory is None else memory.slice(begin, end - begin).to_pybytes()


def unpack(
    packed: pb.PackedRows, fields: Sequence[DataField], *, what: str = "The keys"
) -> pa.RecordBatch:
    """Give packed rows as Arrow, after a check of everything that arrived.

    Parameters
    ----------
    fields : sequence of DataField
        The columns that it must hold.

    Returns
    -------
    RecordBatch
        With the schema ``to_arrow_schema(fields)``. A null in a NOT NULL column is not refused:
        that is the caller's.

    Raises
    ------
    InvalidInputError
        Of the kind ``packed_rows``: the bytes are no such rows.
    """
    if len(packed.columns) != len(fields):
        raise malformed(what, f"have {len(packed.columns)} columns and not {len(fields)}")
    columns = [
        unpack_column(column, field.type, packed.count, what=f"{what}, column '{field.name}',")
        for column, field in zip(packed.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))


def unpack_column(column: pb.Column, data_type: DataType, count: int, *, what: str) -> pa.Array:
    """Give one packed column as Arrow: see :func:`unpack`."""
    arrow_type = to_arrow_type(data_type)
    width = value_width(data_type)
    validity = _validity(column.valid, count, what)
    values = column.values
    if width is None:
        offsets = _checked_offsets(column.offsets, len(values), count, what)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values)]
        array = pa.Array.from_buffers(arrow_type, count, buffers)
        return _validated(array, data_type, what)
    if column.offsets:
        raise malformed(what, "have offsets, and values of fixed width")
    if len(values) != width * count:
        raise malformed(what, f"have {len(values)} bytes and not {count} values of {width}")
    if data_type.root is TypeRoot.BOOLEAN:
        flags = np.frombuffer(values, np.uint8)
        if len(flags) and int(flags.max()) > 1:
            raise malformed(what, "have a boolean that is neither 0 nor 1")
        values = bits(flags.view(np.bool_))
    if data_type.root is TypeRoot.TIME and count:
        times = np.frombuffer(values, "<i4")
        if int(times.min()) < 0 or int(times.max()) >= MS_PER_DAY:
            raise malformed(what, "have a time outside the day")
    array = pa.Array.from_buffers(arrow_type, count, [validity, pa.py_buffer(values)])
    return _validated(array, data_type, what)


def _validated(array: pa.Array, data_type: DataType, what: str) -> pa.Array:
    if data_type.root in CHECKED:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            said = "are no UTF-8" if data_type.root in TEXT else f"do not fit {data_type}"
            raise malformed(what, said) from error
    return array


def _validity(valid: bytes, count: int, what: str) -> pa.Buffer | None:
    if not valid:
        return None
    if len(valid) != (count + 7) // 8:
        raise malformed(what, f"have {len(valid)} bytes of validity for {count} rows")
    return pa.py_buffer(valid)


def _checked_offsets(offsets: bytes, values_bytes: int, count: int, what: str) -> bytes:
    if len(offsets) != 4 * (count + 1):
        raise malformed(what, f"have {len(offsets)} bytes of offsets for {count} rows")
    found = np.frombuffer(offsets, "<u4")
    if found[0] != 0 or int(found[-1]) != values_bytes or (found[1:] < found[:-1]).any():
        raise malformed(what, f"have offsets that do not cut {values_bytes} bytes in order")
    return offsets


def malformed(what: str, said: str) -> InvalidInputError:
    """Make the error for bytes that are no packed rows."""
    message = f"{what} {said}: see the message Column in tidelake_query_v1.proto."
    return InvalidInputError(message, kind="packed_rows")


def bits(flags: npt.NDArray[np.bool_]) -> bytes:
    """Give flags as bits, the lowest first.

    Examples
    --------
    >>> bits(np.array([True, False, True])).hex()
    '05'
    """
    return np.packbits(flags, bitorder="little").tobytes()


def bits_set(packed: bytes, count: int, *, what: str = "The bits") -> npt.NDArray[np.bool_]:
    """Give bits as flags [count].

    Raises
    ------
    InvalidInputError
        There are more or fewer bytes than `count` needs.
    """
    if len(packed) != (count + 7) // 8:
        raise malformed(what, f"have {len(packed)} bytes for {count} flags")
    found = np.unpackbits(np.frombuffer(packed, np.uint8), count=count, bitorder="little")
    return found.view(np.bool_)


def arrow_body(rows: pa.RecordBatch) -> bytes:
    """Give rows as an Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def rows_of_arrow_body(body: bytes, *, what: str = "The rows") -> pa.Table:
    """Read :func:`arrow_body`.

    Raises
    ------
    InvalidInputError
        It is no Arrow stream.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        message = f"{what} are no Arrow stream: {error}."
        raise InvalidInputError(message, kind="packed_rows") from error
    return rows
