"""Deletes on append tables, mostly by deletion vectors: rows, files, other commits, damage."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.fsck import check_table

import tidelake
from tidelake.errors import ConflictError, CorruptError, InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.index.deletion_file import deletion_ranges
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.table.rowlevel import append_delta
from tidelake.table.write import transaction
from tidelake.table.write.result import WriteResult
from tidelake.telemetry import Env

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("s", pa.string())])
DV = {"deletion-vectors.enabled": "true"}
LAYOUTS = {
    "unaware": ({}, []),
    "partitioned": ({}, ["p"]),
    "bucketed": ({"bucket": "2", "bucket-key": "k"}, []),
    "64 bit": ({"deletion-vectors.bitmap64": "true"}, ["p"]),
    "many index files": ({"deletion-vector.index-file.target-size": "1 b"}, []),
    "orc": ({"file.format": "orc"}, []),
    "avro": ({"file.format": "avro", "bucket": "1", "bucket-key": "k"}, ["p"]),
}


def rows_of(numbers):
    return [{"p": "ab"[k % 2], "k": k, "s": f"s{k % 5}"} for k in numbers]


def new_table(fileio=None, *, layout="unaware", name="db.t", options=None):
    more, partition_keys = LAYOUTS[layout]
    fileio = fileio or MemoryFileIO()
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(1))
    return catalog.create_table(
        name, SCHEMA, partition_keys=partition_keys, options=DV | more | (options or {})
    )


def filled(layout="unaware", options=None, *, files=4, rows=10):
    table = new_table(layout=layout, options=options)
    for i in range(files):
        table.write(rows_of(range(i * rows, (i + 1) * rows)))
    return table


def keys_in(table, **scan):
    return sorted(table.to_arrow(columns=["k"], **scan).column("k").to_pylist())


def checked(table, expected):
    """Rows, count, limit and files are as expected."""
    expected = sorted(expected)
    assert keys_in(table) == expected
    assert table.count() == len(expected)
    assert table.to_arrow(limit=5).num_rows == min(5, len(expected))
    assert table.count(where="s = 's1'") == sum(k % 5 == 1 for k in expected)
    check_table(
        table.fileio, table.paths.location, read_data=not table.options.raw.get("file.format")
    )


def snapshot_of(table):
    return table.handle.snapshots.latest()


def index_of(table):
    handle = table.handle
    return index_entries(handle.fileio, handle.paths, snapshot_of(table), handle.manifests)


def data_files(table):
    return set(table.system_table("files").to_arrow().column("file_path").to_pylist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_deleted_rows_are_gone_and_no_data_file_changes(layout):
    table = filled(layout)
    files = data_files(table)
    result = table.delete("s = 's3'")
    assert result.rows == 8
    left = [k for k in range(40) if k % 5 != 3]
    checked(table, left)
    assert table.delete("k >= 20 and k < 30").rows == 8
    left = [k for k in left if not 20 <= k < 30]
    checked(table, left)
    assert data_files(table) == files
    assert snapshot_of(table).commit_kind is CommitKind.OVERWRITE
    assert keys_in(table, snapshot_id=table.latest_snapshot_id - 1) == sorted(
        k for k in range(40) if k % 5 != 3
    )
    table.write(rows_of(range(100, 105)))
    checked(table, [*left, *range(100, 105)])
    newest = table.latest_snapshot_id
    assert table.delete("k < 0") == WriteResult()
    assert table.delete("s = 's3' and k < 100").rows == 0
    assert table.latest_snapshot_id == newest


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compaction_leaves_deleted_rows_out_and_takes_the_vectors_along(layout):
    table = filled(layout, {"compaction.min.file-num": "100"})
    table.delete("s in ('s0', 's1')")
    left = [k for k in range(40) if k % 5 > 1]
    before = table.latest_snapshot_id
    table.compact(full=True)
    checked(table, left)
    assert index_of(table) == ()
    assert "rows deleted" not in str(table.explain())
    assert table.changes(before).num_rows == 0
    table.delete("k > 30")
    checked(table, [k for k in left if k <= 30])


def test_changes_tell_the_rows_that_were_deleted():
    table = filled()
    table.delete("k = 3")
    table.delete("k in (4, 33)")
    changes = table.changes(4)
    assert changes.column("_row_kind").to_pylist() == ["-D"] * 3
    assert sorted(changes.column("k").to_pylist()) == [3, 4, 33]
    assert table.changes(5).column("k").to_pylist() == [4, 33]
    table.write(rows_of([50]))
    assert sorted(map(tuple, map(dict.values, table.changes(5, columns=["k"]).to_pylist()))) == [
        ("+I", 50),
        ("-D", 4),
        ("-D", 33),
    ]
    table.compact(full=True)
    assert sorted(table.changes(5).column("k").to_pylist()) == [4, 33, 50]
    assert len(keys_in(table, snapshot_id=4)) == table.changes(0, 4).num_rows == 40


def test_vectors_that_share_an_index_file_are_kept():
    table = filled("many index files")
    table.delete("k in (1, 11, 21)")
    assert len(index_of(table)) == 3
    table.delete("k = 12")
    entries = index_of(table)
    assert len(entries) == 3  # only that of the second file was replaced
    assert sum(w.cardinality for w in deletion_ranges(table.paths, entries).values()) == 4
    table = filled()
    table.delete("k in (1, 11, 21)")
    table.delete("k = 12")
    (entry,) = index_of(table)
    assert entry.file.row_count == 3
    assert [cardinality for *_, cardinality in entry.file.ranges] == [1, 1, 2]


def test_a_bucket_has_one_index_file():
    table = filled("bucketed", {"deletion-vector.index-file.target-size": "1 b"})
    for value in ("s1", "s2"):
        table.delete(f"s = '{value}'")
        places = [(e.partition, e.bucket) for e in index_of(table)]
        assert len(places) == len(set(places)) == 2


def test_files_that_are_worn_are_rewritten_however_large_they_are():
    table = filled(options={"target-file-size": "1 b", "compaction.delete-ratio-threshold": "0.5"})
    table.delete("k < 5")
    table.compact()
    assert len(data_files(table)) == 4
    assert len(index_of(table)) == 1
    table.delete("k = 5 or k = 10")
    table.compact()  # more than half of the first file; of the second a tenth
    checked(table, [k for k in range(6, 40) if k != 10])
    (entry,) = index_of(table)
    assert [cardinality for *_, cardinality in entry.file.ranges] == [1]


def test_a_file_of_which_every_row_is_deleted_is_gone_after_a_compaction():
    table = filled()
    table.delete("k < 10")
    checked(table, range(10, 40))
    table.compact(full=True)
    checked(table, range(10, 40))
    table.delete("k >= 0")
    checked(table, [])
    table.compact(full=True)
    assert data_files(table) == set()
    checked(table, [])


def test_overwritten_and_dropped_partitions_lose_their_vectors():
    table = filled("partitioned")
    table.delete("s = 's1'")
    assert len({e.partition for e in index_of(table)}) == 2
    table.drop_partitions([{"p": "a"}])
    assert len({e.partition for e in index_of(table)}) == 1
    odd = [k for k in range(1, 40, 2) if k % 5 != 1]
    checked(table, odd)
    table.write(rows_of([101]), mode="overwrite")
    checked(table, [101])
    table.delete("k = 101")
    checked(table, [])
    table.truncate()
    assert index_of(table) == ()


@pytest.mark.parametrize("layout", ["unaware", "bucketed"])
def test_a_delete_that_loses_against_another_is_done_again(layout, monkeypatch):
    table = filled(layout)
    once = itertools.chain([lambda: table.delete("k = 1")], itertools.repeat(lambda: None))
    real = append_delta.BucketDeletions.write

    def write(self):
        change = real(self)
        monkeypatch.setattr(append_delta.BucketDeletions, "write", real)
        next(once)()
        return change

    monkeypatch.setattr(append_delta.BucketDeletions, "write", write)
    assert table.delete("k = 1 or k = 2").rows == 1
    checked(table, [0, *range(3, 40)])
    named = {e.file.file_name for e in index_of(table)}
    there = {s.name for s in table.fileio.list_dir(f"{table.paths.location}/index")}
    assert named <= there
    assert len(there) <= 4  # nothing of the attempt that lost is left


def test_a_delete_gives_up_where_others_are_always_faster(monkeypatch):
    table = filled(files=2, rows=20)
    real = append_delta.BucketDeletions.write
    keys = itertools.count(20)

    def write(self):
        change = real(self)
        monkeypatch.setattr(append_delta.BucketDeletions, "write", real)
        table.delete(f"k = {next(keys)}")
        monkeypatch.setattr(append_delta.BucketDeletions, "write", write)
        return change

    monkeypatch.setattr(append_delta.BucketDeletions, "write", write)
    with pytest.raises(ConflictError, match="deletion vectors"):
        table.delete("k >= 20")
    monkeypatch.undo()
    assert keys_in(table) == [*range(20), *range(20 + transaction.TRIES_MAX, 40)]


def test_deletes_in_different_files_do_not_meet_the_first_time(monkeypatch):
    table = filled()
    real = append_delta.BucketDeletions.write
    written = []

    def write(self):
        change = real(self)
        written.append(change)
        if len(written) == 1:
            table.delete("k = 1")
        return change

    monkeypatch.setattr(append_delta.BucketDeletions, "write", write)
    assert table.delete("k = 31").rows == 1
    monkeypatch.undo()
    assert len(written) == 2  # neither was done again
    checked(table, [k for k in range(40) if k not in {1, 31}])


@pytest.mark.parametrize("layout", ["unaware", "bucketed"])
def test_a_compaction_gives_way_to_a_delete_that_came_first(layout, monkeypatch):
    table = filled(layout, {"compaction.min.file-num": "100"})
    committer = type(table.handle.committer())
    real = committer.commit

    def commit(self, messages, **rest):
        monkeypatch.setattr(committer, "commit", real)
        table.delete("k = 7")
        return real(self, messages, **rest)

    monkeypatch.setattr(committer, "commit", commit)
    if layout == "unaware":  # the delete has changed the only bucket
        with pytest.raises(ConflictError, match=r"rewrote 1 bucket .* Nothing was changed"):
            table.compact(full=True)
    else:
        assert table.compact(full=True).compactions_dropped == 1
    checked(table, [k for k in range(40) if k != 7])
    table.compact(full=True)
    checked(table, [k for k in range(40) if k != 7])


def test_a_delete_of_rows_that_a_compaction_moved_is_done_again(monkeypatch):
    table = filled(options={"compaction.min.file-num": "2"})
    real = append_delta.BucketDeletions.write

    def write(self):
        change = real(self)
        monkeypatch.setattr(append_delta.BucketDeletions, "write", real)
        table.compact(full=True)
        return change

    monkeypatch.setattr(append_delta.BucketDeletions, "write", write)
    assert table.delete("k = 1").rows == 1
    checked(table, [0, *range(2, 40)])


def test_rows_deleted_while_buckets_are_rescaled_do_not_come_back(monkeypatch):
    table = filled("bucketed")
    committer = type(table.handle.committer())
    real = committer.overwrite

    def overwrite(self, messages, **rest):
        monkeypatch.setattr(committer, "overwrite", real)
        table.delete("k = 7")
        return real(self, messages, **rest)

    monkeypatch.setattr(committer, "overwrite", overwrite)
    with pytest.raises(ConflictError):
        table.rescale_bucket(3)
    checked(table, [k for k in range(40) if k != 7])
    table.rescale_bucket(3)
    assert keys_in(table) == [k for k in range(40) if k != 7]


def test_a_commit_with_an_identity_is_done_once():
    table = filled()
    assert table.delete("k = 1", commit_user="u", commit_identifier=1).rows == 1
    again = table.delete("k = 2", commit_user="u", commit_identifier=1)
    assert again.already_committed
    checked(table, [0, *range(2, 40)])


def test_keys_are_no_way_to_delete_and_the_option_stays():
    with pytest.raises(UnsupportedError, match="no primary key"):
        filled().delete([{"k": 1}])
    with pytest.raises(InvalidInputError, match="cannot be set"):
        filled().with_options({"deletion-vectors.enabled": "false"})


def test_a_damaged_index_file_is_an_error_and_no_row_comes_back():
    table = filled()
    table.delete("k = 1")
    (entry,) = index_of(table)
    path = table.paths.index_file(entry.partition, entry.bucket, entry.file.file_name)
    data = bytearray(table.fileio.read_bytes(path))
    data[-6] ^= 1
    table.fileio.replace(path, bytes(data))
    for use in (
        table.to_arrow,
        lambda: table.delete("k = 2"),
        lambda: table.compact(full=True),
        lambda: table.changes(1),
    ):
        with pytest.raises(CorruptError, match=entry.file.file_name):
            use()
    assert table.count() == 39  # the manifest knows


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 12)),
            st.tuples(st.just("delete"), st.integers(0, 60), st.integers(0, 12)),
            st.tuples(st.just("value"), st.integers(0, 4)),
            st.tuples(st.just("compact"), st.booleans()),
        ),
        max_size=8,
    ),
)
def test_any_deletes_equal_those_of_a_list(layout, operations):
    table = new_table(layout=layout, options={"compaction.min.file-num": "3"})
    rows: list[int] = []
    states = {}
    for operation in operations:
        match operation:
            case ("write", count):
                new = range(len(rows), len(rows) + count)
                table.write(rows_of(new))
                rows += new
            case ("delete", low, count):
                table.delete(f"k >= {low} and k < {low + count}")
                rows = [k for k in rows if not low <= k < low + count]
            case ("value", value):
                table.delete(f"s = 's{value}'")
                rows = [k for k in rows if k % 5 != value]
            case ("compact", full):
                table.compact(full=full)
        if table.latest_snapshot_id is not None:
            states[table.latest_snapshot_id] = sorted(rows)
    if states:
        checked(table, rows)
    for snapshot_id, expected in states.items():
        assert keys_in(table, snapshot_id=snapshot_id) == expected
        changes = table.changes(snapshot_id)
        state = expected.copy()
        for kind, k in zip(*changes.select(["_row_kind", "k"]).to_pydict().values(), strict=True):
            state.append(k) if kind == "+I" else state.remove(k)
        assert sorted(state) == sorted(rows)
