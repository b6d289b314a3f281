"""What is read is what was written, of the columns and rows asked for, or an error by name."""

from __future__ import annotations

import io
import json
import random
import struct

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.format.rows import (
    PATH,
    SCALARS,
    batch_of,
    field,
    put_parquet,
    sample_batch,
    scalar_fields,
    values_of,
    write,
)

from tidelake.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.format import FormatOptions, read_batches
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import TableSchema
from tidelake.types.predicate import Compare


def read(files, fields, path=PATH, **options) -> pa.Table:
    batches = list(read_batches(files, path, fields, **options))
    assert all(b.num_rows for b in batches)
    if not batches:
        return batch_of(fields, [[] for _ in fields]).to_struct_array().type
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_every_scalar_type_comes_back(compression):
    batch = sample_batch(rows=100)
    files, footer = write(batch, scalar_fields(), options=FormatOptions(compression=compression))
    got = read(
        files, scalar_fields(), file_size_bytes=footer.size_bytes, row_count=footer.row_count
    )
    assert got.equals(pa.Table.from_batches([batch]), check_metadata=True)


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_any_values_come_back(data):
    types = data.draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4))
    rows = data.draw(st.integers(1, 12))
    fields = [field(i, f"c{i}", t) for i, t in enumerate(types)]
    columns = [data.draw(st.lists(values_of(t), min_size=rows, max_size=rows)) for t in types]
    batch = batch_of(fields, columns)
    files, _ = write(batch, fields, options=FormatOptions(row_group_rows=5))
    got = read(files, fields, batch_rows=3)
    for name in batch.schema.names:
        expected = pa.chunked_array([batch.column(name)])
        if pa.types.is_floating(expected.type):  # NaN equals nothing: compare the text
            assert str(got.column(name).to_pylist()) == str(expected.to_pylist())
        else:
            assert got.column(name).equals(expected)


def test_columns_come_in_the_order_asked_and_batches_within_the_bound():
    fields = scalar_fields()
    files, _ = write(sample_batch(rows=1000), fields)
    batches = list(read_batches(files, PATH, [fields[11], fields[3]], batch_rows=300))
    assert [b.num_rows for b in batches] == [300, 300, 300, 100]
    assert batches[0].schema.names == ["c11", "c3"]


def test_wide_rows_make_smaller_batches():
    f = field(0, "a", "STRING")
    texts = [chr(97 + i) * 500_000 for i in range(100)]
    files, _ = write(batch_of([f], [texts]), [f], options=FormatOptions(compression="none"))
    batches = list(read_batches(files, PATH, [f]))
    assert max(b.num_rows for b in batches) < 100
    assert pa.Table.from_batches(batches)["a"].to_pylist() == texts


def test_no_columns_still_count_the_rows():
    files, _ = write(sample_batch(rows=1000), scalar_fields())
    batches = list(read_batches(files, PATH, [], batch_rows=300))
    assert [b.num_rows for b in batches] == [300, 300, 300, 100]
    assert batches[0].num_columns == 0
    only = Compare("==", "c1", 127)
    matching = list(read_batches(files, PATH, [], predicate=only, predicate_fields=scalar_fields()))
    assert sum(b.num_rows for b in matching) == 333


def test_an_empty_file_gives_no_batches():
    files, _ = write(sample_batch(rows=0), scalar_fields())
    assert list(read_batches(files, PATH, scalar_fields(), row_count=0)) == []


def test_a_renamed_column_is_found_by_id_and_a_missing_one_is_null():
    written = [field(0, "a", "INT"), field(1, "b", "STRING")]
    files, _ = write(batch_of(written, [[1, 2], ["x", "y"]]), written)
    wanted = [field(1, "renamed", "STRING"), field(7, "added", "DATE"), field(0, "a", "INT")]
    assert read(files, wanted).to_pydict() == {
        "renamed": ["x", "y"],
        "added": [None, None],
        "a": [1, 2],
    }


def test_only_missing_columns_still_give_all_rows():
    written = [field(0, "a", "INT")]
    files, _ = write(batch_of(written, [[1, 2, 3]]), written)
    assert read(files, [field(7, "new", "STRING")]).to_pydict() == {"new": [None] * 3}


def test_a_column_dropped_and_added_anew_is_not_the_old_one():
    written = [field(0, "k", "INT"), field(1, "v", "INT")]
    files, _ = write(batch_of(written, [[1], [5]]), written)
    assert read(files, [field(9, "v", "INT")]).to_pydict() == {"v": [None]}


def test_a_file_without_ids_is_read_by_name():
    files = put_parquet(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}))
    wanted = [field(41, "b", "STRING"), field(40, "a", "INT")]
    assert read(files, wanted).to_pydict() == {"b": ["x"], "a": [1]}


