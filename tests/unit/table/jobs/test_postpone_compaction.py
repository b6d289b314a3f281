"""The postpone bucket: rows wait unseen, in order, until a compaction gives them a bucket."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.reach import missing, stray

import tidelake
from tidelake import ConflictError, InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.table.jobs import postpone_compaction
from tidelake.telemetry import Env

COLUMNS = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()})


def make(catalog, name="db.t", **options):
    return catalog.create_table(
        name,
        COLUMNS,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": -2, **options},
    )


@pytest.fixture
def table(catalog):
    return make(catalog)


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=lambda r: (str(r["p"]), r["k"]))


def live(table):
    handle = table.handle
    return live_entries(
        handle.fileio, handle.paths, handle.snapshots.latest(), handle.manifests
    ).to_entries()


def places(table):
    found = {}
    for e in live(table):
        found[table.paths.partition_path(e.partition), e.bucket] = e.total_buckets
    return found


def test_rows_wait_unseen_until_the_compaction(table):
    table.write([{"p": "a", "k": 1, "v": "x"}, {"p": "b", "k": 2, "v": "y"}])
    assert rows(table) == []
    assert table.count() == 0
    assert places(table) == {("p=a", -2): -2, ("p=b", -2): -2}
    result = table.compact()
    assert result.rows == 2
    assert rows(table) == [{"p": "a", "k": 1, "v": "x"}, {"p": "b", "k": 2, "v": "y"}]
    assert places(table) == {("p=a", 0): 1, ("p=b", 0): 1}
    assert table.history().column("commit_kind").to_pylist() == ["APPEND", "COMPACT"]
    assert rows(table, snapshot_id=1) == []


def test_writes_are_replayed_in_order_with_their_kinds(table):
    table.write([{"p": "a", "k": k, "v": "first"} for k in range(6)])
    table.write(
        [
            {"p": "a", "k": 1, "v": None},
            {"p": "a", "k": 2, "v": "late"},
            {"p": "a", "k": 1, "v": "again"},
        ],
        row_kinds=["-D", "+U", "+I"],
    )
    table.delete([{"p": "a", "k": 3}])
    table.compact()
    assert {r["k"]: r["v"] for r in rows(table)} == {
        0: "first", 1: "again", 2: "late", 4: "first", 5: "first",
    }  # fmt: skip
    table.write([{"p": "a", "k": 0, "v": "second"}, {"p": "a", "k": 3, "v": "back"}])
    assert len(rows(table)) == 5
    table.compact(full=True)
    assert rows(table, where="k IN (0, 3)") == [
        {"p": "a", "k": 0, "v": "second"},
        {"p": "a", "k": 3, "v": "back"},
    ]
    assert {e.file.level for e in live(table)} == {5}


def test_a_waiting_file_is_as_java_writes_it(table):
    table.write([{"p": "a", "k": 9, "v": "x"}, {"p": "a", "k": 3, "v": "y"}],
                commit_user="loader-s-1", commit_identifier=0)  # fmt: skip
    (entry,) = live(table)
    file = entry.file
    name = r"data--u-loader-1-s-[0-9]+-w-[0-9a-f-]{36}-0\.avro"
    assert re.fullmatch(name, file.file_name), file.file_name
    assert (file.level, file.row_count, file.delete_row_count) == (0, 2, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (-1, -1)
    assert file.key_stats.null_counts == (None,)
    assert file.value_stats_cols == ()
    counts = {
        name: table.system_table(name).to_arrow().num_rows
        for name in ("files", "partitions", "buckets")
    }
    assert counts == {"files": 0, "partitions": 0, "buckets": 1}  # as Java's


@pytest.mark.parametrize(
    ("kind", "options"),
    [(pa.timestamp("ns"), {"file.format": "parquet"}), (pa.string(), {"file.compression": "lz4"})],
)
def test_what_avro_cannot_hold_waits_in_the_table_s_own_format(catalog, kind, options):
    schema = pa.schema({"k": pa.int64(), "v": kind})
    table = catalog.create_table(
        "db.o", schema, primary_keys=["k"], options={"bucket": -2, **options}
    )
    table.write(pa.table({"k": [1], "v": pa.array([None], kind)}))
    (entry,) = live(table)
    assert entry.file.file_name.endswith(".parquet")
    table.compact()
    assert table.count() == 1


@pytest.mark.oracle
def test_the_rows_that_java_left_waiting_are_moved(oracle_dir, tmp_path):
    shutil.copytree(
        oracle_dir / "fixtures" / "warehouse_1_3_1.db" / "pk_postpone", tmp_path / "db.db" / "t"
    )
    table = tidelake.open(tmp_path).table("db.t")
    assert table.count() == 0
    table.write([{"k": 2, "v": "ours"}])
    table.compact()
    assert sorted(map(tuple, map(dict.values, table.to_arrow().to_pylist()))) == [
        (1, "a"),
        (2, "ours"),
    ]


def test_a_partition_keeps_its_number_of_buckets_and_a_new_one_gets_the_default(catalog, table):
    table.write([{"p": "a", "k": k, "v": "x"} for k in range(20)])
    table.copy({"postpone.default-bucket-num": "4"}).compact()
    table.write([{"p": p, "k": k, "v": "y"} for p in "ab" for k in range(20)])
    table.copy({"postpone.default-bucket-num": "2"}).compact()
    assert set(places(table).values()) == {4, 2}
    assert {b for (p, b) in places(table) if p == "p=a"} == {0, 1, 2, 3}
    assert {b for (p, b) in places(table) if p == "p=b"} == {0, 1}
    assert [r["v"] for r in rows(table)] == ["y"] * 40
    for k in range(20):
        assert len(rows(table, where=f"p = 'a' AND k = {k}")) == 1


def test_a_partition_is_rescaled_while_rows_wait_in_it(table):
    table.write([{"p": "a", "k": k, "v": "x"} for k in range(20)])
    table.compact()
    table.write([{"p": "a", "k": 3, "v": "waits"}])
    table.rescale_bucket(3)
    assert places(table) == {("p=a", -2): -2, ("p=a", 0): 3, ("p=a", 1): 3, ("p=a", 2): 3}
    assert table.options.raw["bucket"] == "-2"
    table.compact()
    assert rows(table, where="k = 3") == [{"p": "a", "k": 3, "v": "waits"}]
    with pytest.raises(InvalidInputError, match="must be a number"):
        table.rescale_bucket()


def test_an_overwrite_takes_the_waiting_rows_with_it(table):
    table.write([{"p": p, "k": 1, "v": "old"} for p in "ab"])
    table.compact()
    table.write([{"p": p, "k": 2, "v": "waits"} for p in "ab"])
    table.write([{"p": "a", "k": 3, "v": "new"}], mode="overwrite")
    table.compact()
    assert [(r["p"], r["k"]) for r in rows(table)] == [("a", 3), ("b", 1), ("b", 2)]
    table.drop_partitions([{"p": "b"}])
    assert [(r["p"], r["k"]) for r in rows(table)] == [("a", 3)]


def test_of_two_compactions_one_moves_the_rows_and_the_other_gives_up(table, monkeypatch):
    table.write([{"p": "a", "k": k, "v": "x"} for k in range(5)])
    before = set(table.fileio.list_dir(table.paths.bucket_dir(live(table)[0].partition, 0)))

    def publish(*arguments, **named):
        monkeypatch.undo()
        table.compact()
        return original(*arguments, **named)

    original = postpone_compaction.MovedRows.commit
    monkeypatch.setattr(postpone_compaction.MovedRows, "commit", publish)
    with pytest.raises(ConflictError, match="is not live now"):
        table.compact()
    assert len(rows(table)) == 5
    names = {e.file.file_name for e in live(table)}
    found = {
        s.name for s in table.fileio.list_dir(table.paths.bucket_dir(live(table)[0].partition, 0))
    }
    assert found == names
    assert before == set()


def test_rows_that_come_while_others_are_moved_wait_for_the_next_time(table, monkeypatch):
    table.write([{"p": "a", "k": 1, "v": "x"}])

    def publish(*arguments, **named):
        monkeypatch.undo()
        table.write([{"p": "a", "k": 1, "v": "y"}])
        return original(*arguments, **named)

    original = postpone_compaction.MovedRows.commit
    monkeypatch.setattr(postpone_compaction.MovedRows, "commit", publish)
    table.compact()
    assert rows(table) == [{"p": "a", "k": 1, "v": "x"}]
    table.compact()
    assert rows(table) == [{"p": "a", "k": 1, "v": "y"}]
    assert table.compact().snapshot_ids == ()


def test_a_compaction_of_its_own_leaves_no_file_behind(catalog):
    table = make(catalog, **{"num-sorted-run.compaction-trigger": 1})
    for i in range(3):
        table.write([{"p": "a", "k": k, "v": str(i)} for k in range(10)])
        table.compact()
    named = {e.file.file_name for e in live(table)}
    directory = table.paths.bucket_dir(live(table)[0].partition, 0)
    held = {s.name for s in table.fileio.list_dir(directory)}
    assert named <= held
    assert [r["v"] for r in rows(table)] == ["2"] * 10
    # what is there beside the live files belongs to older snapshots
    older = set()
    for snapshot_id in table.history().column("snapshot_id").to_pylist():
        entries = live_entries(
            table.fileio,
            table.paths,
            table.handle.snapshots.load(snapshot_id),
            table.handle.manifests,
        )
        older |= set(entries["file_name"].to_pylist())
    assert held <= older


def test_an_append_table_has_no_postpone_bucket(catalog):
    with pytest.raises(InvalidInputError, match="needs a primary key"):
        catalog.create_table("db.a", COLUMNS, options={"bucket": -2})


def test_many_writers_add_without_conflict(table):
    def load(i):
        table.write([{"p": "a", "k": 10 * i + j, "v": str(i)} for j in range(10)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load, range(6)))
    table.compact()
    assert [r["k"] for r in rows(table)] == list(range(60))


OPERATION = st.one_of(
    st.tuples(
        st.just("write"),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.booleans()), min_size=1),
    ),
    st.tuples(st.sampled_from(["compact", "full", "rescale"]), st.integers(1, 3)),
)


@settings(max_examples=25)
@given(st.lists(OPERATION, max_size=8))
def test_what_reads_see_is_what_was_written_up_to_the_last_compaction(operations):
    catalog = tidelake.open("/wh", env=Env.seeded(1), fileio=MemoryFileIO())
    table = make(catalog)
    written, seen = {}, {}
    for number, (what, argument) in enumerate(operations):
        if what == "write":
            given_rows = [{"p": p, "k": k, "v": str(number)} for p, k, _ in argument]
            table.write(given_rows, row_kinds=["-D" if d else "+I" for *_, d in argument])
            for p, k, deleted in argument:
                written.pop((p, k), None)
                if not deleted:
                    written[p, k] = str(number)
        elif what == "rescale":
            table.rescale_bucket(argument)
        else:
            table.copy({"postpone.default-bucket-num": str(argument)}).compact(full=what == "full")
            seen = dict(written)
        assert {(r["p"], r["k"]): r["v"] for r in rows(table)} == seen


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("producer", "vectors"),
    [
        ("input", "false"),
        ("input", "true"),
        ("lookup", "false"),
        ("lookup", "true"),
        ("full-compaction", "false"),
        ("none", "true"),
    ],
)
def test_what_leaves_no_row_is_told_all_the_same(producer, vectors, full):
    """Deletes that meet nothing, or a row of a file that stays, in buckets with nothing else."""
    fileio = MemoryFileIO()
    catalog = tidelake.open("/w", fileio=fileio)
    options = {"changelog-producer": producer, "deletion-vectors.enabled": vectors}
    table = make(catalog, **options)
    old = [{"p": p, "k": k, "v": "old"} for p in "ab" for k in range(4)]
    table.write(old)
    table.compact(full=True)
    start = table.latest_snapshot_id
    gone = [old[0], {"p": "c", "k": 7, "v": "never there"}]
    table.write(gone, row_kinds=["-D", "-D"])
    brief = {"p": "d", "k": 8, "v": "brief"}
    table.write([brief])
    table.write([brief], row_kinds=["-D"])
    table.compact(full=full)
    assert rows(table) == [r for r in old if r != old[0]]
    assert table.latest_snapshot_id == start + 4  # at once
    told = []
    if producer != "none":
        told = table.changes(start, table.latest_snapshot_id, mode="changelog").to_pylist()
    seen = sorted((r["_row_kind"], r["p"], r["k"]) for r in told)
    if producer == "input":
        assert seen == [("+I", "d", 8), ("-D", "a", 0), ("-D", "c", 7), ("-D", "d", 8)]
    elif producer == "lookup" or (producer == "full-compaction" and full):
        assert seen == [("-D", "a", 0)]
    assert stray(fileio, table.handle.paths.location) == set()
    assert missing(fileio, table.handle.paths.location) == set()
