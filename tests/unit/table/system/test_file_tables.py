"""$files, $partitions and $buckets say of all files at once what each file says of itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.codec.binary_row import decode_row
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.data_file import EMPTY_ROW, FileSource
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.scan import live_files, read_buckets
from tidelake.table.system.file_tables import FILES, file_paths
from tidelake.types.java_text import java_text


def expected_files(table):
    """The rows of $files, file by file and value by value."""
    handle = table.handle
    context = handle.read_context()
    for bucket in read_buckets(context, handle.snapshots.latest(), manifests=handle.manifests):
        for file in bucket.files:
            schema = context.file_schema(file.schema_id, file_name=file.file_name)
            partition_types = [schema.field(k).type for k in schema.partition_keys]
            values = decode_row(bucket.partition, partition_types)
            partition = ", ".join("null" if v is None else str(v) for v in values)
            yield {
                "partition": f"{{{partition}}}",
                "bucket": bucket.bucket,
                "file_path": handle.paths.data_file(bucket.partition, bucket.bucket, file),
                "file_format": file.file_name.rpartition(".")[2],
                "schema_id": file.schema_id,
                "level": file.level,
                "record_count": file.row_count,
                "file_size_in_bytes": file.file_size_bytes,
                "min_key": key_text(file.min_key, schema),
                "max_key": key_text(file.max_key, schema),
                "min_sequence_number": file.min_sequence_number,
                "max_sequence_number": file.max_sequence_number,
                "creation_time": file.creation_time_ms,
                "deleteRowCount": file.delete_row_count,
                "file_source": FileSource(file.file_source).name,
                "first_row_id": file.first_row_id,
                "write_cols": file.write_cols,
                **stats_texts(file, schema, handle.schema),
            }


def key_text(row, schema):
    if row == EMPTY_ROW:
        return None
    return "[" + ", ".join(texts_of(row, schema, schema.trimmed_primary_keys)) + "]"


def texts_of(row, schema, names):
    types = [schema.field(name).type for name in names]
    return map(java_text, decode_row(row, types), types)


def stats_texts(file, schema, current):
    names = schema.field_names if file.value_stats_cols is None else file.value_stats_cols
    ids = [schema.field(name).id for name in names]
    here = {f.id for f in schema.fields}
    counts = {f.id: file.row_count for f in current.fields if f.id not in here}
    counts |= dict(zip(ids, file.value_stats.null_counts, strict=False))

    def shown(values):
        pairs = sorted((f.name, values.get(f.id)) for f in current.fields)
        return "{" + ", ".join(f"{k}={'null' if v is None else v}" for k, v in pairs) + "}"

    def bounds(row):
        known = () if row == EMPTY_ROW else texts_of(row, schema, names)
        return shown(dict(zip(ids, known, strict=False)))

    return {
        "null_value_counts": shown(counts),
        "min_value_stats": bounds(file.value_stats.min_values),
        "max_value_stats": bounds(file.value_stats.max_values),
    }


def check(table):
    got = table.system_table("files").to_arrow()
    assert got.schema.equals(FILES)
    rows = list(expected_files(table))
    wanted = pa.Table.from_pylist(rows, schema=FILES)
    assert got.to_pylist() == wanted.to_pylist()
    totals = {}
    for row in rows:
        place = (row["partition"], row["bucket"])
        records, size, count = totals.get(place, (0, 0, 0))
        totals[place] = (
            records + row["record_count"],
            size + row["file_size_in_bytes"],
            count + 1,
        )
    buckets = table.system_table("buckets").to_arrow().to_pylist()
    assert [(b["partition"], b["bucket"]) for b in buckets] == list(totals)
    columns = ("record_count", "file_size_in_bytes", "file_count")
    assert [tuple(b[c] for c in columns) for b in buckets] == list(totals.values())
    if table.handle.schema.partition_keys:
        partitions = table.system_table("partitions").to_arrow()
        assert sum(partitions["record_count"].to_pylist()) == sum(r["record_count"] for r in rows)
        assert sum(partitions["file_count"].to_pylist()) == len(rows)
    return rows


SCHEMA = pa.schema(
    {
        "p": pa.string(),
        "k": pa.int64(),
        "s": pa.string(),
        "d": pa.float64(),
        "m": pa.decimal128(9, 2),
    }
)


def rows(p, keys, **more):
    return [{"p": p, "k": k, "s": f"text {k}", "d": k / 7, "m": None} | more for k in keys]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata.stats-dense-store": "false"},
        {"metadata.stats-mode": "none"},
        {"fields.m.stats-mode": "none", "fields.d.stats-mode": "counts"},
        {"metadata.stats-mode": "truncate(2)", "bucket": "3"},
    ],
)
def test_files_of_all_schemas_say_what_each_says(catalog, options):
    table = catalog.create_table(
        "db.f",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", "write-only": "true"} | options,
    )
    table.write(rows("b", range(5)))
    table.write(rows("a", range(3)) + rows("b", [7], s=None))
    table.add_column("later", "INT")
    table.write(rows("a", [9], later=3, d=float("nan")))
    table.rename_column("s", "renamed")
    table.set_options({"metadata.stats-mode": "full"})
    table = catalog.table("db.f")
    table.write([{"p": "c", "k": 1, "renamed": "x", "d": 1e-5, "m": None, "later": None}])
    assert len(check(table)) > 4


def test_files_of_append_tables_have_no_key(catalog):
    table = catalog.create_table("db.a", SCHEMA)
    assert table.system_table("files").to_arrow().num_rows == 0
    for number in range(3):
        table.write(rows("x", range(number + 1)))
    assert {row["min_key"] for row in check(table)} == {None}


def test_a_file_name_that_leads_elsewhere_is_damage(catalog):
    table = catalog.create_table("db.a", SCHEMA)
    table.write(rows("x", range(2)))
    handle = table.handle
    entries = live_files(
        handle.read_context(), handle.snapshots.latest(), manifests=handle.manifests
    )
    for name in ("../x.parquet", "a/b", "", ".", "..", "n" * 300, "a\\b"):
        place = entries.batch.schema.get_field_index("file_name")
        batch = entries.batch.set_column(place, entries.batch.schema.field(place), pa.array([name]))
        with pytest.raises(CorruptError, match="not a plain file name"):
            file_paths(handle, EntryTable(batch, entries.partitions))
    odd = entries.batch.set_column(
        place, entries.batch.schema.field(place), pa.array(["größe .parquet"])
    )
    (path,) = file_paths(handle, EntryTable(odd, entries.partitions)).to_pylist()
    assert path.endswith("/bucket-0/größe .parquet")


def test_a_file_outside_the_table_is_refused(catalog):
    table = catalog.create_table("db.a", SCHEMA)
    table.write(rows("x", range(2)))
    handle = table.handle
    entries = live_files(
        handle.read_context(), handle.snapshots.latest(), manifests=handle.manifests
    )
    place = entries.batch.schema.get_field_index("external_path")
    batch = entries.batch.set_column(
        place, entries.batch.schema.field(place), pa.array(["s3://b/data.parquet"])
    )
    with pytest.raises(UnsupportedError, match="outside the table"):
        file_paths(handle, EntryTable(batch, entries.partitions))


def test_the_time_of_the_last_update_is_that_of_a_file_that_is_gone_already(catalog):
    """Java takes what manifests still say of removed files into it."""
    table = catalog.create_table(
        "db.t",
        pa.schema({"p": pa.string(), "k": pa.int64()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 8},
    )
    table.write([{"p": "a", "k": 1}, {"p": "b", "k": 1}])
    table.write([{"p": "a", "k": 2}], row_kinds=["-D"])
    gone = table.system_table("files").to_arrow()
    times = sorted(row["creation_time"] for row in gone.to_pylist() if row["partition"] == "{a}")
    table.compact(full=True)
    left = table.system_table("files").to_arrow().to_pylist()
    assert [row["record_count"] for row in left] == [1, 1], "the delete is gone"
    assert left[0]["creation_time"] == times[0] < times[1]
    updated = table.system_table("partitions").to_arrow()["last_update_time"].to_pylist()
    assert updated == [times[1], left[1]["creation_time"]]
    updated = table.system_table("buckets").to_arrow()["last_update_time"].to_pylist()
    assert updated == [row["creation_time"] for row in left]
