"""What every format that finds columns by name keeps: rows, errors, and the schemas on disk."""

from __future__ import annotations

import decimal
import io
import itertools
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from fastavro import reader as avro_reader
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from unit.format.rows import SCALARS, batch_of, field, sample_batch, scalar_fields, values_of, write

from tidelake.errors import ClosedError, CorruptError, InvalidInputError, UnsupportedError
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.format import FormatOptions, format_options, kv_fields, open_writer, read_batches
from tidelake.format.format_options import CODECS, file_suffix
from tidelake.format.stats import ColumnStats
from tidelake.options import Options
from tidelake.types import TableSchema
from tidelake.types.predicate import Compare

FORMATS = ("orc", "avro")
GOLDEN = Path(__file__).parents[2] / "golden"


def path_of(file_format):
    return f"/t/bucket-0/data-1.{file_format}"


def written(batch, fields, file_format, **options):
    path = path_of(file_format)
    return write(batch, fields, path=path, options=FormatOptions(file_format, **options))


def read(files, fields, file_format, **options) -> pa.Table:
    path = path_of(file_format)
    return pa.Table.from_batches(list(read_batches(files, path, fields, **options)))


def old_times_whole(column, type_):
    """ORC holds whole seconds before 1970: Java reads no finer ones of the last right."""
    array = pa.array(column, batch_of([field(0, "c", type_)], [[]]).schema.types[0])
    if "TIMESTAMP" not in type_:
        return array
    second = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[array.type.unit]
    return pa.array(
        [
            v if v is None or v >= 0 else v // second * second
            for v in array.cast("int64").to_pylist()
        ],
        pa.int64(),
    ).cast(array.type)


@pytest.mark.parametrize(
    ("file_format", "compression"), [(f, c) for f in FORMATS for c in CODECS[f]]
)
def test_every_scalar_type_comes_back_with_every_compression(file_format, compression):
    fields, batch = scalar_fields(), sample_batch(rows=100)
    files, footer = written(batch, fields, file_format, compression=compression)
    for file_fields in (fields, ()):
        got = read(
            files,
            fields,
            file_format,
            file_fields=file_fields,
            file_size_bytes=footer.size_bytes,
            row_count=footer.row_count,
        )
        assert got.equals(pa.Table.from_batches([batch]), check_metadata=True)


@pytest.mark.parametrize("file_format", FORMATS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_values_come_back(file_format, data):
    types = data.draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4))
    rows = data.draw(st.integers(1, 12))
    fields = [field(i, f"c{i}", t) for i, t in enumerate(types)]
    columns = [data.draw(st.lists(values_of(t), min_size=rows, max_size=rows)) for t in types]
    if file_format == "orc":
        columns = [old_times_whole(c, t) for c, t in zip(columns, types, strict=True)]
    batch = batch_of(fields, columns)
    files, _ = written(batch, fields, file_format)
    got = read(files, fields, file_format, file_fields=fields, batch_rows=3)
    for name, type_ in zip(batch.schema.names, types, strict=True):
        expected = batch.column(name).to_pylist()
        if file_format == "orc" and type_.startswith("CHAR"):  # Java pads them with spaces there
            expected = [v if v is None else v.rstrip(" ") for v in expected]
        assert repr(got.column(name).to_pylist()) == repr(expected)


@pytest.mark.parametrize("file_format", FORMATS)
def test_columns_are_found_by_the_names_of_the_files_own_schema(file_format):
    then = [field(0, "k", "INT"), field(1, "a", "STRING"), field(2, "b", "STRING")]
    files, _ = written(batch_of(then, [[1, 2], ["x", None], ["p", "q"]]), then, file_format)
    # b was dropped, a renamed to b, c added; k was made wider
    now = [field(1, "b", "STRING"), field(3, "c", "DOUBLE"), field(0, "k", "BIGINT")]
    got = read(files, now, file_format, file_fields=then)
    assert got.to_pydict() == {"b": ["x", None], "c": [None, None], "k": [1, 2]}


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_are_filtered_cut_and_counted(file_format):
    fields = [field(0, "k", "INT"), field(1, "v", "STRING")]
    batch = batch_of(fields, [list(range(1000)), [f"v{i}" for i in range(1000)]])
    files, _ = written(batch, fields, file_format)
    path = path_of(file_format)
    few = list(
        read_batches(
            files,
            path,
            fields[1:],
            predicate=Compare(">", "k", 990),
            predicate_fields=fields,
            file_fields=fields,
        )
    )
    assert [v for b in few for v in b.column("v").to_pylist()] == [
        f"v{i}" for i in range(991, 1000)
    ]
    sizes = [b.num_rows for b in read_batches(files, path, fields, batch_rows=300)]
    assert max(sizes) <= 300
    assert sum(sizes) == 1000
    assert sum(b.num_rows for b in read_batches(files, path, [])) == 1000
    assert read(files, [field(9, "new", "INT")], file_format, file_fields=fields).num_rows == 1000


