"""Changes as the snapshots tell them: changelog files and new rows, in order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from proving.changelog import replay

import tidelake
from tidelake import InvalidInputError, NotFoundError, UnsupportedError

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture
def make(tmp_path):
    catalog = tidelake.open(tmp_path)

    def make_table(*, primary_keys=("k",), **options):
        return catalog.create_table("db.t", SCHEMA, primary_keys=primary_keys, options=options)

    return make_table


def upsert(table, rows, kinds=None, **how):
    table.write([{"k": k, "v": v} for k, v in rows], row_kinds=kinds, **how)


def changes(table, start, end=None, **how):
    return [tuple(row.values()) for row in table.changes(start, end, **how).to_pylist()]


def test_a_changelog_tells_each_commit_and_not_the_net_change(make):
    table = make(**{"changelog-producer": "input", "bucket": "1"})
    upsert(table, [(1, 10), (2, 20)])
    upsert(table, [(1, 10), (1, 11)], ["-U", "+U"])
    upsert(table, [(1, 11)], ["-D"])
    logged = [
        ("+I", 1, 10),
        ("+I", 2, 20),
        ("-U", 1, 10),
        ("+U", 1, 11),
        ("-D", 1, 11),
    ]
    assert changes(table, 0, mode="changelog") == logged
    assert changes(table, 0, mode="auto") == logged
    assert changes(table, 1, 2, mode="changelog") == logged[2:4]
    assert changes(table, 0) == [("+I", 2, 20)]
    assert changes(table, 0, mode="delta") == [*logged[:2], *logged[3:]]  # merged in the buffer
    assert changes(table, 3, mode="changelog") == []


def test_a_changelog_is_named_by_its_snapshot_alone(make):
    table = make(**{"changelog-producer": "input", "bucket": "1"})
    upsert(table, [(1, 10), (1, 11)])
    [snapshot] = table.history().to_pylist()
    assert snapshot["changelog_manifest_list"].startswith("manifest-list-")
    assert snapshot["changelog_record_count"] == 2
    assert snapshot["total_record_count"] == snapshot["delta_record_count"] == 1
    files = table.system_table("files").to_arrow().column("file_path").to_pylist()
    assert len(files) == 1
    assert "/data-" in files[0]


def test_a_row_that_leaves_a_filter_is_a_delete_where_old_rows_are_not_known(make):
    table = make(**{"changelog-producer": "input", "bucket": "1"})
    upsert(table, [(1, 10), (1, 10), (1, 99)], ["+I", "-U", "+U"])
    found = changes(table, 0, mode="changelog", where="v < 50", columns=["v", "k"])
    assert found == [("+I", 10, 1), ("-U", 10, 1), ("-D", 99, 1)]
    assert changes(table, 0, mode="changelog", where="k > 1", columns=["v"]) == []
    with pytest.raises(UnsupportedError, match="lack 'k'") as raised:
        changes(table, 0, mode="changelog", where="v < 50", columns=["v"])
    assert raised.value.kind == "incomplete_changes"


def test_an_update_that_leaves_a_filter_is_a_delete_of_the_old_row(make):
    table = make(**{"changelog-producer": "lookup", "bucket": "1"})
    upsert(table, [(1, 10)])
    upsert(table, [(1, 99)])
    assert changes(table, 0, mode="changelog", where="v < 50", columns=["v"]) == [
        ("+I", 10),
        ("-D", 10),
    ]


def test_rows_that_wait_in_the_postpone_bucket_are_logged_when_they_are_placed(make):
    table = make(**{"changelog-producer": "input", "bucket": "-2"})
    upsert(table, [(1, 10)])
    upsert(table, [(1, 10), (1, 11)], ["-U", "+U"])
    assert changes(table, 0, mode="changelog") == []
    table.compact()
    [*_, placed] = table.history().to_pylist()
    assert (placed["commit_kind"], placed["changelog_record_count"]) == ("COMPACT", 3)
    assert changes(table, 0, mode="changelog") == [("+I", 1, 10), ("-U", 1, 10), ("+U", 1, 11)]


def test_an_overwrite_leaves_no_changelog_and_no_changelog_file(make, tmp_path):
    table = make(**{"changelog-producer": "input", "bucket": "1"})
    upsert(table, [(1, 10)])
    upsert(table, [(2, 20)], mode="overwrite")
    assert changes(table, 0, mode="changelog") == [("+I", 1, 10)]
    assert changes(table, 1) == [("-D", 1, 10), ("+I", 2, 20)]
    assert len(list(tmp_path.rglob("changelog-*"))) == 1


def test_rows_of_append_tables_are_inserts_once_each(make):
    table = make(primary_keys=(), bucket="-1")
    upsert(table, [(1, 10)])
    upsert(table, [(2, 20)])
    table.compact(full=True)
    assert changes(table, 0, mode="auto") == [("+I", 1, 10), ("+I", 2, 20)]
    assert changes(table, 1, mode="delta") == [("+I", 2, 20)]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_parts_of_rows_are_not_given_as_changes(make, engine):
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum", "bucket": "1"}
    if engine == "partial-update":
        del options["fields.v.aggregate-function"]
    table = make(**options)
    upsert(table, [(1, 10)])
    for mode in ("delta", "auto"):
        with pytest.raises(UnsupportedError, match=f"{engine}.*parts of rows") as caught:
            table.changes(0, mode=mode)
        assert caught.value.kind == "stream_without_changelog"
    assert changes(table, 0) == [("+I", 1, 10)]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_parts_of_rows_are_not_given_where_a_changelog_tells_the_changes(make, engine):
    table = make(bucket="1", **{"merge-engine": engine, "changelog-producer": "lookup"})
    upsert(table, [(1, 10)])
    remedy = r"keeps a changelog, .*parts of rows.* Read the changelog \(mode='changelog'\) or the"
    with pytest.raises(UnsupportedError, match=remedy):
        table.changes(0, mode="delta")
    assert changes(table, 0, mode="auto") == [("+I", 1, 10)]


def test_a_changelog_that_nobody_wrote_is_not_an_empty_one(make):
    table = make(bucket="1")
    upsert(table, [(1, 10)])
    with pytest.raises(UnsupportedError, match="'changelog-producer' is 'none'"):
        table.changes(0, mode="changelog")
    upsert(table, [(1, 11)], options={"changelog-producer": "input"})
    assert changes(table, 0, mode="changelog") == [("+I", 1, 11)]


def test_a_mode_that_is_not_there_is_refused(make):
    table = make(bucket="1")
    with pytest.raises(InvalidInputError, match="'diff', 'changelog', 'delta' or 'auto'"):
        table.changes(0, mode="log")


def test_a_snapshot_that_has_expired_is_named(make, tmp_path):
    table = make(**{"changelog-producer": "input", "bucket": "1"})
    for v in range(3):
        upsert(table, [(1, v)])
    next(tmp_path.rglob("snapshot-1")).unlink()
    next(tmp_path.rglob("EARLIEST")).write_text("2")
    assert changes(table, 2, mode="changelog") == [("+I", 1, 2)]
    with pytest.raises(NotFoundError, match="1"):
        table.changes(0, mode="changelog")


def test_the_changelog_of_a_compaction_that_gave_way_is_not_told(make):
    """Two writers compact one bucket fully; only one may say what that changed."""
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"}
    table = make(**options, bucket="1")
    upsert(table, [(1, 1), (2, 2)])
    first, second = table.writer(), table.writer()
    first.write([{"k": 1, "v": 11}])
    second.write([{"k": 2, "v": 22}, {"k": 3, "v": 33}])
    assert first.commit().compactions_dropped == 0
    assert second.commit().compactions_dropped == 1
    upsert(table, [(4, 4)])
    state = replay({}, changes(table, 0, mode="changelog"))
    assert state == {1: (1, 11), 2: (2, 22), 3: (3, 33), 4: (4, 4)}


@pytest.mark.parametrize("producer", ["input", "full-compaction", "lookup"])
def test_a_write_that_is_given_up_leaves_no_changelog_file(make, tmp_path, producer):
    options = {"changelog-producer": producer, "full-compaction.delta-commits": "1"}
    table = make(**options, bucket="1")
    upsert(table, [(1, 1)])
    before = {path.name for path in tmp_path.rglob("*.parquet")}
    out = table.writer(options={"write-buffer-size": "1 b", "write-buffer-spillable": "false"})
    out.write([{"k": 1, "v": 2}])
    out.write([{"k": 2, "v": 2}])
    assert {path.name for path in tmp_path.rglob("*.parquet")} > before
    out.abort()
    assert {path.name for path in tmp_path.rglob("*.parquet")} == before


def test_changes_of_older_schemas_have_the_columns_of_now(make):
    table = make(**{"changelog-producer": "input"}, bucket="1")
    upsert(table, [(1, 10)])
    table.alter(
        tidelake.RenameColumn("v", "w"), tidelake.AddColumn("x", "STRING"), tidelake.DropColumn("w")
    )
    table.alter(tidelake.AddColumn("v", "INT"))
    table.write([{"k": 1, "x": "new", "v": 5}])
    assert changes(table, 0, mode="changelog") == [("+I", 1, None, None), ("+I", 1, "new", 5)]
    assert view_rows(table) == [("+I", 1, "new", 5)]


def view_rows(table):
    return [tuple(row.values()) for row in table.system_table("audit_log").to_arrow().to_pylist()]


@pytest.mark.parametrize("mode", ["changelog", "delta"])
def test_files_of_other_partitions_are_not_opened(tmp_path, mode):
    table = tidelake.open(tmp_path).create_table(
        "db.t",
        {"p": "STRING", "k": "INT"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    table.write([{"p": "a", "k": 1}, {"p": "b", "k": 2}])
    for path in tmp_path.rglob("p=b/**/*.parquet"):
        path.unlink()
    assert changes(table, 0, mode=mode, where="p = 'a' AND k < 9") == [("+I", "a", 1)]
    with pytest.raises(tidelake.TidelakeError):
        changes(table, 0, mode=mode)
