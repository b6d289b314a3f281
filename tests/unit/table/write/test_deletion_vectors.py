"""Primary-key tables with deletion vectors: written, compacted and read without a merge."""

from __future__ import annotations

import contextlib
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.fsck import check_table
from sizes import SIZE
from unit.table.changelog.test_lookup_changelog import (
    SCHEMA,
    content,
    expected_changes,
    expected_state,
    histories,
    logged,
    table_at,
    write,
)

import tidelake
import tidelake.table.write.transaction as table_write
from tidelake import ConflictError, InvalidInputError
from tidelake.commit import Committer
from tidelake.commit.publisher import Publisher
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.testing import SimulatedCrash

MARKS = {"deletion-vectors.enabled": "true"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def rows(keys, v, **more):
    return [{"k": k, "v": v, **more} for k in keys]


@pytest.fixture
def make(catalog):
    def make_table(name="t", **options):
        options = {"bucket": "1", **MARKS, **options}
        columns = {"k": "INT", "v": "BIGINT"}
        return catalog.create_table(f"db.{name}", columns, primary_keys=["k"], options=options)

    return make_table


def state(table, **scan):
    found = {r["k"]: r["v"] for r in table.to_arrow(**scan).to_pylist()}
    assert len(found) == table.to_arrow(**scan).num_rows
    return found


@pytest.mark.parametrize("engine", ["deduplicate", "sequence", "partial-update", "aggregation"])
@settings(max_examples=SIZE.histories, deadline=None)
@given(
    st.data(),
    st.sampled_from(["none", "input", "lookup"]),
    st.sampled_from(["1", "3", "-1"]),
    st.sampled_from(["true", "false"]),
)
def test_every_state_is_what_was_written(
    tmp_path_factory, engine, data, producer, bucket, bitmap64
):
    commits = data.draw(histories(engine))
    table = table_at(
        tmp_path_factory.mktemp("w"),
        engine,
        **MARKS,
        **{
            "changelog-producer": producer,
            "bucket": bucket,
            "dynamic-bucket.target-row-num": "5",
            "deletion-vectors.bitmap64": bitmap64,
        },
    )
    states: dict[int, dict] = {0: {}}
    for number, commit in enumerate(commits, start=1):
        last = max(states)
        ids = write(table, commit).snapshot_ids
        states |= dict.fromkeys(ids, expected_state(engine, commits[:number]))
        if data.draw(st.integers(0, 4)) == 0:
            newest = states[ids[-1]]
            for n in table.compact(full=data.draw(st.booleans())).snapshot_ids:
                states[n] = newest
        if producer == "lookup":
            touched = {values["k"] for _, values in commit}
            changes = expected_changes(states[last], states[ids[-1]], touched, deduplicated=False)
            assert by_key(logged(table, last, ids[-1])) == by_key(changes)
    for snapshot_id, expected in list(states.items())[1:]:
        assert content(table, snapshot_id=snapshot_id) == expected
        assert table.count(snapshot_id=snapshot_id) == len(expected)
    newest = states[max(states)]
    for bound in (0, 2):
        found = content(table, where=f"v = {bound}")
        assert found == {k: r for k, r in newest.items() if r["v"] == bound}
    diff = table.changes(0, max(states), mode="diff").to_pylist()
    assert {row["k"]: row["v"] for row in diff} == {k: r["v"] for k, r in newest.items()}
    log = table.system_table("audit_log").to_arrow().to_pylist()
    assert sorted(row["k"] for row in log) == sorted(newest)
    assert set(table.system_table("files").to_arrow()["level"].to_pylist()) <= {1, 2, 3, 4, 5}
    check_table(table.handle.fileio, table.paths.location)


def by_key(changes):
    """Changes in key order; those of a key in theirs: buckets come one after the other."""
    return sorted(changes, key=lambda change: change[1]["k"])


def test_a_write_is_seen_whole_from_its_first_snapshot_on(make):
    table = make(bucket="3")
    for v, keys in enumerate((range(40), range(0, 60, 3))):
        ids = table.write(rows(keys, v)).snapshot_ids
        appended, compacted = (state(table, snapshot_id=n) for n in ids)
        assert appended == compacted
        assert {k for k, value in appended.items() if value == v} == set(keys)
        assert [table.count(snapshot_id=n) for n in ids] == [len(appended)] * 2


def test_what_is_only_written_is_merged_by_reads_until_it_is_compacted(make):
    table = make()
    table.write(rows(range(10), 1))
    later = table.with_options({"write-only": "true"})
    later.write(rows((1, 50), 2))
    later.write(rows((1,), 3), row_kinds=["-D"])
    expected = {**{k: 1 for k in range(10) if k != 1}, 50: 2}
    assert state(table) == expected
    assert (table.count(), table.count(where="v = 2")) == (10, 1)
    log = table.system_table("audit_log").to_arrow().to_pylist()
    assert [row["k"] for row in log if row["rowkind"] == "-D"] == [1]
    assert table.compact().files == 1
    assert state(table) == expected
    later.write(rows((5,), 9))
    table.compact(full=True)
    assert state(table)[5] == 9
    assert table.system_table("files").to_arrow().num_rows == 1


def test_counts_and_limits_need_no_data_file(make):
    table = make()
    table.write(rows(range(20_000), 1))
    table.write(rows(range(10), 2))
    table.delete("k = 15")
    for path in table.system_table("files").to_arrow()["file_path"].to_pylist():
        table.handle.fileio.delete(f"{table.paths.location}/{path.split(table.paths.location)[-1]}")
    assert table.count() == 19_999
    assert "without a merge" in str(table.explain()) or "raw" in str(table.explain())


def test_values_prune_files_of_all_levels_but_what_replaced_them_stays_seen(make):
    """The file of the old value holds no row of the key any more, and it does not matter."""
    table = make(**{"file-index.bloom-filter.columns": "v"})
    table.write(rows(range(20_000), 1))
    table.write(rows(range(5), 2))
    assert state(table, where="v = 2") == dict.fromkeys(range(5), 2)
    assert state(table, where="v = 1 AND k < 7") == {5: 1, 6: 1}
    plan = str(table.explain(where="v = 2"))
    assert "value statistics" in plan or "file index" in plan


def test_deletes_by_condition_and_by_key(make):
    table = make()
    table.write(rows(range(100), 1))
    assert table.delete("k < 10").rows == 10
    table.delete([{"k": 10}, {"k": 999}])
    assert state(table).keys() == set(range(11, 100))
    assert table.delete("v = 1").rows == 89
    assert table.count() == 0
    table.compact(full=True)
    assert table.to_arrow().num_rows == 0


def test_rows_that_wait_on_level_0_are_what_is_deleted(make):
    table = make()
    table.write([{"k": k, "v": k} for k in range(6)])
    waiting = [{"k": 1, "v": 100}, {"k": 4, "v": 0}, {"k": 9, "v": 100}]
    table.write(waiting, options={"write-only": "true"})
    assert state(table, where="k = 1") == {1: 100}
    assert state(table.with_options({"deletion-vectors.merge-on-read": "false"}))[1] == 1
    table.delete("v >= 4")
    table.compact()
    held = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert held == {0: 0, 2: 2, 3: 3, 4: 0}


def test_a_partition_that_is_overwritten_or_dropped_takes_its_vectors_along(catalog):
    table = catalog.create_table(
        "db.p",
        {"p": "STRING", "k": "INT", "v": "INT"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1", **MARKS},
    )
    for p in "abc":
        table.write([{"p": p, "k": k, "v": 1} for k in range(20_000)])
        table.write([{"p": p, "k": 5, "v": 2}])
    table.write([{"p": "a", "k": 1, "v": 7}], mode="overwrite")
    table.drop_partitions([{"p": "b"}])
    snapshot = table.handle.snapshots.latest()
    index = index_entries(table.handle.fileio, table.paths, snapshot, table.handle.manifests)
    assert [table.paths.partition_path(e.partition) for e in index] == ["p=c"]
    table.write([{"p": "c", "k": 5, "v": 3}])
    found = table.to_arrow(where="k IN (1, 5)").to_pylist()
    assert sorted((r["p"], r["k"], r["v"]) for r in found) == [
        ("a", 1, 7),
        ("c", 1, 1),
        ("c", 5, 3),
    ]
    check_table(table.handle.fileio, table.paths.location)


def test_keys_that_move_between_partitions(catalog):
    table = catalog.create_table(
        "db.moving",
        {"p": "STRING", "k": "INT", "v": "INT"},
        primary_keys=["k"],
        partition_keys=["p"],
        options=MARKS,
    )
    table.write([{"p": "a", "k": k, "v": 1} for k in range(2_000)])
    table.write([{"p": "b", "k": k, "v": 2} for k in range(10)])
    table.with_options({"write-only": "true"}).write([{"p": "c", "k": 5, "v": 3}])
    table.write([{"p": "d", "k": 5, "v": 4}])
    table.compact()
    found = table.to_arrow(where="k < 11").to_pylist()
    assert sorted((r["k"], r["p"], r["v"]) for r in found) == [
        *((k, "b", 2) for k in range(5)),
        (5, "d", 4),
        *((k, "b", 2) for k in range(6, 10)),
        (10, "a", 1),
    ]


def test_rows_of_a_postpone_bucket_are_marked_when_they_get_their_buckets(make):
    table = make(bucket="-2")
    for v in range(4):
        table.write(rows(range(v, 3_000, v + 1), v))
        table.compact()
    expected = {}
    for v in range(4):
        expected |= dict.fromkeys(range(v, 3_000, v + 1), v)
    assert state(table) == expected
    table.write([{"k": 0, "v": 0}], row_kinds=["-D"])
    table.compact(full=True)
    del expected[0]
    assert state(table) == expected


def test_a_rescale_loses_no_row_that_waits(make):
    table = make()
    table.write(rows(range(100), 1))
    table.write(rows(range(5), 2))
    table.with_options({"write-only": "true"}).write(rows((3, 200), 3))
    table.rescale_bucket(3)
    expected = {**dict.fromkeys(range(100), 1), **dict.fromkeys(range(5), 2), 3: 3, 200: 3}
    assert state(table) == expected


# -- two writers on one bucket
def overtaken(table, do, theirs, *, again=0):
    """Do something; others commit between what it compacts and its first commit.

    What gave way is tried again as often as is said.
    """
    other = tidelake.open(table.paths.location.rsplit("/db.db/", 1)[0]).table("db.t")
    commit, met = Committer.commit, []

    def overtake(self, *arguments, **named):
        if not met:
            met.append(True)
            theirs(other)
        return commit(self, *arguments, **named)

    with (
        mock.patch.object(Committer, "commit", overtake),
        mock.patch.object(table_write, "COMPACTIONS_AGAIN_MAX", again),
    ):
        return do(table)


@contextlib.contextmanager
def gives_way_to_them():
    """A compaction may find that the others took the bucket; nothing else may go wrong."""
    try:
        yield
    except ConflictError as error:
        assert error.kind == "compaction_gave_way"  # noqa: PT017 - it need not be raised


@pytest.mark.parametrize("options", [{}, SUM, {"changelog-producer": "lookup"}])
@pytest.mark.parametrize(("full", "again"), [(False, 0), (True, 0), (True, 1)])
def test_a_compaction_gives_way_to_marks_that_it_did_not_see(make, options, full, again):
    table = make(**options)
    table.write(rows(range(20_000), 1))
    table.write(rows(range(10), 10))
    result = overtaken(
        table,
        lambda t: t.write(rows((3, 4, 30_000), 100)),
        lambda t: t.write(rows((4, 5, 30_000), 1_000)),
        again=again,
    )
    assert result.compactions_dropped == (0 if again else 1)
    seen = state(table)
    table.compact(full=full)
    before = dict.fromkeys((3, 4, 5), 11 if options == SUM else 10) | {30_000: None}
    after = state(table)
    assert after == seen
    if options == SUM:
        assert {k: after[k] for k in before} == {3: 111, 4: 1_111, 5: 1_011, 30_000: 1_100}
    else:
        # of rows with equal sequence numbers that of the file that was added last wins
        assert {k: after[k] for k in before} == {3: 100, 4: 100, 5: 1_000, 30_000: 100}
    assert table.count() == len(after) == 20_001


def test_a_compaction_gives_way_to_a_delete_that_leaves_no_file(make):
    """Only vectors differ then: the levels hold the same files."""
    table = make()
    table.write(rows(range(20_000), 1))
    files = table.system_table("files").to_arrow().num_rows
    seen = []

    def delete(other):
        other.delete("k = 7")
        seen.append(other.system_table("files").to_arrow().num_rows)

    result = overtaken(table, lambda t: t.write(rows((7, 8), 5)), delete)
    assert seen == [files]
    assert result.compactions_dropped == 1
    assert (state(table)[7], state(table)[8]) == (5, 5)  # the write was committed later
    table.compact()
    assert (state(table)[7], state(table)[8]) == (5, 5)
    assert table.count() == len(state(table))


def test_two_deletes_at_a_time_both_hold(make):
    table = make()
    table.write(rows(range(20_000), 1))
    overtaken(table, lambda t: t.delete("k < 5"), lambda t: t.delete("k BETWEEN 3 AND 9"))
    table.compact()
    assert state(table).keys() == set(range(10, 20_000))


def test_a_full_compaction_gives_way_to_a_delete(make):
    table = make()
    table.write(rows(range(20_000), 1))
    table.write(rows((3,), 2))
    with pytest.raises(ConflictError, match=r"rewrote 1 bucket .* Nothing was changed"):
        overtaken(table, lambda t: t.compact(full=True), lambda t: t.delete("k = 9"))
    assert 9 not in state(table)
    assert state(table)[3] == 2
    assert table.count() == 19_999


# -- what is refused
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"merge-engine": "first-row"}, "which never deletes a row"),
        ({"changelog-producer": "full-compaction"}, "take 'lookup'"),
    ],
)
def test_what_java_refuses_is_refused(make, options, says):
    with pytest.raises(InvalidInputError, match=says):
        make(**options)