def test_a_missing_column_of_the_files_own_schema_is_damage():
    written = [field(0, "a", "INT")]
    files, _ = write(batch_of(written, [[1]]), written)
    wanted = [field(0, "a", "INT"), field(5, "b", "INT")]
    with pytest.raises(CorruptError, match="'b' is missing"):
        read(files, wanted, file_fields=wanted)
    with pytest.raises(CorruptError, match="'k' is missing"):
        read(files, [field(6, "k", "INT NOT NULL")])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("TINYINT", "SMALLINT"),
        ("SMALLINT", "INT"),
        ("INT", "BIGINT"),
        ("TINYINT", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("INT", "DOUBLE"),
        ("SMALLINT", "FLOAT"),
        ("BIGINT", "DECIMAL(20, 0)"),
        ("INT", "DECIMAL(12, 2)"),
        ("DECIMAL(9, 2)", "DECIMAL(20, 5)"),
        ("CHAR(3)", "STRING"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    ],
)
def test_wider_types_keep_the_values(source, target):
    written, wanted = [field(0, "c", source)], [field(0, "c", target)]
    batch = sample_batch(written)
    files, _ = write(batch, written)
    got = read(files, wanted)
    assert got.schema.types == batch_of(wanted, [[]]).schema.types
    assert got["c"].to_pylist() == batch.column("c").to_pylist()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("BIGINT", "INT"),
        ("DOUBLE", "FLOAT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "FLOAT"),
        ("INT", "STRING"),
        ("STRING", "INT"),
        ("BYTES", "STRING"),
        ("STRING", "BYTES"),
        ("DECIMAL(18, 3)", "DECIMAL(18, 2)"),
        ("DECIMAL(9, 2)", "DECIMAL(9, 3)"),
        ("BIGINT", "DECIMAL(18, 0)"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("DATE", "TIMESTAMP(3)"),
        ("BOOLEAN", "INT"),
    ],
)
def test_other_type_changes_are_refused_by_name(source, target):
    written, wanted = [field(0, "c", source)], [field(0, "c", target)]
    files, _ = write(sample_batch(written), written)
    with pytest.raises(UnsupportedError, match=f"'c'.*{PATH}"):
        read(files, wanted)


def test_other_arrow_forms_of_a_type_are_read():
    table = pa.table(
        {
            "a": pa.array(["x", None]).dictionary_encode(),
            "b": pa.array(["y", "z"], pa.large_string()),
            "c": pa.array([b"12", b"34"], pa.binary(2)),
        }
    )
    files = put_parquet(table, ids=[0, 1, 2])
    wanted = [field(0, "a", "STRING"), field(1, "b", "STRING"), field(2, "c", "BINARY(2)")]
    assert read(files, wanted).to_pydict() == {
        "a": ["x", None],
        "b": ["y", "z"],
        "c": [b"12", b"34"],
    }


def test_int96_beyond_nanoseconds_is_refused_and_not_wrapped():
    years = pa.array([0, 253_370_764_800_000_000], pa.timestamp("us"))  # 1970 and 9999
    files = put_parquet(
        pa.table({"t": years, "a": [1, 2]}), ids=[0, 1], use_deprecated_int96_timestamps=True
    )
    with pytest.raises(UnsupportedError, match="'t'"):
        read(files, [field(0, "t", "TIMESTAMP(9)")])
    assert read(files, [field(1, "a", "BIGINT")])["a"].to_pylist() == [1, 2]


def test_int96_that_fits_a_coarser_type_is_read_exactly_or_refused():
    times = pa.array([-1000, 1_000_000], pa.timestamp("ns"))
    files = put_parquet(pa.table({"t": times}), ids=[0], use_deprecated_int96_timestamps=True)
    got = read(files, [field(0, "t", "TIMESTAMP(6)")])
    assert got["t"].cast(pa.int64()).to_pylist() == [-1, 1000]
    with pytest.raises(UnsupportedError, match="'t'"):
        read(files, [field(0, "t", "TIMESTAMP(3)")])


def test_the_predicate_holds_for_every_row_and_needs_no_projection():
    fields = [field(0, "a", "INT"), field(1, "b", "STRING")]
    batch = batch_of(fields, [list(range(1000)), [f"v{i}" for i in range(1000)]])
    files, _ = write(batch, fields, options=FormatOptions(row_group_rows=100))
    got = read(files, fields[1:], predicate=Compare(">=", "a", 950), predicate_fields=fields)
    assert got.to_pydict() == {"b": [f"v{i}" for i in range(950, 1000)]}


