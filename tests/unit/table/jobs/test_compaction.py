"""Compaction as a job of its own: what it takes up, what it leaves, and whom it gives way to."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from proving.fsck import check_table

import tidelake
from tidelake import col
from tidelake.commit import Committer
from tidelake.errors import ConflictError, InvalidInputError, TidelakeError, UnsupportedError
from tidelake.fileio import LocalFileIO
from tidelake.scan import live_buckets
from tidelake.table.jobs import compaction
from tidelake.telemetry import Env
from tidelake.testing import FaultyFileIO

PARTITIONED = {"primary_keys": ["p", "k"], "partition_keys": ["p"]}
WAITS = {"bucket": 2, "write-only": True}
SNAPSHOTS_READ = 18
"""Of a compaction by hand, however many buckets it has."""
COLUMNS = {"p": "STRING", "k": "INT", "v": "INT"}


def rows(keys, v, partitions="ab"):
    return [{"p": p, "k": k, "v": v} for p in partitions for k in keys]


def files(table, where=None):
    """Bucket and level of each file, by partition."""
    found = table.system_table("files").to_arrow().to_pylist()
    places = {}
    for file in found:
        places.setdefault(file["partition"], []).append((file["bucket"], file["level"]))
    return {p: sorted(own) for p, own in places.items()}


def state(table):
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def kinds(table):
    return table.history()["commit_kind"].to_pylist()


@pytest.fixture
def waiting(catalog):
    """Two partitions of two buckets, each with three runs that nobody has compacted."""
    table = catalog.create_table("db.t", COLUMNS, **PARTITIONED, options=WAITS)
    for v in range(3):
        table.write(rows(range(20), v))
    return table


def test_what_write_only_leaves_the_job_compacts_in_one_commit(waiting):
    before = state(waiting)
    result = waiting.compact(full=True)
    assert len(result.snapshot_ids) == 1
    assert kinds(waiting) == ["APPEND"] * 3 + ["COMPACT"]
    assert files(waiting) == {"{a}": [(0, 5), (1, 5)], "{b}": [(0, 5), (1, 5)]}
    assert state(waiting) == before


def test_nothing_to_do_makes_no_snapshot_and_no_file(waiting, tmp_path):
    waiting.compact(full=True)
    made = sorted(tmp_path.rglob("*"))
    assert waiting.compact(full=True) == tidelake.WriteResult()
    assert waiting.compact() == tidelake.WriteResult()
    assert sorted(tmp_path.rglob("*")) == made
    assert waiting.compact(full=True, partitions=[{"p": "nowhere"}]) == tidelake.WriteResult()


def test_the_options_decide_what_is_worth_it_unless_it_is_full(waiting):
    assert waiting.compact().snapshot_ids == ()  # three runs, and the trigger is five
    assert waiting.compact(options={"num-sorted-run.compaction-trigger": 3}).files == 4


@pytest.mark.parametrize(
    "partitions",
    [[{"p": "b"}], {"p": "b"}, "p > 'a'", col("p") == "b", [("p", "==", "b")]],
    ids=["dicts", "dict", "text", "predicate", "tuples"],
)
def test_only_the_partitions_that_are_asked_for(waiting, partitions):
    waiting.compact(full=True, partitions=partitions)
    three = [(bucket, 0) for bucket in (0, 1) for _ in range(3)]
    assert files(waiting) == {"{a}": three, "{b}": [(0, 5), (1, 5)]}


def test_only_the_buckets_that_are_asked_for(waiting):
    waiting.compact(full=True, buckets=[1])
    one = [(0, 0), (0, 0), (0, 0), (1, 5)]
    assert files(waiting) == {"{a}": one, "{b}": one}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"partitions": "v > 1"}, r"names v\. .* only partition columns"),
        ({"partitions": [{"k": 1}]}, "'k' is not a partition column"),
        ({"partitions": []}, "names no partitions"),
        ({"partitions": 7}, "7"),
        ({"buckets": []}, "names no buckets"),
        ({"buckets": 1}, "buckets=1 names no buckets"),
        ({"buckets": [-1]}, "names no buckets"),
        ({"buckets": ["0"]}, "names no buckets"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_done(waiting, arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        waiting.compact(full=True, **arguments)
    assert "COMPACT" not in kinds(waiting)


def test_only_some_partitions_of_the_postpone_bucket(catalog):
    table = catalog.create_table("db.t", COLUMNS, **PARTITIONED, options={"bucket": -2})
    table.write(rows(range(3), 1))
    assert table.compact(partitions="p = 'a'").rows == 3
    assert {row[0] for row in state(table)} == {"a"}
    with pytest.raises(UnsupportedError, match="no buckets yet"):
        table.compact(buckets=[0])
    assert table.compact().rows == 3
    assert {row[0] for row in state(table)} == {"a", "b"}


def test_small_files_of_an_append_table_by_partition(catalog):
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["p"])
    for v in range(5):
        table.write(rows(range(4), v))
    before = state(table)
    table.compact(partitions=[{"p": "a"}])
    assert {p: len(own) for p, own in files(table).items()} == {"{a}": 1, "{b}": 5}
    assert state(table) == before


# ---- beside others


def at_commit(first, then):
    """Run `first`, and `then` at the moment when it would commit."""
    commit = Committer.commit

    def overtake(self, *arguments, **named):
        with mock.patch.object(Committer, "commit", commit):
            then()
            return commit(self, *arguments, **named)

    with mock.patch.object(Committer, "commit", overtake):
        return first()


def other(table):
    return tidelake.open(table.paths.location.rsplit("/db.db/", 1)[0]).table("db.t")


def test_of_two_compactors_the_later_one_gives_way_bucket_by_bucket(waiting):
    before = state(waiting)
    result = at_commit(
        lambda: waiting.compact(full=True),
        lambda: other(waiting).compact(full=True, partitions=[{"p": "a"}]),
    )
    assert result.compactions_dropped == 2  # those of a; the two of b are done
    assert len(result.snapshot_ids) == 1
    assert files(waiting) == {"{a}": [(0, 5), (1, 5)], "{b}": [(0, 5), (1, 5)]}
    assert state(waiting) == before
    check_table(LocalFileIO(), waiting.paths.location)


def test_a_compactor_that_lost_everywhere_fails_and_changes_nothing(waiting):
    before, left = state(waiting), "rewrote 4 buckets of table 'db.t'.* Nothing was changed"
    with pytest.raises(ConflictError, match=left) as caught:
        at_commit(lambda: waiting.compact(full=True), lambda: other(waiting).compact(full=True))
    assert caught.value.kind == "compaction_gave_way"
    assert kinds(waiting).count("COMPACT") == 1
    assert state(waiting) == before
    check_table(LocalFileIO(), waiting.paths.location)
    made = list(Path(waiting.paths.location).rglob("data-*"))
    assert len(made) == 3 * 4 + 4  # those of the writes and of the other one
    assert waiting.compact(full=True).snapshot_ids == ()  # there is nothing left to merge


def test_rows_written_while_it_works_stay_above_what_it_made(waiting):
    result = at_commit(
        lambda: waiting.compact(full=True), lambda: other(waiting).write(rows([1, 50], 9))
    )
    assert (len(result.snapshot_ids), result.compactions_dropped) == (1, 0)
    assert {row for row in state(waiting) if row[2] == 9} == {
        (p, k, 9) for p in "ab" for k in (1, 50)
    }
    assert len(state(waiting)) == 2 * 21


def test_an_overwrite_while_it_works_wins(waiting):
    def overwrite():
        other(waiting).write(rows([7], 7, "a"), mode="overwrite")

    result = at_commit(lambda: waiting.compact(full=True), overwrite)
    assert result.compactions_dropped == 2
    assert [row for row in state(waiting) if row[0] == "a"] == [("a", 7, 7)]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
        {"merge-engine": "first-row"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        {"merge-engine": "partial-update", "changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ],
    ids=lambda options: " ".join(options.values()),
)
def test_the_job_does_what_the_writers_of_such_a_table_would_do(catalog, options):
    tables = []
    for name, late in (("t", {"write-only": True}), ("inline", {})):
        table = catalog.create_table(
            f"db.{name}", COLUMNS, **PARTITIONED, options={"bucket": 1, **options, **late}
        )
        for v in range(1, 4):
            table.write(rows(range(v, v + 5), v))
            if late and v % 2:
                table.compact(full=True)
        if late:
            table.compact(full=True)
        tables.append(table)
    late, inline = tables
    assert state(late) == state(inline)
    if "changelog-producer" in options:
        changed = {}
        for row in late.changes(0, mode="changelog").to_pylist():
            kind, key = row.pop("_row_kind"), (row["p"], row["k"])
            if kind in ("+I", "+U"):
                changed[key] = row
            else:
                assert changed.pop(key) == row, "what is taken back was there"
        assert sorted(tuple(row.values()) for row in changed.values()) == state(late)


def test_a_failure_leaves_no_file_and_no_snapshot(waiting, tmp_path):
    made = sorted(tmp_path.rglob("*"))
    failing = mock.patch(
        "tidelake.table.write.table_writer.LsmBucketWriter.prepare_commit",
        side_effect=tidelake.StorageError("no space", kind="storage"),
    )
    with failing, pytest.raises(TidelakeError):
        waiting.compact(full=True)
    assert sorted(tmp_path.rglob("*")) == made


# ---- what the options of the policy do to a table


def runs(table):
    """Files by level."""
    found = table.system_table("files").to_arrow()["level"].to_pylist()
    return {level: found.count(level) for level in sorted(set(found))}


def unpartitioned(catalog, **options):
    return catalog.create_table(
        "db.o", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": 1, **options}
    )


def write(table, v):
    return table.write([{"k": k, "v": v} for k in range(10)])


def test_gentle_lookups_wait_and_tell_every_change_in_the_end(catalog):
    gentle = {"lookup-compact": "gentle", "lookup-compact.max-interval": 3}
    gentle["num-sorted-run.compaction-trigger"] = 3
    table = unpartitioned(catalog, **{"changelog-producer": "lookup", **gentle})
    write(table, 1)
    assert runs(table) == {0: 1}
    write(table, 2)
    assert runs(table) == {0: 2}
    assert table.changes(0, mode="changelog").num_rows == 0
    write(table, 3)
    assert 0 not in runs(table)
    told = table.changes(0, mode="changelog").to_pylist()
    assert sorted((r["_row_kind"], r["k"], r["v"]) for r in told) == [
        ("+I", k, 3) for k in range(10)
    ]


def test_a_bucket_below_the_threshold_is_compacted_whole_with_every_commit(catalog):
    table = unpartitioned(catalog, **{"compaction.total-size-threshold": "1 mb"})
    for v in range(3):
        write(table, v)
        assert runs(table) == ({0: 1} if v == 0 else {5: 1})


def test_the_read_optimized_view_lags_no_longer_than_the_interval(tmp_path):
    env = Env.seeded(1)
    catalog = tidelake.open(tmp_path / "warehouse", env=env)
    table = unpartitioned(catalog, **{"compaction.optimization-interval": "1 h"})

    def shown():
        return set(table.system_table("ro").to_arrow()["v"].to_pylist())

    write(table, 0)
    write(table, 1)
    assert shown() == {1}
    env.clock.sleep_ms(3_000_000)
    write(table, 2)
    assert shown() == {1}
    env.clock.sleep_ms(700_000)
    write(table, 3)
    assert shown() == {3}


def names(table):
    return set(table.system_table("files").to_arrow()["file_path"].to_pylist())


@pytest.mark.parametrize("keyed", [True, False])
def test_files_that_could_stay_are_rewritten_if_that_is_asked_for(catalog, keyed):
    if keyed:
        table = unpartitioned(catalog)
    else:
        options = {"bucket": 1, "bucket-key": "k"}
        table = catalog.create_table("db.o", {"k": "INT", "v": "INT"}, options=options)
    write(table, 1)
    table.compact(full=True)
    before = names(table)
    assert table.compact(full=True).snapshot_ids == ()
    table.compact(full=True, options={"compaction.force-rewrite-all-files": True})
    assert not names(table) & before
    assert table.count() == 10


@pytest.mark.parametrize("keyed", [True, False])
def test_a_commit_between_the_plan_and_the_first_bucket_is_not_half_seen(catalog, keyed):
    """Which buckets there are and what is in them is of one snapshot."""
    layout = PARTITIONED if keyed else {"partition_keys": ["p"]}
    options = {"bucket": 1, "write-only": True} if keyed else {}
    table = catalog.create_table("db.t", COLUMNS, **layout, options=options)
    for v in range(5):
        table.write(rows(range(5), v, "a"))
    seen = []

    def late(context, snapshot, *, manifests):
        other(table).write(rows(range(5), 9, "a"))
        seen.append(snapshot.id)
        return live_buckets(context, snapshot, manifests=manifests)

    with mock.patch.object(compaction, "live_buckets", late):
        result = table.compact(full=True)
    assert seen == [5]
    assert (len(result.snapshot_ids), result.compactions_dropped) == (1, 0)
    assert {row[2] for row in state(table)} == ({9} if keyed else {0, 1, 2, 3, 4, 9})


@pytest.mark.parametrize("buckets", [2, 8])
def test_snapshots_and_manifests_are_read_once_for_all_buckets(tmp_path, buckets):
    seen = FaultyFileIO(LocalFileIO())
    catalog = tidelake.open(tmp_path, fileio=seen)
    options = {"bucket": buckets, "write-only": True}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    for v in range(3):
        table.write(rows(range(40), v, "a"))
    before = len(seen.trace)
    assert len(table.compact(full=True).snapshot_ids) == 1
    read = [entry.path for entry in seen.trace[before:] if entry.op.startswith("read")]
    assert len([path for path in read if "/snapshot/snapshot-" in path]) == SNAPSHOTS_READ
