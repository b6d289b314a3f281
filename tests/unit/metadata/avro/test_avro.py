"""Containers are decoded exactly, or refused by name; small files never become large ones."""

import io
import json
import random
import zlib

import fastavro
import pyarrow as pa
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.avro import avro
from tidelake.metadata.avro.avro import (
    ContainerWriter,
    decode_container,
    decode_parts,
    encode_container,
)
from tidelake.metadata.manifest.manifest_schema import ENTRY_SCHEMA, LIST_SCHEMA

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "b", "type": ["null", "string"]},
        {"name": "c", "type": {"type": "array", "items": ["null", "long"]}},
    ],
}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.integers(-(2**63), 2**63 - 1),
            "b": st.none() | st.text(max_size=4),
            "c": st.lists(st.none() | st.integers(-9, 9), max_size=3),
        }
    ),
    max_size=5,
)
CODECS = ["zstandard", "snappy", "deflate", "null"]


@settings(UNHURRIED, max_examples=examples(50))
@given(RECORDS, st.sampled_from(CODECS))
def test_records_come_back_as_they_went_in(records, codec):
    data = encode_container(SCHEMA, records, codec=codec, name="m")
    assert decode_container(data, path="m") == records


@settings(UNHURRIED, max_examples=25)
@given(RECORDS, st.sampled_from(["zstandard", "deflate", "null"]))
def test_fastavro_reads_what_we_write_and_the_reverse(records, codec):
    ours = encode_container(SCHEMA, records, codec=codec, name="m")
    assert list(fastavro.reader(io.BytesIO(ours))) == records
    theirs = io.BytesIO()
    fastavro.writer(theirs, SCHEMA, records, codec=codec, sync_interval=1)
    assert decode_container(theirs.getvalue(), path="m") == records


def test_blocks_are_put_together():
    writer = ContainerWriter(SCHEMA, codec="zstandard", name="m")
    for start in range(0, 30, 10):
        writer.write_block([{"a": start + i, "b": None, "c": []} for i in range(10)])
    assert [r["a"] for r in decode_container(writer.finish(), path="m")] == list(range(30))


def test_the_same_records_and_name_give_the_same_bytes():
    one, two = (encode_container(SCHEMA, [], codec="null", name="m") for _ in range(2))
    assert one == two
    assert encode_container(SCHEMA, [], codec="null", name="n") != one


def test_a_file_without_records_is_read():
    assert decode_container(encode_container(SCHEMA, [], codec="null", name="m"), path="m") == []


def test_logical_types_are_left_as_numbers():
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "t", "type": ["null", stamp]}]}
    data = encode_container(schema, [{"t": 1_700_000_000_123}], codec="null", name="m")
    assert decode_container(data, path="m") == [{"t": 1_700_000_000_123}]


def test_a_record_type_may_be_used_again_by_its_name():
    stats = {"type": "record", "name": "Stats", "fields": [{"name": "low", "type": "bytes"}]}
    fields = [{"name": "key", "type": stats}, {"name": "value", "type": "Stats"}]
    data = io.BytesIO()
    records = [{"key": {"low": b"a"}, "value": {"low": b"b"}}]
    fastavro.writer(data, {"type": "record", "name": "r", "fields": fields}, records)
    assert decode_container(data.getvalue(), path="m") == records


