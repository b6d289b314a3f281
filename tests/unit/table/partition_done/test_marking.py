"""Which partitions are done: by time, by the watermark, and at the end of a batch."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from servers.done_reports import DoneReports
from sizes import FULL, SIZE

import tidelake
from tidelake.errors import InvalidInputError, StorageError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.table.partition_done import IdleMarks, has_news, idle_partitions, mark_idle
from tidelake.table.upkeep import TableUpkeep
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import Env, ManualClock

COLUMNS = pa.schema({"day": pa.string(), "k": pa.int64()})
BY_TIME = {"partition.idle-time-to-done": "1 h", "partition.time-interval": "1 d"}
AT_END = {"partition.end-input-to-done": "true"}


class At(ManualClock):
    """A clock that is set."""

    def set(self, text: str) -> None:
        self._now_ms = milliseconds(text)


def milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def clock():
    made = At()
    made.set("2024-01-01 10:00")
    return made


@pytest.fixture
def catalog(clock):
    env = replace(Env.seeded(1), clock=clock)
    return tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)


@pytest.fixture
def make(catalog):
    def make(*, keys=(), **options):
        return catalog.create_table(
            "db.t",
            COLUMNS,
            primary_keys=keys,
            partition_keys=["day"],
            options={**BY_TIME, **options.pop("more", {}), **options},
        )

    return make


def write(table, *days, **how):
    table.write([{"day": day, "k": n} for n, day in enumerate(days)], **how)


def marked(table):
    return [one.values["day"] for one in mark_idle(table.handle)]


def has_success_file(table, day):
    return table.fileio.exists(f"{table.location}/day={day}/_SUCCESS")


def test_a_partition_is_done_when_it_is_over_and_idle(make, clock):
    table = make()
    write(table, "2024-01-01", "2024-01-02")
    assert marked(table) == []
    clock.set("2024-01-02 01:00")
    assert marked(table) == []  # as long as the idle time is not enough: it must be longer
    clock.set("2024-01-02 01:00:00.001")
    assert marked(table) == ["2024-01-01"]
    assert has_success_file(table, "2024-01-01")
    assert not has_success_file(table, "2024-01-02")
    assert marked(table) == []
    clock.set("2024-01-03 02:00")
    assert marked(table) == ["2024-01-02"]


def test_late_rows_make_a_partition_pending_again(make, clock):
    table = make()
    write(table, "2024-01-01")
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-01"]
    write(table, "2024-01-01")
    clock.set("2024-01-05 08:59")
    assert marked(table) == []
    clock.set("2024-01-05 09:01")
    assert marked(table) == ["2024-01-01"]


def test_a_compaction_brings_no_rows(make, clock):
    table = make(keys=["day", "k"], bucket="1")
    write(table, "2024-01-01")
    write(table, "2024-01-01")
    clock.set("2024-01-02 02:00")
    assert marked(table) == ["2024-01-01"]
    table.compact(full=True)
    clock.set("2024-01-03 02:00")
    assert marked(table) == []


@pytest.mark.parametrize(
    "more", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {"bucket": "-2"}]
)
def test_a_compaction_counts_where_it_makes_rows_readable(make, clock, more):
    table = make(keys=["day", "k"], more={"bucket": "1", "write-only": "true", **more})
    write(table, "2024-01-01")
    clock.set("2024-01-02 02:00")
    assert marked(table) == ["2024-01-01"]
    table.compact(full=True)
    clock.set("2024-01-03 02:00")
    assert marked(table) == ["2024-01-01"]


def test_what_came_before_the_option_is_not_marked(make, clock):
    table = make()
    table.alter(tidelake.RemoveOption("partition.idle-time-to-done"))
    write(table, "2023-12-01")
    clock.set("2024-01-01 11:00")
    table.set_options({"partition.idle-time-to-done": "1 h"})
    write(table, "2024-01-01")
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-01"]


def test_an_option_of_one_use_counts_from_its_first_look(catalog, clock):
    plain = catalog.create_table("db.u", COLUMNS, partition_keys=["day"])
    table = plain.with_options(BY_TIME)
    write(table, "2024-01-01")
    clock.sleep_ms(1)
    assert marked(table) == []
    write(table, "2024-01-02")
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-02"]


def test_a_look_at_an_empty_table_begins_the_count(catalog, clock):
    plain = catalog.create_table("db.u", COLUMNS, partition_keys=["day"])
    table = plain.with_options(BY_TIME)
    assert marked(table) == []
    clock.sleep_ms(1)
    write(table, "2024-01-01")
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-01"]


def test_partitions_whose_snapshots_expired_unseen_are_found_by_their_files(make, clock):
    table = make()
    write(table, "2024-01-01")
    assert marked(table) == []
    clock.sleep_ms(1)
    for day in ("2024-01-02", "2024-01-03", "2024-01-04"):
        write(table, day)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    clock.set("2024-01-09 08:00")
    assert marked(table) == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]


def test_a_torn_file_makes_marks_again_and_loses_none(make, clock):
    table = make()
    write(table, "2024-01-01")
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-01"]
    path = f"{table.paths.upkeep_dir}/partitions-pending"
    table.fileio.replace(path, table.fileio.read_bytes(path)[:-20])
    assert marked(table) == ["2024-01-01"]
    assert marked(table) == []


def test_a_rollback_is_survived(make, clock):
    table = make()
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        write(table, day)
    assert marked(table) == []
    table.rollback_to(snapshot_id=1)
    clock.set("2024-01-03 08:00")
    write(table, "2024-01-02")
    clock.set("2024-01-03 10:00")
    assert "2024-01-02" in marked(table)


@pytest.mark.parametrize("commits", [1, 2, 4], ids=["below", "equal", "above"])
def test_partitions_that_came_after_a_rollback_are_not_missed(make, clock, commits):
    table = make()
    for day in ("2024-01-01", "2024-01-02", "2024-01-03"):
        write(table, day)
        clock.sleep_ms(1)
    clock.set("2024-01-09 08:00")
    assert marked(table) == ["2024-01-01", "2024-01-02", "2024-01-03"]
    table.rollback_to(snapshot_id=1)
    days = [f"2024-01-0{n}" for n in range(4, 4 + commits)]
    for day in days:
        write(table, day)
    clock.set("2024-01-19 08:00")
    assert marked(table) == days
    assert marked(table) == []


def test_a_partition_that_was_dropped_is_not_told(make, clock):
    table = make()
    write(table, "2024-01-01", "2024-01-02")
    table.drop_partitions([{"day": "2024-01-01"}])
    clock.set("2024-01-05 08:00")
    assert marked(table) == ["2024-01-02"]
    assert not has_news(table.handle)
    write(table, "2024-01-01")
    clock.set("2024-01-05 10:00")
    assert marked(table) == ["2024-01-01"]


def test_values_that_say_no_time_are_named_once_and_never_marked(make, clock, caplog):
    table = make()
    write(table, "someday", None, "2024-01-01")
    clock.set("2024-01-05 08:00")
    with caplog.at_level(logging.WARNING, "tidelake"):
        assert marked(table) == ["2024-01-01"]
    assert "day=__DEFAULT_PARTITION__, day=someday will not be marked as done" in caplog.text
    assert not has_news(table.handle)


def test_a_pattern_and_a_format_say_how_values_are_read(catalog, clock):
    columns = pa.schema({"d": pa.string(), "h": pa.int32(), "k": pa.int64()})
    options = {
        "partition.idle-time-to-done": "1 min",
        "partition.time-interval": "1 h",
        "partition.timestamp-pattern": "$d $h",
        "partition.timestamp-formatter": "yyyyMMdd H",
    }
    table = catalog.create_table("db.h", columns, partition_keys=["d", "h"], options=options)
    table.write([{"d": "20240101", "h": h, "k": h} for h in (8, 9, 10)])
    clock.set("2024-01-01 10:02")
    assert [one.path for one in mark_idle(table.handle)] == ["d=20240101/h=8", "d=20240101/h=9"]


def test_the_watermark_decides_in_its_mode(make, clock):
    table = make(more={"partition.mark-done-action.mode": "watermark"})

    def write_at(day, watermark):
        mark = None if watermark is None else milliseconds(watermark)
        WriteTransaction(table.handle, watermark=mark).write([{"day": day, "k": 1}])

    write_at("2024-01-01", None)
    clock.set("2030-01-01 00:00")
    assert marked(table) == []
    write_at("2024-01-01", "2024-01-01 23:00")
    write_at("2024-01-02", "2024-01-02 01:00")
    assert marked(table) == []
    write_at("2024-01-02", "2024-01-02 01:01")
    assert marked(table) == ["2024-01-01"]


@pytest.fixture
def told(make, clock):
    """A table with three partitions that are done, and the server that hears of them."""
    with DoneReports() as server:
        table = make(
            more={
                "partition.mark-done-action": "http-report",
                "partition.mark-done-action.http.url": f"http://{server.address}",
            }
        )
        write(table, "2024-01-01", "2024-01-02", "2024-01-03")
        clock.set("2024-01-05 08:00")
        yield table, server


def days_of(server):
    return [one["partition"][len("day=2024-01-") : -1] for one in server.reports]


def test_a_mark_that_fails_stops_no_other_and_repeats_none(told):
    table, server = told
    server.says(200, b'{"result": "success"}')
    server.says(403)
    with pytest.raises(StorageError, match="status 403"):
        mark_idle(table.handle)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert days_of(server) == ["01", "02", "03"]
    assert marked(table) == ["2024-01-02"]
    assert days_of(server) == ["01", "02", "03", "02"]
    assert marked(table) == []


def test_a_server_that_is_away_is_not_asked_for_each_partition(told, clock):
    table, server = told
    write(table, *[f"2023-12-{n}" for n in range(10, 30)])
    clock.set("2024-01-06 08:00")
    for _ in range(9):
        server.says(503)
    with pytest.raises(StorageError, match="status 503"):
        mark_idle(table.handle)
    assert len(server.reports) == 9  # three partitions, three times each
    assert len(marked(table)) == 23


def test_marks_beside_a_stream_take_a_share_of_its_time(told, clock, monkeypatch):
    table, server = told
    marks = IdleMarks(table.handle, within_s=10)
    heard = server.answer

    def slowly(handler):
        clock.sleep_ms(6_000)  # before the answer, at which the next mark may begin
        heard(handler)

    monkeypatch.setattr(server, "answer", slowly)
    marks.look()
    assert days_of(server) == ["01", "02"]
    marks.look()
    assert days_of(server) == ["01", "02", "03"]
    marks.look()
    assert len(server.reports) == 3


def test_marks_beside_a_stream_that_failed_wait_and_come_last(told, clock, caplog):
    table, server = told
    server.says(403)
    server.says(200, b'{"result": "success"}')
    server.says(403)
    marks = IdleMarks(table.handle, within_s=10)
    with caplog.at_level(logging.WARNING, "tidelake"):
        marks.look()
    assert "partitions are not marked as done" in caplog.text
    assert days_of(server) == ["01", "02", "03"]
    marks.look()
    assert len(server.reports) == 3
    write(table, "2024-01-04")
    clock.sleep_ms(3_700_000)
    marks.look()
    assert days_of(server)[3:] == ["04", "01", "03"]


def test_a_branch_marks_nothing(make, clock):
    table = make(more=AT_END)
    write(table, "2024-01-01")
    table.branches.create("audit")
    branch = table.branch("audit")
    write(branch, "2024-01-02")
    clock.set("2024-01-05 08:00")
    assert marked(branch) == []
    assert not has_success_file(table, "2024-01-02")


@pytest.mark.parametrize("seed", range(40 if SIZE is FULL else 3))
def test_looks_of_jobs_that_start_anew_find_what_flink_s_trigger_finds(catalog, clock, seed):
    rng = random.Random(seed)
    options = {**BY_TIME, "snapshot.num-retained.min": "200", "snapshot.num-retained.max": "200"}
    table = catalog.create_table("db.r", COLUMNS, partition_keys=["day"], options=options)
    days = [f"2024-01-{n:02}" for n in range(1, 9)]
    pending: dict[str, int] = {}
    for _ in range(40):
        clock.sleep_ms(rng.choice([0, 60_000, 3_600_001, 10 * 3_600_000]))
        for _ in range(rng.randrange(3)):
            written = rng.sample(days, rng.randrange(1, 3))
            write(table, *written)
            pending.update(dict.fromkeys(written, clock.now_ms()))
        if rng.random() < 0.3:
            table.compact(full=True)
        if rng.random() < 0.5:
            continue
        expected = []
        for day, updated_ms in sorted(pending.items()):
            end_ms = milliseconds(day) + int(timedelta(days=1).total_seconds() * 1000)
            if clock.now_ms() - max(updated_ms, end_ms) > 3_600_000:
                expected.append(day)
        assert [p.values["day"] for p in idle_partitions(table.handle)] == expected
        opened = catalog.table("db.r")
        assert sorted(marked(opened)) == expected
        for day in expected:
            del pending[day]


# ---- a maintenance job


def test_a_maintenance_job_marks_what_is_done(make, catalog, clock):
    table = make()
    write(table, "2024-01-01", "2024-01-02")
    upkeep = TableUpkeep("job")
    upkeep.run(table.handle)
    clock.set("2024-01-02 02:00")
    plan = TableUpkeep("other").plan(table.handle)
    assert [str(one) for one in plan.tasks if one.task == "done"] == ["done (1 partitions)"]
    assert not has_success_file(table, "2024-01-01")
    found = {str(one.task): dict(one.figures) for one in upkeep.run(table.handle).tasks}
    assert found["done"] == {"partitions": 1}
    assert has_success_file(table, "2024-01-01")
    clock.set("2024-01-03 02:00")
    assert [p.path for p in table.maintenance.mark_done_partitions()] == ["day=2024-01-02"]


def test_a_job_reports_an_action_that_is_not_possible(make, clock):
    table = make(more={"partition.mark-done-action": "custom"})
    write(table, "2024-01-01")
    clock.set("2024-01-02 02:00")
    (error,) = TableUpkeep("job").run(table.handle).errors
    assert isinstance(error, UnsupportedError)


# ---- the end of a batch


def test_a_batch_marks_the_partitions_that_it_wrote(make):
    table = make(more=AT_END)
    write(table, "2024-01-01", "someday")
    assert has_success_file(table, "2024-01-01")
    assert has_success_file(table, "someday")
    write(table, "2024-01-02", mode="overwrite")
    assert has_success_file(table, "2024-01-02")


def test_a_commit_of_a_stream_is_no_end(make):
    table = make(more=AT_END)
    write(table, "2024-01-01", commit_user="stream", commit_identifier=1)
    assert not has_success_file(table, "2024-01-01")


def test_rows_that_wait_for_a_compaction_are_marked_by_it(make):
    table = make(keys=["day", "k"], more={**AT_END, "bucket": "-2"})
    write(table, "2024-01-01")
    assert not has_success_file(table, "2024-01-01")
    table.compact()
    assert has_success_file(table, "2024-01-01")


def test_a_mark_that_fails_is_logged_since_the_rows_are_there(make, caplog):
    table = make(more={**AT_END, "partition.mark-done-action": "mark-event"})
    with caplog.at_level(logging.WARNING, "tidelake"):
        write(table, "2024-01-01")
    assert table.count() == 1
    assert "its rows are committed, and partitions are not marked as done" in caplog.text
    assert "needs a REST catalog" in caplog.text


# ---- what is refused


def test_an_idle_time_needs_the_length_of_a_partition(catalog):
    with pytest.raises(InvalidInputError, match="set it to '1 d' for a partition of a day"):
        catalog.create_table(
            "db.t", COLUMNS, partition_keys=["day"],
            options={"partition.idle-time-to-done": "1 h"},
        )  # fmt: skip


def test_an_unknown_mode_is_refused(make):
    with pytest.raises(InvalidInputError, match="process-time"):
        make(more={"partition.mark-done-action.mode": "event-time"})


def test_a_table_without_partitions_is_warned_of(catalog, caplog):
    with caplog.at_level(logging.WARNING, "tidelake"):
        table = catalog.create_table("db.plain", COLUMNS, options={**BY_TIME, **AT_END})
    assert "no partition will be marked as done" in caplog.text
    table.write([{"day": "2024-01-01", "k": 1}])
    assert mark_idle(table.handle) == ()