def test_a_producer_that_needs_older_rows_is_refused_for_one_use(make):
    table = make()
    table.write(rows((1,), 1))
    with pytest.raises(InvalidInputError, match="take 'lookup'"):
        table.with_options({"changelog-producer": "full-compaction"}).write(rows((1,), 2))


def test_rows_of_every_format_and_level_are_marked(catalog):
    for format_ in ("orc", "avro"):
        table = catalog.create_table(
            f"db.{format_}",
            SCHEMA,
            primary_keys=["k"],
            options={
                "bucket": "1",
                **MARKS,
                "file.format": format_,
                "file.format.per.level": "5:parquet",
            },
        )
        for n in range(3):
            table.write(
                pa.Table.from_pylist(
                    [{"k": k, "v": n, "w": 0} for k in range(n, 3_000, n + 1)], SCHEMA
                )
            )
        expected = {}
        for n in range(3):
            expected |= dict.fromkeys(range(n, 3_000, n + 1), n)
        assert {k: r["v"] for k, r in content(table).items()} == expected


STEPS = st.tuples(
    st.sampled_from(["write", "write", "write-only", "compact", "full"]),
    st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True),
)


@settings(max_examples=2 * SIZE.histories, deadline=None)
@given(
    st.lists(st.tuples(STEPS, st.none() | STEPS), min_size=1, max_size=7),
    st.sampled_from(["none", "lookup"]),
    st.sampled_from(["2", "6"]),
    st.sampled_from([0, 1]),
)
def test_sums_hold_whoever_overtakes_whom(tmp_path_factory, steps, producer, levels, again):
    """Sums are the same in any order, and show each row that is lost or counted twice."""
    place = tmp_path_factory.mktemp("w")
    options = {"bucket": "1", **MARKS, **SUM, "changelog-producer": producer}
    options |= {"num-levels": levels, "num-sorted-run.compaction-trigger": "3"}
    table = tidelake.open(place).create_table(
        "db.t", {"k": "INT", "v": "BIGINT"}, primary_keys=["k"], options=options
    )
    table.write(rows(range(0, 3_000, 3), 1))
    expected = dict.fromkeys(range(0, 3_000, 3), 1)

    def do(target, step):
        how, keys = step
        if how.startswith("write"):
            only = target.with_options({"write-only": str(how == "write-only").lower()})
            only.write(rows(keys, 1))
            for key in keys:
                expected[key] = expected.get(key, 0) + 1
        else:
            target.compact(full=how == "full")

    for own, theirs in steps:
        if theirs is None:
            do(table, own)
        else:
            with gives_way_to_them():
                overtaken(
                    table,
                    lambda t, own=own: do(t, own),
                    lambda t, theirs=theirs: do(t, theirs),
                    again=again,
                )
        assert state(table) == expected
    table.compact()
    assert state(table) == expected
    assert table.count() == len(expected)
    check_table(table.handle.fileio, table.paths.location)
    if producer == "lookup":
        told: dict[int, int] = {}
        for change in table.changes(0, mode="changelog").to_pylist():
            if change["_row_kind"] in ("-U", "-D"):
                assert told.pop(change["k"]) == change["v"]
            else:
                assert change["k"] not in told
                told[change["k"]] = change["v"]
        assert told == expected