def _flip(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << (bit % 8)
    return bytes(out)


def test_every_flipped_bit_of_a_zstd_file_is_noticed_or_changes_nothing():
    records = [{"a": i, "b": f"file-{i}", "c": [None, i]} for i in range(40)]
    data = encode_container(SCHEMA, records, codec="zstandard", name="m")
    wrong, refusals = [], []
    for bit in range(len(data) * 8):
        try:
            if decode_container(_flip(data, bit), path="/t/manifest/m") != records:
                wrong.append(bit)
        except (CorruptError, UnsupportedError) as error:
            refusals.append(str(error))
    assert not wrong
    assert all("/t/manifest/m" in refusal for refusal in refusals)
    assert len(refusals) > 0.9 * len(data) * 8


def test_every_cut_of_a_file_is_noticed_unless_it_falls_between_blocks():
    writer = ContainerWriter(SCHEMA, codec="zstandard", name="m")
    ends = {writer.size_bytes}
    for i in range(3):
        writer.write_block([{"a": i, "b": None, "c": []}])
        ends.add(writer.size_bytes)
    data = writer.finish()
    for length in set(range(len(data))) - ends:
        with pytest.raises(CorruptError, match="m"):
            decode_container(data[:length], path="m")


def test_random_bytes_are_refused():
    rng = random.Random(1)
    for _ in range(300):
        junk = rng.randbytes(rng.randrange(60))
        with pytest.raises(CorruptError):
            decode_container(rng.choice([b"", b"Obj\x01"]) + junk, path="m")


def _container(schema, blocks, codec=b"null"):
    """A container of given blocks: (count, payload as it stands in the file)."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    out = bytearray(b"Obj\x01" + _varint(2))
    for name, value in ((b"avro.schema", text), (b"avro.codec", codec)):
        out += _varint(len(name)) + name + _varint(len(value)) + value
    out += b"\0" + bytes(16)
    for count, payload in blocks:
        out += _varint(count) + _varint(len(payload)) + payload + bytes(16)
    return bytes(out)


def _varint(value):
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def _record(kind):
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (b"zstandard", zstd.compress),
        (b"deflate", lambda raw: zlib.compress(raw, wbits=-15)),
        (b"snappy", lambda raw: pa.compress(raw, codec="snappy", asbytes=True) + bytes(4)),
        (b"null", bytes),
    ],
)
def test_a_block_that_grows_beyond_measure_is_refused(codec, compress, monkeypatch):
    monkeypatch.setattr(avro, "RATIO_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(avro, "RATIO_MAX", 4)
    monkeypatch.setattr(avro, "BLOCK_BYTES_MAX", 4 << 20)
    bomb = compress(bytes(8 << 20))
    with pytest.raises(CorruptError, match="more than"):
        decode_container(_container(_record("bytes"), [(1, bomb)], codec), path="m")


def test_a_count_larger_than_its_block_is_refused():
    with pytest.raises(CorruptError, match="says it holds"):
        decode_container(_container(_record("null"), [(2**40, b"")]), path="m")
    with pytest.raises(CorruptError, match="says it holds"):
        decode_container(_container(_record("long"), [(-1, b"\0")]), path="m")


def test_values_that_take_no_bytes_are_refused():
    for items in ("null", {"type": "record", "name": "e", "fields": []}):
        schema = _record({"type": "array", "items": items})
        payload = _varint(2**40) + b"\0"
        with pytest.raises(CorruptError, match="take no bytes"):
            decode_container(_container(schema, [(1, payload)]), path="m")


def test_a_long_string_that_is_not_there_is_refused():
    payload = _varint(2**40)
    with pytest.raises(CorruptError):
        decode_container(_container(_record("string"), [(1, payload)]), path="m")


def test_a_file_too_large_for_a_manifest_is_refused(monkeypatch):
    monkeypatch.setattr(avro, "FILE_BYTES_MAX", 10)
    with pytest.raises(CorruptError, match="more than 10"):
        decode_container(_container(_record("long"), []), path="m")


def test_a_snappy_block_s_checksum_is_checked():
    data = encode_container(SCHEMA, [{"a": 1, "b": "x", "c": []}], codec="snappy", name="m")
    with pytest.raises(CorruptError, match="checksum"):
        decode_container(data[:-17] + bytes([data[-17] ^ 1]) + data[-16:], path="m")


def test_too_many_records_are_refused(monkeypatch):
    monkeypatch.setattr(avro, "RECORDS_MAX", 10)
    with pytest.raises(CorruptError, match="more than 10 records"):
        decode_container(_container(_record("long"), [(6, bytes(6)), (6, bytes(6))]), path="m")


def test_a_long_file_is_decoded_in_parts(monkeypatch):
    monkeypatch.setattr(avro, "PART_BYTES", 20)
    data = _container(_record("long"), [(8, bytes(8))] * 7)
    assert [len(part) for part in decode_parts(data, path="m")] == [24, 24, 8]


def test_bytes_left_over_are_refused():
    with pytest.raises(CorruptError):
        decode_container(_container(_record("long"), [(1, b"\2\2")]), path="m")


@pytest.mark.parametrize(
    "schema",
    [
        b"[",
        b"{}",
        b'"long"',
        b"7",
        b'{"type": "record", "name": "r", "fields": 3}',
        b'{"type": "record", "name": "r", "fields": [{"name": "a", "type": "nothing"}]}',
        b'{"type":' * 5000,
        json.dumps({"type": {"type": {"type": "long"}}}).encode(),
    ],
)
def test_a_schema_that_is_none_is_refused(schema):
    with pytest.raises(CorruptError):
        decode_container(_container(schema, [(1, b"\2")]), path="m")


def test_a_schema_that_holds_itself_is_refused():
    schema = _record({"type": "array", "items": "r"})
    with pytest.raises(CorruptError):
        decode_container(_container(schema, [(1, b"\0")]), path="m")


def test_a_schema_that_doubles_at_each_level_is_refused():
    inner = {"type": "record", "name": "l0", "fields": [{"name": "a", "type": "long"}]}
    fields = [{"name": "x", "type": inner}]
    for level in range(1, 14):
        twice = [{"name": n, "type": f"l{level - 1}"} for n in "ab"]
        kind = {"type": "record", "name": f"l{level}", "fields": twice}
        fields.append({"name": f"x{level}", "type": kind})
    schema = {"type": "record", "name": "r", "fields": fields}
    with pytest.raises(CorruptError, match="too large"):
        decode_container(_container(schema, []), path="m")


def test_an_unknown_codec_is_named():
    with pytest.raises(UnsupportedError, match="'lzma'"):
        decode_container(_container(_record("long"), [], b"lzma"), path="m")


def _fixture_files(oracle_dir, pattern):
    return sorted((oracle_dir / "fixtures").glob(f"**/manifest/{pattern}"))


def test_the_schemas_written_are_those_of_java(oracle_dir):
    for schema, pattern in (
        (ENTRY_SCHEMA, "manifest-????????-*"),
        (LIST_SCHEMA, "manifest-list-*"),
    ):
        files = _fixture_files(oracle_dir, pattern)
        texts = {
            fastavro.reader(io.BytesIO(f.read_bytes())).metadata["avro.schema"]
            for f in files
            if "warehouse_1_3_1" in str(f)
        }
        assert [json.loads(t) for t in texts] == [schema]


def test_all_manifests_of_java_decode_as_fastavro_decodes_them(oracle_dir):
    files = _fixture_files(oracle_dir, "manifest-*")
    assert len(files) > 300
    for file in files:
        data = file.read_bytes()
        with io.BytesIO(data) as source:
            expected = list(fastavro.reader(source))
        found = decode_container(data, path=str(file))
        assert [_without_times(r) for r in found] == [_without_times(r) for r in expected]


def _without_times(record):
    if "_FILE" in record:
        record["_FILE"].pop("_CREATION_TIME")
    return record
