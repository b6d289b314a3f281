"""Side by side or one by one: the same entries come out, or the same refusal."""

import io
import json

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED, added, deleted, fixture_tables, partition

from tidelake.codec.avro_block import avro_long
from tidelake.codec.avro_container import records_of
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata import SimpleStats
from tidelake.metadata.avro import avro
from tidelake.metadata.avro.avro import ContainerWriter
from tidelake.metadata.avro.avro_columns import decode_columns
from tidelake.metadata.manifest import manifest
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest import decode_manifest
from tidelake.metadata.manifest.manifest_schema import ENTRY_SCHEMA, ENTRY_SCHEMA_2X

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)
RANDOM_BYTES = st.binary(max_size=20)
# bytes that look like the beginning of an entry, so that wrong places are found
DECOYS = st.lists(
    st.sampled_from([b"\4\0\x18\0\0\0\0", b"\4\2\x18\0\0\0\1", b"\4\0\x80\1\0\0\0", b"\0" * 9]),
    max_size=4,
).map(b"".join)
STATS = st.builds(
    SimpleStats,
    RANDOM_BYTES | DECOYS,
    RANDOM_BYTES | DECOYS,
    st.lists(st.none() | st.integers(0, 300), max_size=4).map(tuple),
)
NAMES = st.lists(st.text(max_size=3), max_size=2).map(tuple)
FILES = st.fixed_dictionaries(
    {
        "name": st.text(max_size=12),
        "place": st.tuples(
            st.sampled_from([None, "a", "b" * 50, "c" * 9]).map(partition), st.integers(-2, 300)
        ),
        "file_size_bytes": st.integers(0, 2**62),
        "rows": st.integers(0, 2**40),
        "min_key": RANDOM_BYTES | DECOYS,
        "max_key": RANDOM_BYTES | DECOYS,
        "key_stats": STATS,
        "value_stats": STATS,
        "sequences": st.tuples(LONGS, LONGS),
        "schema_id": LONGS,
        "level": st.integers(0, 9),
        "extra_files": NAMES,
        "creation_time_ms": st.none() | LONGS,
        "delete_row_count": st.none() | LONGS,
        "embedded_index": st.none() | RANDOM_BYTES | DECOYS,
        "file_source": st.none() | st.integers(0, 1),
        "value_stats_cols": st.none() | NAMES,
        "external_path": st.none() | st.text(max_size=3),
        "first_row_id": st.none() | LONGS,
        "write_cols": st.none() | NAMES,
    }
)
ENTRIES = st.lists(
    st.builds(lambda kind, fields: kind(**fields), st.sampled_from([added, deleted]), FILES),
    min_size=1,
    max_size=8,
)


FEW = avro.COLUMNS_RECORDS_MIN


@pytest.fixture(autouse=True, scope="module")
def _however_few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro, "COLUMNS_RECORDS_MIN", 0)
        yield


ARRAY = avro._array_of(json.dumps(ENTRY_SCHEMA_2X).encode())


def container(entries, *, codec="null", blocks=1, with_2x=False):
    """The bytes of a manifest of some blocks."""
    out = ContainerWriter(ENTRY_SCHEMA_2X if with_2x else ENTRY_SCHEMA, codec=codec, name="m")
    step = -(-len(entries) // blocks)
    for start in range(0, len(entries), step):
        table = EntryTable.of(entries[start : start + step])
        out.write_block(manifest._records(table, with_2x=with_2x))
    return out.finish()


def payload_of(entries):
    """The bytes of one block."""
    raw = io.BytesIO()
    records = manifest._records(EntryTable.of(entries), with_2x=True)
    fastavro.schemaless_writer(raw, ARRAY, records)
    return raw.getvalue()[len(avro_long(len(records))) : -1]


def parts_of(data):
    return list(avro.decode_columns(data, path="m", find_starts=manifest._entry_starts))


def value_at(record, path):
    for name in path:
        record = record[name]
    return record


def same_as_one_by_one(count, payload, find_starts=manifest._entry_starts):
    """Whether columns came out; if so they are what fastavro reads, record by record."""
    columns = decode_columns(ARRAY["items"], [(count, payload)], find_starts=find_starts)
    if columns is None:
        return False
    records = records_of(ARRAY, [(count, payload)])
    for path, column in columns.items():
        assert column.to_pylist() == [value_at(r, path) for r in records], path
    return True


@settings(UNHURRIED, max_examples=15)
@given(ENTRIES, st.integers(1, 3), st.booleans())
def test_entries_come_out_as_they_went_in(entries, blocks, with_2x):
    data = container(entries, blocks=blocks, with_2x=with_2x)
    assert all(isinstance(part, dict) for part in parts_of(data))
    assert decode_manifest(data, path="m").to_entries() == entries


@settings(UNHURRIED, max_examples=15)
@given(ENTRIES)
def test_columns_are_what_fastavro_reads(entries):
    assert same_as_one_by_one(len(entries), payload_of(entries))


@settings(UNHURRIED, max_examples=examples(40))
@given(ENTRIES, st.data())
def test_damaged_entries_are_never_read_otherwise_than_one_by_one(entries, data):
    payload = bytearray(payload_of(entries))
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(payload) - 1))
        what = data.draw(st.sampled_from(["set", "cut", "huge", "insert"]))
        if what == "set":
            payload[at] = data.draw(st.integers(0, 255))
        elif what == "huge":  # a length or count beyond all bounds
            payload[at : at + 9] = b"\xff" * 9
        elif what == "insert":
            payload[at:at] = b"\4\0\x18\0\0\0\0"
        elif at:
            del payload[at:]
    same_as_one_by_one(len(entries) + data.draw(st.sampled_from([0, 0, 0, 1, -1])), bytes(payload))