def test_gentle_compactions_let_commits_wait_and_mark_all_of_them_later(make):
    table = make(
        **{"lookup-compact": "gentle", "lookup-compact.max-interval": "4"},
        **{"num-sorted-run.compaction-trigger": "3", **SUM},
    )
    expected: dict[int, int] = {}
    waited = 0
    for number in range(14):
        keys = range(number, 2_000, 1 + number * 50)
        table.write(rows(keys, 1))
        for key in keys:
            expected[key] = expected.get(key, 0) + 1
        levels = table.system_table("files").to_arrow()["level"].to_pylist()
        waited += 0 in levels
        assert state(table) == expected
    assert 0 < waited < 14
    table.compact(full=True)
    assert state(table) == expected
    check_table(table.handle.fileio, table.paths.location)


# -- between APPEND and COMPACT
@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_a_compaction_changes_no_row_that_a_read_sees_whoever_numbered_it(make, engine):
    """Two writers began from one snapshot: the rows committed later have the lower numbers."""
    options = {"merge-engine": "first-row", "deletion-vectors.enabled": "false"}
    table = make(**(options if engine == "first-row" else {}))
    table.write(rows(range(100, 20_000), 0))
    overtaken(
        table,
        lambda t: t.write(rows((5, 1), 1)),
        lambda t: t.write([*rows(range(30_000, 33_000), 2), *rows((1, 5), 2)]),
    )
    assert state(table, where="k < 10") == {1: 2, 5: 2}
    table.compact()
    assert state(table, where="k < 10") == {1: 2, 5: 2}
    table.compact(full=True)
    assert state(table, where="k < 10") == {1: 2, 5: 2}
    assert table.count() == 19_900 + 3_000 + 2


