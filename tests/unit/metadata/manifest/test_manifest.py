"""Manifests and their lists: exact on Java's files, written as Java reads them, cached once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.made import (
    EMPTY_ROW,
    PARTITIONED,
    PATHS,
    UNHURRIED,
    added,
    deleted,
    partition,
    snapshots_of,
    write_manifest,
    written,
)
from unit.metadata.manifest.test_entry_table import ENTRIES

from tidelake.codec.binary_row import decode_row, serialize_row
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import (
    EntryTable,
    ManifestCache,
    ManifestFile,
)
from tidelake.metadata.avro.avro import decode_container, encode_container
from tidelake.metadata.data_file import EMPTY_STATS
from tidelake.metadata.manifest.manifest import decode_manifest, partition_stats, write_manifests
from tidelake.metadata.manifest.manifest_list import read_manifest_list, write_manifest_list
from tidelake.metadata.manifest.manifest_schema import LIST_SCHEMA
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.types import parse_type


def test_all_of_java_s_manifests_and_lists_are_written_back_equal(oracle_dir):
    memory, seen = MemoryFileIO(), set()
    for _, fileio, paths, snapshot in snapshots_of(oracle_dir):
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        for list_name in [*lists, snapshot.changelog_manifest_list]:
            if list_name is None or list_name in seen:
                continue
            seen.add(list_name)
            files = read_manifest_list(fileio, paths, list_name)
            write_manifest_list(memory, paths, list_name, files)
            assert read_manifest_list(memory, paths, list_name) == files
            _same_records(fileio, memory, paths.manifest(list_name))
            for file in files:
                if file.file_name in seen:
                    continue
                seen.add(file.file_name)
                path = paths.manifest(file.file_name)
                table = ManifestCache(0).entries(fileio, path, expected=file)
                again = write_manifest(
                    memory, paths, file.file_name, table, schema_id=file.schema_id
                )
                _same_records(fileio, memory, path)
                # statistics and ranges are computed as Java computes them
                assert _without_size(again) == _without_size(file)
    assert len(seen) > 300


def _same_records(theirs, ours, path):
    expected = decode_container(theirs.read_bytes(path), path=path)
    found = decode_container(ours.read_bytes(path), path=path)
    for record in expected:  # a field of 2.x that says nothing is not written
        for name in ("_MIN_ROW_ID", "_MAX_ROW_ID"):
            if name in record and record[name] is None:
                del record[name]
        inner = record.get("_FILE", {})
        if inner.get("_WRITE_COLS_SEQUENCES", 0) is None:
            del inner["_WRITE_COLS_SEQUENCES"]
    assert found == expected


def _without_size(file):
    return {n: getattr(file, n) for n in file.__dataclass_fields__ if n != "file_size_bytes"}


def test_each_snapshot_of_java_folds_to_its_record_count(oracle_dir):
    count = 0
    for name, fileio, paths, snapshot in snapshots_of(oracle_dir):
        live = live_entries(fileio, paths, snapshot, ManifestCache(1 << 20))
        assert int(live["row_count"].sum()) == snapshot.total_record_count, name
        for entry in live.to_entries():
            if entry.file.external_path is None:
                path = paths.data_file(entry.partition, entry.bucket, entry.file)
                assert fileio.size(path) == entry.file.file_size_bytes
        count += 1
    assert count > 80


@settings(UNHURRIED, max_examples=30)
@given(ENTRIES)
def test_any_entry_is_written_and_read_back(entry):
    fileio = MemoryFileIO()
    write_manifest(fileio, PARTITIONED, "m", [entry], schema_id=0)
    table = ManifestCache(1 << 20).entries(fileio, PARTITIONED.manifest("m"))
    assert table.to_entries() == [entry]


def test_a_manifest_s_row_says_what_is_in_it():
    entries = [
        added("a", place=(partition("x"), 2), level=0),
        added("b", place=(partition("é"), 0), level=5),
        added("c", place=(partition(None), 1), level=3),
        deleted("d", place=(partition(None), 1), level=4),
    ]
    fileio = MemoryFileIO()
    file = write_manifest(fileio, PARTITIONED, "m", entries, schema_id=7)
    assert file.file_size_bytes == fileio.size(PARTITIONED.manifest("m"))
    assert (file.added_count, file.deleted_count, file.schema_id) == (3, 1, 7)
    assert (file.min_bucket, file.max_bucket, file.min_level, file.max_level) == (0, 2, 0, 5)
    stats, types = file.partition_stats, PARTITIONED.partition_types
    assert decode_row(stats.min_values, types) == ("x",)
    assert decode_row(stats.max_values, types) == ("é",)
    assert stats.null_counts == (2,)


def test_entries_roll_into_manifests_of_the_wanted_size():
    table = EntryTable.of([added(f"data-{i}") for i in range(5_000)])
    fileio, names = MemoryFileIO(), iter("abcdefgh")
    files = list(write_manifests(fileio, PATHS, names, table, schema_id=0, bytes_max=8_000))
    assert len(files) > 1
    assert all(f.file_size_bytes >= 8_000 for f in files[:-1])
    tables = [ManifestCache(0).entries(fileio, PATHS.manifest(f.file_name)) for f in files]
    assert EntryTable.concat(tables).to_entries() == table.to_entries()


def test_a_target_size_below_that_of_the_header_still_takes_an_entry_per_manifest():
    table = EntryTable.of([added(f"data-{i}") for i in range(2_500)])
    files = list(
        write_manifests(MemoryFileIO(), PATHS, iter("abcdefgh"), table, schema_id=0, bytes_max=100)
    )
    assert [f.added_count for f in files] == [1_000, 1_000, 500]


def test_another_version_is_refused_before_anything_is_read_from_it():
    fileio, path, file = written()
    record = decode_container(fileio.read_bytes(path), path=path)[0]
    schema = {"type": "record", "name": "r", "fields": [{"name": "_VERSION", "type": "int"}]}
    data = encode_container(schema, [{"_VERSION": record["_VERSION"] + 1}], codec="null", name="x")
    with pytest.raises(UnsupportedError, match=r"version \[3\]"):
        decode_manifest(data, path="/t/manifest/x")
    fileio.write_once(PATHS.manifest("l"), data)
    with pytest.raises(UnsupportedError, match="manifest/l"):
        read_manifest_list(fileio, PATHS, "l")
    assert file.entries_count == 3


def test_a_file_without_the_fields_of_a_manifest_is_refused():
    schema = {"type": "record", "name": "r", "fields": [{"name": "_VERSION", "type": "int"}]}
    data = encode_container(schema, [{"_VERSION": 2}], codec="null", name="x")
    with pytest.raises(CorruptError, match="/t/manifest/x does not have the fields"):
        decode_manifest(data, path="/t/manifest/x")


@pytest.mark.parametrize(
    ("field", "value"), [("_KIND", 2), ("_KIND", -1), ("_LEVEL", -1), ("_ROW_COUNT", -1)]
)
def test_values_that_no_writer_makes_are_refused(field, value):
    fileio, path, _ = written()
    records = decode_container(fileio.read_bytes(path), path=path)
    (records[1] if field in records[1] else records[1]["_FILE"])[field] = value
    from tidelake.metadata.manifest.manifest_schema import ENTRY_SCHEMA

    data = encode_container(ENTRY_SCHEMA, records, codec="null", name="x")
    with pytest.raises(CorruptError, match="/t/x"):
        decode_manifest(data, path="/t/x")


def test_a_null_where_none_may_be_is_refused():
    nullable = {"type": "record", "name": "r", "fields": []}
    names = [f["name"] for f in LIST_SCHEMA["fields"]]
    nullable["fields"] = [{"name": n, "type": ["null", "int"]} for n in names]
    record = dict.fromkeys(names) | {"_VERSION": 2}
    fileio = MemoryFileIO()
    data = encode_container(nullable, [record], codec="null", name="l")
    fileio.write_once(PATHS.manifest("l"), data)
    with pytest.raises(CorruptError, match="manifest/l"):
        read_manifest_list(fileio, PATHS, "l")


def test_names_that_lead_elsewhere_are_damage():
    fileio = MemoryFileIO()
    file = ManifestFile("../../secret", 1, 0, 0, written()[2].partition_stats, 0)
    write_manifest_list(fileio, PATHS, "l", [file])
    (listed,) = read_manifest_list(fileio, PATHS, "l")
    with pytest.raises(CorruptError, match="not a plain file name"):
        PATHS.manifest(listed.file_name)
    with pytest.raises(CorruptError, match="not a plain file name"):
        PATHS.data_file(EMPTY_ROW, 0, added("a/../b").file)


TYPES = (parse_type("STRING"), parse_type("BIGINT"))


def stats_of(rows, types=TYPES):
    entries = [added(f"f{i}", place=(serialize_row(row, types), 0)) for i, row in enumerate(rows)]
    stats = partition_stats(EntryTable.of(entries), types)
    low, high = (decode_row(b, types) for b in (stats.min_values, stats.max_values))
    return low, high, stats.null_counts


@UNHURRIED
@given(
    st.lists(st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-9, 9)), min_size=1)
)
def test_bounds_and_nulls_are_those_of_the_rows(rows):
    low, high, nulls = stats_of(rows)
    for i in range(2):
        values = [row[i] for row in rows if row[i] is not None]
        key = (lambda v: v.encode()) if i == 0 else (lambda v: v)
        assert low[i] == min(values, key=key, default=None)
        assert high[i] == max(values, key=key, default=None)
        assert nulls[i] == len(rows) - len(values)


def test_nan_is_the_largest_and_minus_zero_below_zero():
    types = (parse_type("DOUBLE"),)
    low, high, _ = stats_of([(0.0,), (float("nan"),), (-0.0,)], types)
    assert str(low[0]) == "-0.0"
    assert high[0] != high[0]
    low, high, _ = stats_of([(0.0,), (-0.0,)], types)
    assert (str(low[0]), str(high[0])) == ("-0.0", "0.0")


@pytest.mark.parametrize("rows", [[()], [(), ()]])
def test_a_table_without_partitions_has_empty_statistics(rows):
    assert partition_stats(EntryTable.of([added()] * len(rows)), ()) == EMPTY_STATS