def test_row_groups_that_cannot_match_are_not_read():
    fields = [field(0, "a", "INT")]
    files, _ = write(
        batch_of(fields, [list(range(1000))]), fields, options=FormatOptions(row_group_rows=100)
    )
    data = bytearray(files.read_bytes(PATH))
    start = pq.read_metadata(files.open_input(PATH)).row_group(5).column(0).data_page_offset
    data[start : start + 50] = bytes(50)  # a group that is read would be found damaged
    files.replace(PATH, bytes(data))
    got = read(files, fields, predicate=Compare("==", "a", 123))
    assert got["a"].to_pylist() == [123]
    with pytest.raises(CorruptError):
        read(files, fields, predicate=Compare("==", "a", 555))


def test_a_missing_column_never_matches_a_comparison():
    fields = [field(0, "a", "INT")]
    files, _ = write(batch_of(fields, [[1]]), fields)
    added = field(1, "b", "INT")
    predicate = Compare("==", "b", 1)
    assert (
        list(read_batches(files, PATH, fields, predicate=predicate, predicate_fields=[added])) == []
    )


def test_a_missing_file_is_not_found():
    with pytest.raises(NotFoundError):
        read(MemoryFileIO(), scalar_fields())


def test_size_and_rows_must_be_the_manifests():
    files, footer = write(sample_batch(), scalar_fields())
    with pytest.raises(CorruptError, match=PATH):
        read(files, scalar_fields(), file_size_bytes=footer.size_bytes + 1)
    with pytest.raises(CorruptError, match="3 rows, but the manifest says 4"):
        read(files, scalar_fields(), row_count=4)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1PAR1", b"not a parquet file at all", b"\0" * 5000]
)
def test_what_is_no_parquet_file_is_corrupt(content):
    files = MemoryFileIO()
    files.write_once(PATH, content)
    with pytest.raises(CorruptError, match=PATH):
        read(files, scalar_fields())


def test_a_truncated_file_is_corrupt():
    files, _ = write(sample_batch(rows=500), scalar_fields())
    data = files.read_bytes(PATH)
    for length in range(0, len(data), len(data) // 50):
        files.replace(PATH, data[:length])
        with pytest.raises(CorruptError, match=PATH):
            read(files, scalar_fields())


def test_a_damaged_byte_gives_the_true_rows_or_an_error():
    fields = scalar_fields()
    batch = sample_batch(rows=400)
    files, footer = write(batch, fields, options=FormatOptions(row_group_rows=150))
    expected = pa.Table.from_batches([batch])
    good = files.read_bytes(PATH)
    rng = random.Random(7)
    refused = 0
    for _ in range(1500):
        data = bytearray(good)
        position = rng.randrange(len(data))
        data[position] ^= 1 << rng.randrange(8)
        files.replace(PATH, bytes(data))
        try:
            got = read(
                files, fields, file_fields=fields, row_count=400, file_size_bytes=footer.size_bytes
            )
        except (CorruptError, UnsupportedError):
            refused += 1
            continue
        assert got.equals(expected), f"byte {position} of {len(data)}"
    assert refused > 500


def test_two_columns_of_one_id_are_corrupt():
    files = put_parquet(pa.table({"a": [1], "b": [2]}), ids=[3, 3])
    with pytest.raises(CorruptError, match="same name or field id"):
        read(files, [field(3, "a", "BIGINT")])


def test_a_storage_error_stays_one():
    files, _ = write(sample_batch(), scalar_fields())
    with pytest.raises(StorageError):
        read(FaultyFileIO(files, {1: FaultMode.EIO_BEFORE}), scalar_fields())


def test_a_reader_left_early_closes_its_file(tmp_path):
    path = str(tmp_path / "a.parquet")
    files, _ = write(sample_batch(rows=100), scalar_fields(), files=LocalFileIO(), path=path)
    opened = []
    plain = files.open_input

    def watched(name):
        opened.append(plain(name))
        return opened[-1]

    files.open_input = watched
    batches = iter(read_batches(files, path, scalar_fields(), batch_rows=10))
    next(batches)
    batches.close()
    assert [f.closed for f in opened] == [True]


def _fixture_files(oracle_dir):
    for schema_dir in sorted((oracle_dir / "fixtures").glob("warehouse*/**/schema")):
        yield schema_dir.parent, sorted(schema_dir.parent.rglob("*.parquet"))


def test_every_file_of_java_reads_as_arrow_reads_it(oracle_dir):
    files = LocalFileIO()
    count = 0
    for table, paths in _fixture_files(oracle_dir):
        newest = max((table / "schema").iterdir(), key=lambda p: int(p.name.split("-")[1]))
        schema = TableSchema.from_json(newest.read_bytes())
        for path in paths:
            parquet = pq.ParquetFile(path)
            by_id = {int(f.metadata[b"PARQUET:field_id"]): f for f in parquet.schema_arrow}
            wanted = [
                f
                for f in schema.fields
                if f.id in by_id and not f.type.is_nested and f.type.root.value != "VARIANT"
            ]
            got = pa.Table.from_batches(
                list(
                    read_batches(
                        files,
                        str(path),
                        wanted,
                        file_size_bytes=path.stat().st_size,
                        row_count=parquet.metadata.num_rows,
                    )
                ),
            )
            plain = parquet.read()
            for f in wanted:
                expected = plain[by_id[f.id].name]
                actual = got[f.name]
                if actual.type != expected.type:
                    expected = pc.cast(expected, actual.type)
                same = actual.equals(expected)
                if pa.types.is_floating(actual.type):  # NaN equals nothing: compare the text
                    same = str(actual.to_pylist()) == str(expected.to_pylist())
                assert same, (path, f.name)
            count += 1
    assert count > 100, "the fixtures hold 122 Parquet files"


def test_system_columns_of_java_are_found(oracle_dir):
    from tidelake.format import kv_fields

    table = oracle_dir / "fixtures" / "warehouse" / "db.db" / "pk_fixed"
    schema = TableSchema.from_json((table / "schema" / "schema-0").read_bytes())
    document = json.loads((table / "schema" / "schema-0").read_text())
    assert document["primaryKeys"]
    fields = kv_fields(schema)
    for path in table.rglob("data-*.parquet"):
        got = read(LocalFileIO(), fields, path=str(path), file_fields=fields)
        key = schema.trimmed_primary_keys[0]
        assert got[f"_KEY_{key}"].equals(got[key])
        assert pc.min(got["_SEQUENCE_NUMBER"]).as_py() >= 0


JULIAN_DAY_1970 = 2_440_588


def int96_file(days_and_nanos, *, wrap=lambda column: column):
    """A file with INT96 values as given, which no writer at hand would write: Java's."""
    stored = [struct.pack("<qI", nanos, JULIAN_DAY_1970 + day) for day, nanos in days_and_nanos]
    column = wrap(pa.array([*stored, None], pa.binary(12)))
    table = pa.table({"t": column, "k": pa.array(range(len(column)), pa.int32())})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=3)
    data = sink.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    # the column's type and its width in the schema, its type in each row group
    assert footer.count(b"\x15\x0e\x15\x18\x15") == 1
    footer = footer.replace(b"\x15\x0e\x15\x18\x15", b"\x15\x06\x25")
    footer = footer.replace(b"\x1c\x15\x0e", b"\x1c\x15\x06")
    files = MemoryFileIO()
    tail = len(footer).to_bytes(4, "little") + b"PAR1"
    files.write_once(PATH, data[: -8 - length] + footer + tail)
    return files