def test_what_a_crash_left_uncompacted_is_there_for_reads_and_tags(make):
    table = make(bucket="2")
    table.write(rows(range(20), 1))
    identity = {"commit_user": "job", "commit_identifier": 1}
    with appended_only():
        table.write(rows(range(10, 30), 2), **identity)
    expected = {**dict.fromkeys(range(10), 1), **dict.fromkeys(range(10, 30), 2)}
    assert state(table) == expected
    table.tags.create("then")
    assert table.write(rows(range(10, 30), 2), **identity).already_committed
    assert state(table) == state(table, tag="then") == expected


def test_only_files_that_share_keys_with_level_0_are_merged(make):
    table = make(**{"target-file-size": "2 kb"})
    for start in range(0, 20_000, 4_000):
        table.write(rows(range(start, start + 4_000), 1))
    whole = table.explain().plan
    assert all(split.raw for split in whole.splits)
    table.write(rows((70, 75), 2), options={"write-only": "true"})
    plan = table.explain().plan
    merged = [split for split in plan.splits if not split.raw]
    assert whole.files_read > 4
    assert sum(split.files_count for split in merged) == 2
    assert plan.files_read == whole.files_read + 1
    found = state(table, where="k BETWEEN 69 AND 71")
    assert (found.keys(), found[70]) == ({69, 70, 71}, 2)
    assert all(split.raw for split in table.explain(where="k > 15000").plan.splits)
    assert table.count() == 20_000