@pytest.mark.parametrize("file_format", FORMATS)
def test_many_blocks_and_stripes_hold_all_rows_in_order(file_format):
    fields = [field(0, "k", "BIGINT"), field(1, "v", "STRING")]
    rng = random.Random(3)
    numbers = [rng.getrandbits(60) for _ in range(60_000)]
    batch = batch_of(fields, [numbers, [f"{n:x}" for n in numbers]])
    options = format_options(
        Options.parse({"file.format": file_format, "orc.stripe.size": "100000"})
    )
    files, footer = write(batch, fields, path=path_of(file_format), options=options)
    if file_format == "orc":
        file = orc.ORCFile(pa.BufferReader(files.read_bytes(path_of("orc"))))
        assert file.nstripes > 1
    got = read(files, fields, file_format, row_count=footer.row_count)
    assert got.column("k").to_pylist() == numbers
    assert got.column("v").to_pylist() == [f"{n:x}" for n in numbers]


@pytest.mark.parametrize("file_format", FORMATS)
def test_statistics_are_those_of_the_rows(file_format):
    fields = [
        field(0, "t", "STRING"),
        field(1, "d", "DECIMAL(9, 2)"),
        field(2, "x", "DOUBLE"),
        field(3, "n", "INT"),
    ]
    rows = [["b", "a", None], [decimal.Decimal("1.5"), None, decimal.Decimal("-2")]]
    batch = batch_of(fields, [*rows, [1.0, float("nan"), 2.0], [None, None, None]])
    _, footer = written(batch, fields, file_format)
    assert footer.stats == (
        ColumnStats("a", "b", 1),
        ColumnStats(-200, 150, 1),
        ColumnStats(None, None, 0),
        ColumnStats(None, None, 3),
    )


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_damaged_file_is_an_error_that_names_it_and_never_rows_too_many(file_format):
    fields, batch = scalar_fields(), sample_batch(rows=500)
    files, footer = written(batch, fields, file_format)
    whole = files.read_bytes(path_of(file_format))
    rng = random.Random(5)
    refused = 0
    for _ in range(80):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        bad = MemoryFileIO()
        bad.write_once(path_of(file_format), bytes(damaged))
        try:
            got = read(bad, fields, file_format, file_fields=fields, row_count=500)
        except (CorruptError, UnsupportedError) as error:
            refused += path_of(file_format) in str(error)
        else:
            assert got.num_rows == 500
            if file_format == "avro":  # every block has a checksum
                assert got.equals(pa.Table.from_batches([batch]))
    assert refused > 30
    for cut in (0, 3, 17, len(whole) // 2, len(whole) - 1):
        bad = MemoryFileIO()
        bad.write_once(path_of(file_format), whole[:cut])
        with pytest.raises(CorruptError, match=path_of(file_format)):
            read(bad, fields, file_format, file_fields=fields, row_count=500)
        with pytest.raises(CorruptError, match="bytes, but the manifest says"):
            read(bad, fields, file_format, file_size_bytes=footer.size_bytes)


TEXT_FORMS = {
    "alone": ("STRING", "needle"),
    "array": ({"type": "ARRAY", "element": "STRING"}, ["needle"]),
    "row": (
        {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "STRING"}]},
        {"x": "needle"},
    ),
}


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("form", TEXT_FORMS)
def test_a_text_that_is_no_utf8_is_damage(file_format, form):
    """Arrow hands such bytes on, and who looks at them meets an error that names no file."""
    type_, value = TEXT_FORMS[form]
    fields = [field(0, "c", type_)]
    batch = batch_of(fields, [[value]])
    files, _ = written(
        batch, fields, file_format, compression="null" if file_format == "avro" else "none"
    )
    path = path_of(file_format)
    data = files.read_bytes(path)
    assert b"needle" in data, "it is compressed"
    files = MemoryFileIO()
    files.write_once(path, data.replace(b"needle", b"n\xffedle"))
    with pytest.raises(CorruptError, match=path):
        read(files, fields, file_format)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_with_another_number_of_rows_than_the_manifest_says_is_damaged(file_format):
    fields = [field(0, "k", "INT")]
    files, _ = written(batch_of(fields, [[1, 2, 3]]), fields, file_format)
    with pytest.raises(CorruptError, match="3 rows, but the manifest says 4"):
        read(files, fields, file_format, row_count=4)
    with pytest.raises(CorruptError, match="column 'gone' is missing"):
        read(files, [field(1, "gone", "INT")], file_format, file_fields=[field(1, "gone", "INT")])


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_given_up_leaves_nothing_and_takes_no_more(file_format, tmp_path):
    fields = [field(0, "k", "INT NOT NULL")]
    files = LocalFileIO()
    path = f"{tmp_path}/data.{file_format}"
    options = FormatOptions(file_format)
    writer = open_writer(files, path, fields, options, stats_columns=frozenset())
    writer.write(batch_of(fields, [[1]]))
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        writer.write(pa.record_batch({"k": pa.array([None], pa.int32())}))
    writer.abort()
    writer.abort()
    with pytest.raises(ClosedError):
        writer.write(batch_of(fields, [[1]]))
    del writer
    assert list(tmp_path.iterdir()) == []
    open_writer(files, path, fields, options, stats_columns=frozenset()).close()
    assert list(read_batches(files, path, fields)) == []


