import json
import struct

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.codec.golden_cases import cases, types_of, values_of
from unit.types.strategies import data_types, tables, values

from tidelake.codec.binary_row import decode_row, encode_row, header_size_bytes, serialize_row
from tidelake.errors import CorruptError, InvalidInputError, UnsupportedError
from tidelake.types import TableSchema, parse_type

GOLDEN = list(cases("binary_row.txt"))


def same(a, b):
    """Equal, and NaN equal to NaN, -0.0 not to 0.0."""
    return repr(a) == repr(b)


@pytest.mark.parametrize(("head", "lines", "answer"), GOLDEN)
def test_golden_rows_of_java(head, lines, answer):
    types, row = types_of(head), values_of(answer[0])
    raw = bytes.fromhex("".join(lines))
    assert encode_row(row, types) == raw
    assert decode_row(struct.pack(">I", len(types)) + raw, types) == row


def test_golden_holds_all_vectors():
    assert len(GOLDEN) == 37


@given(tables(columns_max=70))
def test_a_row_comes_back_as_it_was(table):
    types, rows = table
    for row in rows:
        raw = encode_row(row, types)
        assert len(raw) % 8 == 0
        assert raw[0] == 0, "row kind +I"
        assert same(decode_row(serialize_row(row, types), types), row)


@given(st.lists(data_types, min_size=50, max_size=130))
def test_a_row_of_nulls_has_every_null_bit(types):
    row = (None,) * len(types)
    assert decode_row(serialize_row(row, types), types) == row


@pytest.mark.parametrize(
    ("fields_count", "size"), [(0, 8), (1, 8), (56, 8), (57, 16), (120, 16), (121, 24)]
)
def test_header_size(fields_count, size):
    assert header_size_bytes(fields_count) == size


@given(st.lists(data_types, max_size=5), st.binary(max_size=120))
def test_any_bytes_are_safe_to_decode(types, raw):
    for prefix in (b"", struct.pack(">I", len(types))):
        try:
            row = decode_row(prefix + raw, types)
        except CorruptError:
            continue
        assert len(row) == len(types)


@given(tables(), st.data())
def test_a_damaged_row_is_decoded_or_refused(table, data):
    types, rows = table
    for row in rows:
        raw = bytearray(serialize_row(row, types))
        for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=6)):
            raw[place] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(raw)))
        for damaged in (bytes(raw), bytes(raw[:cut])):
            try:
                decoded = decode_row(damaged, types)
            except CorruptError:
                continue
            assert len(decoded) == len(types)


@pytest.mark.parametrize(
    ("type_text", "raw"),
    [
        ("STRING", "ff00000000000081"),  # not UTF-8
        ("STRING", "ffffffff10000000"),  # longer than the row
        ("STRING", "00000000000000ff"),  # 127 bytes inline
        ("DECIMAL(20, 2)", "1100000010000000"),  # 17 bytes
        ("DECIMAL(20, 2)", "0000000010000000"),  # no bytes
        ("DECIMAL(3, 0)", "e803000000000000"),  # 1000 has four digits
        ("TIMESTAMP(6)", "40420f0008000000"),  # a whole millisecond of nanoseconds
        ("TIMESTAMP(6)", "0000000009000000"),  # ms end behind the row
        ("TIME(3)", "ffffffff00000000"),
    ],
)
def test_impossible_values_are_refused(type_text, raw):
    with pytest.raises(CorruptError, match="damaged"):
        decode_row(bytes([0, 0, 0, 1]) + bytes(8) + bytes.fromhex(raw), [parse_type(type_text)])


def test_another_number_of_fields_is_refused():
    types = [parse_type("INT")]
    with pytest.raises(CorruptError, match="2 fields where 1"):
        decode_row(serialize_row((1, 2), types * 2), types)


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("INT", 1 << 31),
        ("INT", "1"),
        ("BIGINT", 1 << 63),
        ("STRING", 5),
        ("STRING", "\ud800"),
        ("BYTES", "a"),
        ("DECIMAL(20, 2)", 1.5),
        ("DECIMAL(38, 2)", 1 << 127),
        ("TIMESTAMP(6)", "2024"),
        ("TIMESTAMP(6)", (1 << 63) * 10**6),
        ("FLOAT", 1e300),
    ],
)
def test_what_is_no_storage_value_is_refused(type_text, value):
    with pytest.raises(InvalidInputError, match="not a value of type"):
        encode_row((value,), [parse_type(type_text)])


def test_of_nested_types_only_null_is_taken():
    array = [parse_type({"type": "ARRAY", "element": "INT"})]
    assert decode_row(serialize_row((None,), array), array) == (None,)
    with pytest.raises(UnsupportedError, match="ARRAY<INT>"):
        encode_row(([1],), array)


@given(st.data())
def test_equal_rows_have_equal_bytes_and_others_not(data):
    data_type = data.draw(data_types)
    a, b = data.draw(values(data_type)), data.draw(values(data_type))
    assert (encode_row((a,), [data_type]) == encode_row((b,), [data_type])) == same(a, b)


def test_rows_in_the_manifests_of_java_are_written_again_bit_by_bit(oracle_dir):
    rows_count = 0
    tables_dir = oracle_dir / "fixtures"
    for table in sorted(p.parent for p in tables_dir.glob("*/**/schema") if p.is_dir()):
        schemas = {
            int(p.name.split("-")[1]): TableSchema.from_json(p.read_bytes(), path=str(p))
            for p in (table / "schema").glob("schema-*")
        }
        for path in sorted((table / "manifest").glob("manifest-*-*")):
            if path.name.startswith("manifest-list"):
                continue
            with path.open("rb") as stream:
                entries = list(fastavro.reader(stream))
            for entry in entries:
                if "_FILE" not in entry or not entry["_FILE"]["_FILE_NAME"].endswith(".parquet"):
                    continue
                for raw, types in _rows_of(entry, schemas):
                    decoded = decode_row(raw, types)
                    assert serialize_row(decoded, types) == raw, (path, json.dumps(str(decoded)))
                    rows_count += 1
    assert rows_count > 300


def _rows_of(entry, schemas):
    file = entry["_FILE"]
    schema = schemas[file["_SCHEMA_ID"]]
    yield entry["_PARTITION"], [schema.field(k).type for k in schema.partition_keys]
    key = [schema.field(k).type for k in schema.trimmed_primary_keys]
    for name in ("_MIN_KEY", "_MAX_KEY"):
        yield file[name], key
    yield file["_KEY_STATS"]["_MIN_VALUES"], key
    yield file["_KEY_STATS"]["_MAX_VALUES"], key
    columns = file["_VALUE_STATS_COLS"]
    names = schema.field_names if columns is None else columns
    fields = [schema.field(n).type for n in names]
    if not any(f.is_nested for f in fields):
        yield file["_VALUE_STATS"]["_MIN_VALUES"], fields
        yield file["_VALUE_STATS"]["_MAX_VALUES"], fields