def test_reads_that_do_not_merge_leave_level_0_out(make):
    table = make()
    table.write(rows(range(10), 1))
    table.write(rows((1, 50), 2), options={"write-only": "true"})
    as_java = table.with_options({"deletion-vectors.merge-on-read": "false"})
    assert state(as_java) == dict.fromkeys(range(10), 1)
    assert "by level 0, left out by deletion-vectors.merge-on-read" in str(as_java.explain())
    merging = table.with_options({"deletion-vectors.merge-on-read": "true"})
    assert state(merging) == state(table) == {**dict.fromkeys(range(10), 1), 1: 2, 50: 2}


def test_the_net_change_is_that_of_the_rows_and_not_of_their_compaction(make):
    table = make(**{"changelog-producer": "lookup"})
    table.write(rows(range(10), 1))
    appended, compacted = table.write(rows((3, 10), 2)).snapshot_ids
    expected = [("+I", 10, 2), ("+U", 3, 2), ("-U", 3, 1)]
    assert changed(table, appended - 1, appended) == expected
    assert changed(table, appended, compacted) == []
    assert changed(table, appended - 1, compacted) == expected
    assert changed(table, appended - 1, appended, mode="changelog") == []
    assert changed(table, appended - 1, compacted, mode="changelog") == expected


def changed(table, start, end, **more):
    found = table.changes(start, end, **more).to_pylist()
    return sorted((row["_row_kind"], row["k"], row["v"]) for row in found)