def test_what_a_format_cannot_hold_is_refused():
    variants = (
        field(0, "a", "VARIANT"),
        field(0, "a", {"type": "ARRAY", "element": "VARIANT"}),
    )
    for file_format, variant in itertools.product(FORMATS, variants):
        with pytest.raises(UnsupportedError, match=r"'a' of type .* cannot hold VARIANT"):
            written(batch_of([variant], [[]]), [variant], file_format)
    for bad in (field(0, "a b", "INT"), field(0, "a", "TIMESTAMP(9)")):
        with pytest.raises(UnsupportedError, match="cannot be written into Avro"):
            written(batch_of([bad], [[]]), [bad], "avro")
    fine = field(0, "t", "TIMESTAMP(6)")
    with pytest.raises(UnsupportedError, match="before 1970 with parts of a"):
        written(batch_of([fine], [[-1]]), [fine], "orc")
    for options in (
        {"file.format": "orc", "file.compression": "gzip"},
        {"file.format": "avro", "file.compression": "lz4"},
        {"file.format": "avro", "avro.codec": "xz"},
        {"file.format.per.level": "0:json"},
    ):
        with pytest.raises(UnsupportedError, match="This version cannot write"):
            format_options(Options.parse(options))
    with pytest.raises(UnsupportedError, match="a format that this version cannot read"):
        list(read_batches(MemoryFileIO(), "/t/data-1.csv", [fine]))


def test_levels_have_their_own_format_compression_and_statistics():
    options = Options.parse(
        {
            "file.format": "orc",
            "file.format.per.level": "0:avro,5:parquet",
            "file.compression.per.level": "0:snappy",
            "metadata.stats-mode.per.level": "0:none",
            "file.suffix.include.compression": "true",
        }
    )
    chosen = [format_options(options, level=level) for level in (0, 1, 5)]
    assert [c.file_format for c in chosen] == ["avro", "orc", "parquet"]
    assert [c.compression for c in chosen] == ["snappy", "zstd", "zstd"]
    assert [c.stats_mode for c in chosen] == ["none", "truncate(16)", "truncate(16)"]
    # names show the table's compression, as Java's
    assert [file_suffix(options, level=n) for n in (0, 1, 5)] == [
        ".zst.avro",
        ".zst.orc",
        ".zst.parquet",
    ]


def key_schema() -> TableSchema:
    fields = (field(100, "k0", "INT NOT NULL"), *scalar_fields())
    return TableSchema(0, fields, 100, (), ("k0",), {}, None, 0)


def test_the_schemas_on_disk_are_the_golden_ones():
    fields = kv_fields(key_schema())
    batch = batch_of(fields, [[] for _ in fields])
    files, _ = written(batch, fields, "avro")
    schema = avro_reader(io.BytesIO(files.read_bytes(path_of("avro")))).writer_schema
    golden = json.loads((GOLDEN / "avro_data_schema.json").read_text())
    assert schema["fields"] == golden["fields"]
    files, _ = written(batch, fields, "orc")
    found = orc.ORCFile(pa.BufferReader(files.read_bytes(path_of("orc")))).schema
    lines = [f"{f.metadata[b'paimon.id'].decode():>10} {f.name} {f.type}" for f in found]
    assert lines == (GOLDEN / "orc_schema.txt").read_text().splitlines()
