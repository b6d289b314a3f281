"""Tables whose files are of other formats than Parquet, or of several at once."""

from __future__ import annotations

import pytest

import tidelake
from tidelake.errors import UnsupportedError

FORMATS = ("parquet", "orc", "avro")
COLUMNS = {"k": "INT NOT NULL", "v": "STRING", "n": "BIGINT"}


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(str(tmp_path))


def suffixes(tmp_path):
    return sorted(path.suffix for path in tmp_path.rglob("data-*"))


@pytest.mark.parametrize("thin", ["true", "false"])
def test_levels_of_several_formats_are_merged_and_compacted(catalog, tmp_path, thin):
    options = {
        "bucket": "1",
        "file.format": "orc",
        "file.format.per.level": "0:avro",
        "data-file.thin-mode": thin,
        "num-sorted-run.compaction-trigger": "3",
    }
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    expected = {}
    for version in range(7):
        rows = [{"k": k, "v": f"v{version}", "n": version} for k in range(version, 60, version + 1)]
        table.write(rows)
        expected |= {row["k"]: row for row in rows}
        assert table.to_arrow().sort_by("k").to_pylist() == [expected[k] for k in sorted(expected)]
    assert {".avro", ".orc"} <= set(suffixes(tmp_path))
    # from now on Parquet: old files stay what they are until they are rewritten
    table = table.with_options({"file.format": "parquet", "file.format.per.level": None})
    table.write([{"k": 0, "v": "last", "n": None}])
    assert ".parquet" in suffixes(tmp_path)
    table.compact(full=True)
    expected[0] = {"k": 0, "v": "last", "n": None}
    assert table.to_arrow().sort_by("k").to_pylist() == [expected[k] for k in sorted(expected)]
    found = table.to_arrow(where="v = 'v6' and k < 20").sort_by("k").to_pylist()
    assert found == [r for k, r in sorted(expected.items()) if r["v"] == "v6" and k < 20]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_thin_file_has_no_copy_of_the_keys_and_statistics_of_them(catalog, tmp_path, file_format):
    options = {"bucket": "1", "file.format": file_format, "data-file.thin-mode": "true"}
    options |= {"file.compression": "null" if file_format == "avro" else "none"}
    options |= {"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    table.write([{"k": k, "v": "x", "n": k} for k in range(10)])
    (path,) = tmp_path.rglob("data-*")
    assert b"_KEY_k" not in path.read_bytes()
    assert b"_SEQUENCE_NUMBER" in path.read_bytes()
    (file,) = table.plan().splits[0].files
    assert file.key_stats.null_counts == (0,)
    assert file.value_stats.null_counts == (0, None, None)
    assert file.value_stats_cols is None
    assert table.count(where="k = 3") == 1
    assert table.plan(where="k = 11").splits == ()


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("keys", [["k"], []])
def test_old_files_are_read_by_the_names_and_types_they_had(catalog, file_format, keys):
    options = {"file.format": file_format} | ({"bucket": "1"} if keys else {})
    table = catalog.create_table("db.t", COLUMNS, primary_keys=keys, options=options)
    table.write([{"k": k, "v": f"old {k}", "n": k} for k in range(4)])
    table = table.rename_column("v", "w").drop_column("n").add_column("n", "STRING")
    table = table.add_column("v", "INT")
    table.write([{"k": 9, "w": "new", "n": "text", "v": 1}])
    old = [{"k": k, "w": f"old {k}", "n": None, "v": None} for k in range(4)]
    expected = [*old, {"k": 9, "w": "new", "n": "text", "v": 1}]
    assert table.to_arrow().sort_by("k").to_pylist() == expected
    table.compact(full=True)
    assert table.to_arrow().sort_by("k").to_pylist() == expected


def test_statistics_are_chosen_by_column(catalog):
    options = {"fields.n.stats-mode": "counts", "metadata.stats-keep-first-n-columns": "1"}
    table = catalog.create_table("db.t", COLUMNS, options=options)
    table.write([{"k": 1, "v": "x", "n": None}])
    (file,) = table.plan().splits[0].files
    assert file.value_stats_cols == ("k", "n")
    assert file.value_stats.null_counts == (0, 1)


def test_what_cannot_be_written_is_refused_before_anything_is_made(catalog, tmp_path):
    for columns, options in (
        (COLUMNS, {"file.format": "orc", "file.compression": "gzip"}),
        (COLUMNS, {"file.compression.per.level": "3:deflate"}),
        ({"a b": "INT"}, {"file.format.per.level": "5:avro"}),
        ({"a": "VARIANT"}, {"file.format": "orc"}),
    ):
        with pytest.raises(UnsupportedError, match=r"db\.t"):
            catalog.create_table("db.t", columns, options=options)
    assert not list(tmp_path.iterdir())