@contextlib.contextmanager
def appended_only():
    """The process dies between the two snapshots of a commit."""
    publish = Publisher.publish

    def dying(self, plan):
        if plan.kind is CommitKind.COMPACT:
            raise SimulatedCrash
        return publish(self, plan)

    with mock.patch.object(Publisher, "publish", dying), pytest.raises(SimulatedCrash):
        yield


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_a_repeated_commit_makes_up_for_its_compaction(make, engine):
    options = {"merge-engine": "first-row", "deletion-vectors.enabled": "false"}
    table = make(**{"changelog-producer": "lookup"} | (options if engine == "first-row" else {}))
    table.write(rows(range(10), 1))
    identity = {"commit_user": "job", "commit_identifier": 1}
    with appended_only():
        table.write(rows(range(5, 15), 2), **identity)
    before, start = state(table), table.latest_snapshot_id
    with mock.patch.object(Committer, "uncompacted_buckets", return_value=[]):
        assert table.write(rows(range(5, 15), 2), **identity).snapshot_ids == ()
    done = table.write(rows(range(5, 15), 2), **identity)
    assert (done.already_committed, done.rows, len(done.snapshot_ids)) == (True, 0, 1)
    assert state(table) == before
    told = changed(table, start, done.snapshot_ids[0], mode="changelog")
    assert [kind for kind, k, _ in told if k >= 10] == ["+I"] * 5
    assert table.write(rows(range(5, 15), 2), **identity).snapshot_ids == ()
    with table.writer(commit_user="job", commit_identifier=1) as out:
        out.write(rows(range(99), 3))
    assert out.result.already_committed
    assert state(table) == before


def test_a_compaction_that_gave_way_is_tried_again(make):
    table = make(bucket="2", **{"changelog-producer": "lookup"})
    table.write(rows(range(100), 1))
    met = []
    result = overtaken(
        table,
        lambda t: t.write(rows(range(50), 2)),
        lambda other: met.append(other.write(rows((7, 200), 9))),
        again=1,
    )
    assert met[0].compactions_dropped == result.compactions_dropped == 0
    assert set(table.system_table("files").to_arrow()["level"].to_pylist()) <= {1, 2, 3, 4, 5}
    assert state(table) == state(table, snapshot_id=result.snapshot_ids[0])
    told = changed(table, met[0].snapshot_ids[-1], result.snapshot_ids[-1], mode="changelog")
    assert {k for _, k, _ in told} == set(range(50))