DAY_NS = 86_400 * 10**9


def test_int96_of_java_before_1970_counts_backwards_and_is_read_right():
    pairs = [(0, 5), (0, -1), (-3, -DAY_NS + 1), (0, -1_000_000), (7, 0), (-3, 12), (106_000, 3)]
    files = int96_file(pairs)
    assert pq.ParquetFile(io.BytesIO(files.read_bytes(PATH))).schema.column(0).physical_type == (
        "INT96"
    )
    fields = [field(0, "t", "TIMESTAMP(9)"), field(1, "k", "INT")]
    for rows in (2, 100):
        got = read(files, fields, batch_rows=rows)
        expected = [*(day * DAY_NS + nanos for day, nanos in pairs), None]
        assert got["t"].cast(pa.int64()).to_pylist() == expected
        assert got["k"].to_pylist() == list(range(8))
    with pytest.raises(UnsupportedError, match="1677"):
        read(int96_file([(0, -1), (-106_800, 0)]), fields)
    with pytest.raises(CorruptError, match="more nanoseconds than a day"):
        read(int96_file([(0, -1), (0, DAY_NS)]), fields)


def test_all_that_a_read_of_int96_opens_is_closed_after_it(monkeypatch):
    opened = []
    open_input = MemoryFileIO.open_input

    def noted(files, path):
        opened.append(open_input(files, path))
        return opened[-1]

    files = int96_file([(0, 5), (0, -1)])
    monkeypatch.setattr(MemoryFileIO, "open_input", noted)
    read(files, [field(0, "t", "TIMESTAMP(9)"), field(1, "k", "INT")])
    assert len(opened) == 3
    assert all(file.closed for file in opened)


def test_int96_of_java_before_1970_is_read_inside_nested_columns():
    files = int96_file(
        [(0, -1), (5, 3), (0, -2_000_000)],
        wrap=lambda c: pa.ListArray.from_arrays(pa.array([0, 2, 2, 4]), c),
    )
    fields = [field(0, "t", {"type": "ARRAY", "element": "TIMESTAMP(9)"})]
    (column,) = read(files, fields).columns
    assert column.combine_chunks().cast(pa.list_(pa.int64())).to_pylist() == [
        [-1, 5 * DAY_NS + 3],
        [],
        [-2_000_000, None],
    ]
