"""What a maintenance job does with one table, by the table's options."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from proving.fsck import check_table

import tidelake
from tidelake.commit import fairness
from tidelake.errors import NotFoundError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.table.job.plan import LocalRunner
from tidelake.table.upkeep import HERE, TableUpkeep, Task, UpkeepPolicy
from tidelake.table.upkeep.claim import TableClaim
from tidelake.telemetry import Env, ManualClock

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def catalog(clock):
    env = replace(Env.seeded(1), clock=clock)
    return tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)


def make(catalog, name="db.t", *, keys=("k",), columns=COLUMNS, partitions=(), **options):
    written = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(
        name,
        columns,
        primary_keys=keys,
        partition_keys=partitions,
        options={"bucket": 1 if keys else -1, "write-only": True, **written},
    )


def write(table, count, first=0):
    for v in range(first, first + count):
        table.write([{"k": v % 4, "v": v}])


def run(upkeep, table, catalog):
    done = upkeep.run(catalog.table(table.identifier).handle)
    assert not done.errors, done
    return {str(task.task): dict(task.figures) for task in done.tasks}


def runs_count(table):
    return table.system_table("files").to_arrow().num_rows


def test_a_write_only_table_is_compacted_and_its_rows_stay(catalog):
    table = make(catalog)
    write(table, 6)
    upkeep = TableUpkeep("job")
    assert run(upkeep, table, catalog)["compaction"]["files"] == 1
    assert runs_count(table) == 1
    assert sorted(r["v"] for r in table.to_arrow().to_pylist()) == [2, 3, 4, 5]
    assert run(upkeep, table, catalog) == {}
    check_table(table.handle.fileio, table.location)


def test_it_stays_two_runs_below_the_trigger_of_writers_with_their_levels(catalog):
    table = make(catalog)
    upkeep = TableUpkeep("job")
    for v in range(30):
        write(table, 1, first=v)
        run(upkeep, table, catalog)
        assert runs_count(table) <= 3
    levels = table.system_table("files").to_arrow()["level"].to_pylist()
    assert max(levels) == 5
    table.with_options({"write-only": False}).write([{"k": 9, "v": 9}])
    assert table.count() == 5


def test_options_say_how_many_runs(catalog):
    table = make(catalog, **{"maintenance.sorted-runs": 8})
    upkeep = TableUpkeep("job")
    write(table, 7)
    assert run(upkeep, table, catalog) == {}
    write(table, 1, first=7)
    assert "compaction" in run(upkeep, table, catalog)


def test_writers_that_compact_are_left_alone_unless_the_table_says_always(catalog):
    table = make(catalog, **{"write-only": False, "num-sorted-run.compaction-trigger": 50})
    write(table, 60)
    policy = UpkeepPolicy.of(table.handle)
    assert Task.COMPACTION not in policy.tasks
    again = table.with_options({"maintenance.compaction": "always"})
    assert Task.COMPACTION in UpkeepPolicy.of(again.handle).tasks


def test_a_table_may_say_that_nothing_is_done(catalog):
    table = make(catalog, **{"maintenance.tasks": "none"})
    write(table, 9)
    assert run(TableUpkeep("job"), table, catalog) == {}
    only = make(catalog, "db.u", **{"maintenance.tasks": "tags , snapshots"})
    write(only, 9)
    assert UpkeepPolicy.of(only.handle).tasks == {Task.TAGS, Task.SNAPSHOTS}


def test_the_postpone_bucket_is_emptied(catalog):
    table = make(catalog, bucket=-2)
    write(table, 3)
    assert table.count() == 0
    assert "compaction" in run(TableUpkeep("job"), table, catalog)
    assert table.count() == 3
    assert run(TableUpkeep("job"), table, catalog) == {}


def test_the_changelog_of_a_write_only_table_is_made(catalog):
    table = make(catalog, **{"changelog-producer": "lookup"})
    write(table, 2)
    run(TableUpkeep("job"), table, catalog)
    write(table, 1, first=4)
    run(TableUpkeep("job"), table, catalog)
    kinds = [(s.changelog_record_count) for s in map(table.handle.snapshots.load, (3, 5))]
    assert kinds == [2, 2]


def test_snapshots_of_an_idle_table_expire(catalog, clock):
    table = make(catalog, **{"snapshot.num-retained.min": 1, "snapshot.expire.limit": 3})
    write(table, 8)
    upkeep = TableUpkeep("job")
    run(upkeep, table, catalog)
    clock.sleep_ms(2 * HOUR_MS)
    [said] = TableUpkeep("job").plan(table.handle).tasks
    assert (said.task, said.figures["snapshots"]) == (Task.SNAPSHOTS, 8)
    assert run(upkeep, table, catalog)["snapshots"]["snapshots"] == 8  # three at a time
    assert table.handle.snapshots.ids() == [9]
    clock.sleep_ms(2 * HOUR_MS)
    assert run(upkeep, table, catalog) == {}


def test_a_look_for_snapshots_waits_for_its_interval(catalog, clock):
    table = make(
        catalog,
        **{
            "snapshot.num-retained.min": 1,
            "snapshot.num-retained.max": 1,
            "maintenance.expiry-interval": "5 min",
        },
    )
    upkeep = TableUpkeep("job")
    write(table, 1)
    run(upkeep, table, catalog)
    write(table, 1)
    assert run(upkeep, table, catalog) == {}
    clock.sleep_ms(300_000)
    assert run(upkeep, table, catalog)["snapshots"]["snapshots"] == 1
    write(table, 1)
    clock.sleep_ms(-DAY_MS)  # a clock that was set back makes it due
    assert run(upkeep, table, catalog)["snapshots"]["snapshots"] == 2  # and a compaction's


def test_old_partitions_go(catalog, clock):
    columns = pa.schema({"day": pa.string(), "k": pa.int64()})
    table = make(
        catalog,
        keys=(),
        columns=columns,
        partitions=["day"],
        **{"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyy-MM-dd"},
    )
    table.write([{"day": "2023-10-01", "k": 1}, {"day": "2023-11-14", "k": 2}])
    upkeep = TableUpkeep("job")
    assert run(upkeep, table, catalog)["partitions"] == {"partitions": 1, "rows": 1}
    assert table.to_arrow()["k"].to_pylist() == [2]
    clock.sleep_ms(8 * DAY_MS)
    assert run(upkeep, table, catalog)["partitions"] == {"partitions": 1, "rows": 1}


def test_tags_are_made_and_removed_by_the_clock(catalog, clock):
    table = make(
        catalog, **{"tag.automatic-creation": "process-time", "tag.default-time-retained": "2 d"}
    )
    write(table, 1)
    upkeep = TableUpkeep("job")
    assert run(upkeep, table, catalog)["tags"] == {"new_tags": 1, "expired_tags": 0}
    clock.sleep_ms(3 * DAY_MS)
    write(table, 1)
    assert run(upkeep, table, catalog)["tags"] == {"new_tags": 1, "expired_tags": 1}
    assert len(table.tags.list()) == 1


def test_orphan_files_go_after_two_days_and_a_restart_does_not_search_again(catalog, clock):
    table = make(catalog)
    write(table, 1)
    path = f"{table.location}/bucket-0/data-left.parquet"
    table.handle.fileio.replace(path, b"half a file")
    clock.sleep_ms(DAY_MS + 1)
    found = run(TableUpkeep("a"), table, catalog)["orphans"]
    assert (found["quarantined_files"], found["removed_files"]) == (1, 0)
    clock.sleep_ms(DAY_MS - 1000)
    assert run(TableUpkeep("b"), table, catalog) == {}
    clock.sleep_ms(2000)
    assert run(TableUpkeep("c"), table, catalog)["orphans"]["removed_files"] == 1
    assert not table.handle.fileio.exists(path)


def test_files_of_a_writer_stay_for_an_hour_whatever_the_table_says(catalog, clock):
    given = {"maintenance.orphans-older-than": "0 s", "maintenance.orphans-interval": "0 s"}
    table = make(catalog, **given)
    write(table, 1)
    path = f"{table.location}/bucket-0/data-of-a-writer.parquet"
    table.handle.fileio.replace(path, b"a file before its commit")
    upkeep = TableUpkeep("job")
    for _ in range(3):
        clock.sleep_ms(60_000)
        run(upkeep, table, catalog)
    assert table.handle.fileio.exists(path)
    assert table.maintenance.quarantined_files().num_rows == 0


@pytest.mark.parametrize(("commits", "rounds"), [(None, 1), (2, 2)])
def test_a_changelog_by_full_compaction_is_made(catalog, commits, rounds):
    """Also where the last level is large, and the pick policy would leave it alone."""
    more = {} if commits is None else {"full-compaction.delta-commits": commits}
    table = make(catalog, **{"changelog-producer": "full-compaction", **more})
    table.write(pa.table({"k": range(20_000), "v": range(20_000)}))
    table.compact(full=True)
    upkeep = TableUpkeep("job")
    first = table.latest_snapshot_id
    for v in range(4):
        table.write([{"k": v, "v": -1}])
        run(upkeep, table, catalog)
    records = [
        table.handle.snapshots.load(n).changelog_record_count or 0
        for n in range(first + 1, table.latest_snapshot_id + 1)
    ]
    assert sum(records) == 8
    assert sum(n > 0 for n in records) == 4 // rounds


def test_an_idle_table_is_not_written_to(catalog):
    table = make(catalog)
    write(table, 1)
    upkeep = TableUpkeep("job")
    run(upkeep, table, catalog)
    fileio = table.handle.fileio
    before = sorted(s.name for s in fileio.list_dir(table.handle.paths.upkeep_dir))
    for _ in range(3):
        assert run(upkeep, table, catalog) == {}
    assert sorted(s.name for s in fileio.list_dir(table.handle.paths.upkeep_dir)) == before


def test_a_table_that_another_job_has_is_left_to_it(catalog):
    table = make(catalog)
    write(table, 6)
    upkeep = TableUpkeep("a")
    with TableClaim.take(table.handle, "b"):
        assert upkeep.run(table.handle).is_taken
        assert runs_count(table) == 6
    assert "compaction" in run(upkeep, table, catalog)


class Racing(LocalRunner):
    """Another commit comes between a compaction and its commit."""

    def __init__(self, rival):
        self.rival = rival

    def run(self, plan, into):
        super().run(plan, into)
        self.rival()


def test_a_compaction_gives_way_and_is_planned_again(catalog):
    table = make(catalog)
    write(table, 6)
    upkeep = TableUpkeep("a", replace(HERE, runner=Racing(lambda: table.compact(full=True))))
    assert run(upkeep, table, catalog)["compaction"] == {"files": 0, "bytes": 0, "gave_way": 1}
    check_table(table.handle.fileio, table.location)
    write(table, 6)
    upkeep = TableUpkeep("a", replace(HERE, runner=Racing(lambda: write(table, 1, first=50))))
    assert run(upkeep, table, catalog)["compaction"]["gave_way"] == 0  # a writer is no rival
    assert max(r["v"] for r in table.to_arrow().to_pylist()) == 50
    check_table(table.handle.fileio, table.location)


def test_while_a_statement_waits_for_its_turn_the_table_is_not_compacted(catalog, clock):
    table = make(catalog)
    write(table, 6)
    request = fairness._TurnRequest(table.handle.commit_context(), "statement")
    for _ in range(fairness.LOSSES_BEFORE):
        request.lose()
    upkeep = TableUpkeep("job")
    assert "compaction" not in run(upkeep, table, catalog)
    assert runs_count(table) == 6
    request.withdraw()
    assert "compaction" in run(upkeep, table, catalog)


class Failing(LocalRunner):
    def run(self, plan, into):
        message = "the disk is full"
        raise StorageError(message, kind="storage")


def test_a_task_that_fails_does_not_keep_the_others(catalog):
    table = make(catalog, **{"snapshot.num-retained.max": 2, "snapshot.num-retained.min": 1})
    write(table, 6)
    done = TableUpkeep("job", replace(HERE, runner=Failing())).run(table.handle)
    by_task = {task.task: task for task in done.tasks}
    assert str(by_task[Task.COMPACTION].error) == "the disk is full"
    assert by_task[Task.SNAPSHOTS].figures["snapshots"] == 4
    assert "compaction" in run(TableUpkeep("other"), table, catalog)  # the claim was given back


def test_a_table_that_is_dropped_meanwhile_is_no_error_of_a_task(catalog):
    table = make(catalog)
    write(table, 6)
    rival = Racing(lambda: catalog.drop_table("db.t"))
    with pytest.raises(NotFoundError):
        TableUpkeep("job", replace(HERE, runner=rival)).run(table.handle)
    assert not catalog.table_exists("db.t")


def test_a_plan_says_what_is_due_and_changes_nothing(catalog, clock):
    table = make(catalog, **{"snapshot.num-retained.min": 1})
    write(table, 6)
    clock.sleep_ms(2 * HOUR_MS)
    fileio = table.handle.fileio
    before = sorted(fileio._files)
    plan = TableUpkeep("job").plan(table.handle)
    assert sorted(fileio._files) == before
    figures = {str(task.task): dict(task.figures) for task in plan.tasks}
    assert figures["compaction"]["compactions"] == 1
    assert figures["snapshots"]["snapshots"] == 5
    assert str(plan).startswith("db.t: compaction (1 compactions, ")
