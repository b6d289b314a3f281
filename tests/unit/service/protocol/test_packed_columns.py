import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from unit.codec.golden_cases import cases, types_of, values_of
from unit.types.strategies import columns, data_types

from tidelake.errors import InvalidInputError
from tidelake.service.protocol import packed_columns as packing
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_values import pack_rows, python_columns
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import storage_to_arrow

GOLDEN = list(cases("packed_columns.txt"))
INT, TEXT = parse_type("INT"), parse_type("STRING")


def parts_of(column):
    return {part: getattr(column, part) for part in ("values", "offsets", "valid")}


def unpacked(column, data_type, count):
    return packing.unpack_column(column, data_type, count, what="The keys")


@pytest.mark.parametrize(("head", "lines", "answer"), GOLDEN)
def test_golden_columns(head, lines, answer):
    (data_type,) = types_of(head)
    array = storage_to_arrow(values_of(lines[0]), data_type)
    wanted = {"values": b"", "offsets": b"", "valid": b""}
    for line in answer:
        part, _, text = line.partition(" ")
        wanted[part] = bytes.fromhex(text)
    column = packing.pack_column(array, data_type)
    assert parts_of(column) == wanted
    assert unpacked(column, data_type, len(array)).equals(array)


def test_golden_has_every_packed_type():
    roots = {types_of(head)[0].root for head, _, _ in GOLDEN}
    alike = {"CHAR": "VARCHAR", "BINARY": "VARBINARY"}
    packed = set(packing.WIDTHS) | set(packing.JOINED)
    assert {alike.get(r.value, r.value) for r in packed} == {r.value for r in roots}


@given(st.data())
def test_a_column_comes_back_as_it_was(data):
    data_type = data.draw(data_types.filter(packing.is_packable))
    count = data.draw(st.integers(0, 20))
    array = data.draw(columns(data_type, count))
    begin = data.draw(st.integers(0, count))
    part = array.slice(begin)
    column = pb.Column.FromString(packing.pack_column(part, data_type).SerializeToString())
    assert unpacked(column, data_type, len(part)).equals(part)


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([["a"], ["bc", None]]),
        pa.array(["a", "bc", None], pa.large_string()),
        pa.array(["a", "bc", None]).dictionary_encode(),
        pa.array(["x", "a", "bc", None]).slice(1),
    ],
    ids=["chunks", "large", "dictionary", "slice"],
)
def test_every_layout_of_a_text_is_packed_alike(column):
    packed = packing.pack_column(column, TEXT)
    assert unpacked(packed, TEXT, 3).to_pylist() == ["a", "bc", None]


def test_bytes_under_a_null_do_not_travel():
    offsets = pa.py_buffer(np.array([0, 6, 8], np.int32))
    array = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, pa.py_buffer(b"secretok")]
    )
    packed = packing.pack_column(array, TEXT)
    assert packed.values == b"ok"
    assert unpacked(packed, TEXT, 2).to_pylist() == [None, "ok"]
    numbers = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([7, 8], np.int32))]
    )
    assert packing.pack_column(numbers, INT).values.hex() == "0000000008000000"


def test_rows_come_back_with_their_names():
    fields = (DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "v", TEXT))
    rows = pa.RecordBatch.from_pydict({"k": pa.array([1, 2], pa.int32()), "v": ["a", None]})
    back = packing.unpack(packing.pack(rows, [f.type for f in fields]), fields)
    assert back.to_pylist() == rows.to_pylist()
    assert [f.nullable for f in back.schema] == [False, True]


BAD = {
    "too short": (INT, pb.Column(values=bytes(7)), 2),
    "too long": (INT, pb.Column(values=bytes(9)), 2),
    "offsets of numbers": (INT, pb.Column(values=bytes(8), offsets=bytes(12)), 2),
    "too few bits": (INT, pb.Column(values=bytes(36), valid=b"\xff"), 9),
    "no offsets": (TEXT, pb.Column(values=b"ab"), 1),
    "offsets not from 0": (TEXT, pb.Column(values=b"ab", offsets=b"\1\0\0\0\2\0\0\0"), 1),
    "offsets past the end": (TEXT, pb.Column(values=b"ab", offsets=b"\0\0\0\0\3\0\0\0"), 1),
    "offsets before the end": (TEXT, pb.Column(values=b"ab", offsets=b"\0\0\0\0\1\0\0\0"), 1),
    "huge offset": (TEXT, pb.Column(values=b"a", offsets=b"\0\0\0\0\xff\xff\xff\xff\1\0\0\0"), 2),
    "no UTF-8": (TEXT, pb.Column(values=b"\xff", offsets=b"\0\0\0\0\1\0\0\0"), 1),
    "no boolean": (parse_type("BOOLEAN"), pb.Column(values=b"\2"), 1),
    "no time": (parse_type("TIME(3)"), pb.Column(values=b"\xff\xff\xff\xff"), 1),
    "no decimal": (parse_type("DECIMAL(3, 0)"), pb.Column(values=b"\1" * 16), 1),
    "a count beyond all memory": (INT, pb.Column(values=bytes(4)), 2**32 - 1),
}