@settings(UNHURRIED, max_examples=15)
@given(ENTRIES)
def test_wrong_places_among_the_right_ones_do_no_harm(entries):
    payload = payload_of(entries)

    def every_byte(found):
        return np.arange(len(found), dtype=np.int64)

    if len(payload) < 1_000:  # few enough for each entry
        assert same_as_one_by_one(len(entries), payload, every_byte)


def test_a_place_that_is_missing_is_noticed():
    entries = [added(f"data-{i}.parquet") for i in range(5)]
    payload = payload_of(entries)
    starts = manifest._entry_starts(np.frombuffer(payload, dtype=np.uint8))
    assert len(starts) == 5
    for left_out in range(5):
        rest = np.delete(starts, left_out)
        assert not same_as_one_by_one(5, payload, lambda _, rest=rest: rest)
        assert not same_as_one_by_one(4, payload, lambda _, rest=rest: rest)


def test_a_block_that_reaches_into_the_next_is_refused():
    payload = payload_of([added("data-1.parquet"), added("data-2.parquet")])
    half = len(payload) // 2
    for cut in (half - 1, half + 1):
        blocks = [(1, payload[:cut]), (1, payload[cut:])]
        found = decode_columns(ARRAY["items"], blocks, find_starts=manifest._entry_starts)
        assert found is None
    blocks = [(1, payload[:half]), (1, payload[half:])]
    found = decode_columns(ARRAY["items"], blocks, find_starts=manifest._entry_starts)
    assert found is not None


@pytest.mark.parametrize(
    "kind", ["double", {"type": "map", "values": "long"}, ["null", "long", "string"], "null"]
)
def test_types_that_no_manifest_has_are_decoded_one_by_one(kind):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    assert decode_columns(schema, [(1, b"\0")], find_starts=lambda _: np.zeros(1, int)) is None


def test_a_text_that_is_no_utf_8_is_an_error_that_names_the_file():
    data = container([added("data-1.parquet")])
    broken = data.replace(b"data-1", b"data-\xff")
    with pytest.raises(CorruptError, match="/t/manifest/m"):
        decode_manifest(broken, path="/t/manifest/m")


def test_damaged_entries_are_errors_that_name_the_file():
    data = container([added(f"data-{i}.parquet") for i in range(3)])
    place = data.index(b"data-1.parquet") - 1
    for length in (b"\x80", b"\xff", b"\x03", b"\xfe"):
        broken = data[:place] + length + data[place + 1 :]
        with pytest.raises(CorruptError, match="/t/manifest/m"):
            decode_manifest(broken, path="/t/manifest/m")


def test_a_version_that_is_not_known_is_refused():
    data = container([added("data-1.parquet")])
    at = data.index(b"data-1.parquet") - 18
    assert data[at] == 4
    with pytest.raises(UnsupportedError, match=r"version \[3\]"):
        decode_manifest(data[:at] + b"\6" + data[at + 1 :], path="m")


def test_few_entries_are_decoded_one_by_one(monkeypatch):
    monkeypatch.setattr(avro, "COLUMNS_RECORDS_MIN", FEW)
    for count, kind in [(FEW - 1, list), (FEW, dict)]:
        (part,) = parts_of(container([added(f"data-{i}.parquet") for i in range(count)]))
        assert isinstance(part, kind)


def test_java_s_manifests_are_decoded_side_by_side(oracle_dir):
    """No fixture falls back to records: what Java writes is what the decoder is made for."""
    decoded = 0
    for name, fileio, paths in fixture_tables(oracle_dir):
        for status in fileio.list_dir(paths.manifest_dir):
            if not status.name.startswith("manifest-") or "list" in status.name:
                continue
            data = fileio.read_bytes(paths.manifest(status.name))
            records = [r for part in avro.decode_parts(data, path=name) for r in part]
            parts = parts_of(data)
            assert all(isinstance(part, dict) for part in parts), name
            for path in parts[0] if parts else ():
                found = [v for part in parts for v in part[path].to_pylist()]
                assert found == [value_at(r, path) for r in records], (name, path)
            decoded += len(records)
    assert decoded > 100


def test_damage_in_small_manifests_never_ends_the_decoding_of_all():
    """Decoded alone, the damaged one is an error that names it."""
    whole = container([added("data-1.parquet")])
    first = whole.index(b"data-1.parquet") - 60  # behind the schema, which has a checksum
    for at in (*range(8), *range(first, len(whole))):
        for changed in {whole[at] ^ (1 << (at % 8)), whole[at] ^ 0x80}:
            data = bytearray(whole)
            data[at] = changed
            found = manifest.decode_small_manifests([(whole, "a"), (bytes(data), "b")])
            try:
                alone = decode_manifest(bytes(data), path="b")
            except (CorruptError, UnsupportedError):
                assert found is None, (at, changed)
            else:
                assert found is None or found[0][1].to_entries() == alone.to_entries()


@pytest.mark.parametrize("error", [IndexError, ValueError, OverflowError])
def test_an_error_of_the_columns_is_one_of_the_file(error):
    def fail(_):
        raise error

    whole = container([added("data-1.parquet")])
    assert avro.decode_together([(whole, "m"), (whole, "n")], find_starts=fail) is None
    with pytest.raises(CorruptError, match="File m is not"):
        list(avro.decode_columns(whole, path="m", find_starts=fail))


def test_blocks_without_records_are_passed_over():
    whole = container([added("data-1.parquet"), deleted("data-2.parquet")])
    empty = whole + b"\0\0" + whole[-16:]
    assert decode_manifest(empty, path="m").num_rows == 2
    found = manifest.decode_small_manifests([(whole, "a"), (empty, "b")])
    assert found is not None
    assert [table.num_rows for table in found[0]] == [2, 2]