@pytest.mark.parametrize(("data_type", "column", "count"), BAD.values(), ids=BAD)
def test_bytes_that_are_no_column_are_refused(data_type, column, count):
    with pytest.raises(InvalidInputError, match="The keys") as caught:
        unpacked(column, data_type, count)
    assert caught.value.kind == "packed_rows"


def test_columns_are_counted():
    with pytest.raises(InvalidInputError, match="have 0 columns and not 1"):
        packing.unpack(pb.PackedRows(count=2**31), (DataField(0, "k", INT),))


@given(st.binary(max_size=40), st.binary(max_size=24), st.binary(max_size=3), st.integers(0, 9))
def test_any_bytes_are_safe_to_unpack(values, offsets, valid, count):
    for name in ("INT", "STRING", "BOOLEAN", "DECIMAL(5, 2)", "BYTES"):
        column = pb.Column(values=values, offsets=offsets, valid=valid)
        try:
            array = unpacked(column, parse_type(name), count)
        except InvalidInputError:
            continue
        array.validate(full=True)
        assert len(array) == count


def test_flags_are_bits_from_the_lowest_on():
    flags = np.array([True, False, False, True, True, False, True, False, True])
    assert packing.bits(flags).hex() == "5901"
    assert packing.bits_set(packing.bits(flags), 9).tolist() == flags.tolist()
    with pytest.raises(InvalidInputError):
        packing.bits_set(b"\1", 9)


def test_nested_rows_go_as_arrow():
    assert not packing.is_packable(parse_type({"type": "ARRAY", "element": "INT"}))
    rows = pa.RecordBatch.from_pydict({"a": [[1], None]})
    assert packing.rows_of_arrow_body(packing.arrow_body(rows)).to_pylist() == rows.to_pylist()
    for body in (b"", b"garbage", packing.arrow_body(rows)[:-40]):
        with pytest.raises(InvalidInputError, match="no Arrow stream"):
            packing.rows_of_arrow_body(body, what="The rows")


def test_types_of_columns_are_those_of_the_table():
    for name in ("INT", "TIMESTAMP(9)", "DECIMAL(20, 4)", "CHAR(3)"):
        data_type = parse_type(name)
        empty = unpacked(
            packing.pack_column(pa.array([], to_arrow_type(data_type)), data_type), data_type, 0
        )
        assert empty.type == to_arrow_type(data_type)


def in_python(array):
    """The values, unless Python has no such date: of the year 0, or after 9999."""
    try:
        return array.to_pylist()
    except (OverflowError, ValueError):
        reject()


@given(st.data())
def test_single_values_have_the_same_bytes_and_come_back_as_by_arrow(data):
    data_type = data.draw(data_types.filter(packing.is_packable))
    array = data.draw(columns(data_type, data.draw(st.integers(0, 9))))
    packed = packing.pack_column(array, data_type)
    field = DataField(0, "c", data_type)
    rows = pb.PackedRows(count=len(array), columns=[packed])
    values = in_python(array)
    assert repr(python_columns(rows, [field])) == repr([values])
    by_row = pack_rows([{"c": v} for v in values], [field])
    assert by_row.SerializeToString() == rows.SerializeToString()


@pytest.mark.parametrize(("data_type", "column", "count"), BAD.values(), ids=BAD)
def test_single_values_of_bytes_that_are_no_column_are_refused(data_type, column, count):
    rows = pb.PackedRows(count=count, columns=[column])
    with pytest.raises(InvalidInputError, match="The rows") as caught:
        python_columns(rows, [DataField(0, "c", data_type)])
    assert caught.value.kind == "packed_rows"
