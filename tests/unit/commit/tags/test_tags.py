"""Tags by the clock: made for each period, and removed when their time is over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.commit.tags.periods import TagPeriod
from tidelake.errors import StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.options import Options
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import Env, ManualClock

DAY = timedelta(days=1)


class At(ManualClock):
    """A clock that is set."""

    def set(self, text: str) -> None:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
        self._now_ms = int(moment.timestamp() * 1000)


@pytest.fixture
def make():
    def make(**options):
        seeded = Env.seeded(5)
        env = Env(clock=At(), rng=seeded.rng, ids=seeded.ids, executor=seeded.executor, zone="UTC")
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
        named = {key.replace("_", "-").replace("--", "."): v for key, v in options.items()}
        columns = {"k": "BIGINT", "v": "BIGINT"}
        return catalog.create_table("db.t", columns, primary_keys=["k"], options=named)

    return make


def write(table, *moments, **how):
    for moment in moments:
        table.handle.env.clock.set(moment)
        table.write([{"k": 1, "v": 1}], **how)


def tags(table):
    return {tag.name: tag.snapshot_id for tag in table.tags}


def test_each_day_gets_a_tag_of_the_first_snapshot_after_it(make):
    table = make(tag__automatic_creation="process-time")
    write(table, "2024-01-01 10:00", "2024-01-01 23:59", "2024-01-02 00:00", "2024-01-02 09:00")
    assert tags(table) == {"2023-12-31": 1, "2024-01-01": 3}
    write(table, "2024-01-05 01:00", "2024-01-05 02:00")
    assert tags(table) == {"2023-12-31": 1, "2024-01-01": 3, "2024-01-04": 5}


def success_files(table):
    folder = f"{table.handle.paths.tag_dir}/tag-success-file"
    return {
        status.name: json.loads(table.fileio.read_bytes(f"{folder}/{status.name}"))
        for status in table.fileio.list_dir(folder)
    }


def test_each_tag_has_a_success_file_while_it_is_there(make):
    table = make(
        tag__automatic_creation="process-time", tag__create_success_file="true",
        tag__num_retained_max="2",
    )  # fmt: skip
    write(table, "2024-01-01 10:00", "2024-01-02 00:00", "2024-01-03 09:00")
    assert set(success_files(table)) == {"2024-01-01_SUCCESS", "2024-01-02_SUCCESS"}
    made = table.handle.env.clock.now_ms()
    table.tags.create("v1")
    table.handle.env.clock.set("2024-01-03 09:30")
    table.tags.replace("v1", snapshot_id=2)
    later = table.handle.env.clock.now_ms()
    found = success_files(table)["v1_SUCCESS"]
    assert found == {"creationTime": made, "modificationTime": later}
    table.tags.rename("v1", "v2")
    assert sorted(tags(table)) == ["2024-01-01", "2024-01-02", "v2"]
    assert sorted(success_files(table)) == [f"{name}_SUCCESS" for name in sorted(tags(table))]
    table.rollback_to(2)
    assert sorted(success_files(table)) == [f"{name}_SUCCESS" for name in sorted(tags(table))]
    table.tags.delete("v2")
    assert sorted(success_files(table)) == [f"{name}_SUCCESS" for name in sorted(tags(table))]


def test_without_the_option_no_success_file_is_written(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("v1")
    table.tags.delete("v1")
    assert success_files(table) == {}


def test_a_delay_waits_for_late_rows(make):
    table = make(tag__automatic_creation="process-time", tag__creation_delay="2 h")
    write(table, "2024-01-01 10:00", "2024-01-02 01:59", "2024-01-02 02:00")
    assert tags(table) == {"2023-12-31": 1, "2024-01-01": 3}


def test_periods_without_a_commit_are_completed_by_later_ones(make):
    table = make(
        tag__automatic_creation="process-time",
        tag__creation_period="hourly",
        tag__automatic_completion="true",
    )
    write(table, "2024-01-01 10:30", "2024-01-01 13:10", "2024-01-01 13:20", "2024-01-01 13:30")
    assert tags(table) == {
        "2024-01-01 09": 1,
        "2024-01-01 10": 2,
        "2024-01-01 11": 3,
        "2024-01-01 12": 4,
    }


def test_so_many_tags_stay(make):
    table = make(
        tag__automatic_creation="process-time",
        tag__num_retained_max="2",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="1",
    )
    for day in range(1, 6):
        write(table, f"2024-01-0{day} 10:00")
        if day == 2:
            table.tags.create("mine", snapshot_id=2)
    assert tags(table) == {"mine": 2, "2024-01-03": 4, "2024-01-04": 5}
    assert table.count(tag="2024-01-03") == table.count(tag="mine") == 1


def test_a_watermark_makes_tags(make):
    table = make(tag__automatic_creation="watermark", tag__creation_period="two-hours")
    day_ms = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)
    for hours in (None, 1, 2, 5):
        watermark = None if hours is None else day_ms + hours * 3_600_000
        WriteTransaction(table.handle, watermark=watermark).write([{"k": 1, "v": 1}])
    assert tags(table) == {"2023-12-31 22": 2, "2024-01-01 00": 3, "2024-01-01 02": 4}


def test_a_batch_names_the_newest_snapshot_after_its_day(make):
    table = make(tag__automatic_creation="batch", tag__num_retained_max="2")
    write(table, "2024-01-01 10:00", "2024-01-01 11:00")
    assert tags(table) == {"batch-write-2024-01-01": 2}
    write(table, "2024-01-02 10:00", "2024-01-03 10:00")
    write(table, "2024-01-04 10:00", commit_user="stream", commit_identifier=1)
    assert tags(table) == {"batch-write-2024-01-02": 3, "batch-write-2024-01-03": 4}


def test_a_batch_s_tag_may_have_a_name_of_its_own(make):
    table = make(tag__automatic_creation="batch", tag__batch__customized_name="newest")
    write(table, "2024-01-01 10:00", "2024-01-02 11:00")
    assert tags(table) == {"newest": 2}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "2024-01-31"),
        ({"tag.period-formatter": "without_dashes"}, "20240131"),
        ({"tag.creation-period": "hourly"}, "2024-01-31 08"),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
            "20240131 08",
        ),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
            "2024013108",
        ),
        ({"tag.creation-period": "two-hours"}, "2024-01-31 08"),
        ({"tag.creation-period-duration": "5 min"}, "202401310855"),
    ],
)
def test_names_are_those_of_java(options, name):
    period = TagPeriod.of(Options.parse(options))
    moment = datetime(2024, 1, 31, 8, 55, tzinfo=UTC)
    local_ms = int(moment.timestamp() * 1000)
    begin_ms = local_ms // period.length_ms * period.length_ms
    assert period.name(begin_ms) == name
    assert period.time(name) == begin_ms
    assert period.before(local_ms) == begin_ms - period.length_ms
    assert period.time("v1") is period.time("2024-02-31") is period.time("") is None


def test_a_zone_says_when_a_day_ends(make):
    table = make(tag__automatic_creation="process-time", sink__process_time_zone="Asia/Shanghai")
    write(table, "2024-01-01 10:00", "2024-01-01 15:59", "2024-01-01 16:00")
    assert tags(table) == {"2023-12-31": 1, "2024-01-01": 3}


def test_a_clock_that_was_set_back_makes_no_tag_twice(make):
    table = make(tag__automatic_creation="process-time")
    write(table, "2024-01-02 10:00", "2024-01-01 10:00", "2024-01-02 11:00", "2024-01-03 00:10")
    assert tags(table) == {"2024-01-01": 1, "2024-01-02": 4}


def test_tags_go_when_their_time_is_over(make):
    table = make(tag__default_time_retained="2 d")
    write(table, "2024-01-01 10:00")
    table.tags.create("short")
    table.tags.create("long", time_retained="9 d")
    table.tags.replace("long")
    write(table, "2024-01-03 10:00")
    assert set(tags(table)) == {"short", "long"}
    write(table, "2024-01-03 10:01")
    assert set(tags(table)) == {"long"}


def test_a_process_looks_for_tags_of_other_tables_too(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("short", time_retained="1 min")
    write(table, "2024-01-01 10:05")
    assert set(tags(table)) == {"short"}
    write(table, "2024-01-01 10:11")
    assert tags(table) == {}


def test_tags_expire_by_a_call(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("a", time_retained="1 d")
    table.tags.create("b", time_retained="9 d")
    table.handle.env.clock.set("2024-01-03 10:00")
    assert table.tags.expire(dry_run=True) == ["a"]
    assert table.tags.expire() == ["a"]
    assert table.tags.expire(older_than="2024-01-01T00:00:00Z") == []
    assert table.tags.expire(older_than="2024-01-02T00:00:00Z") == ["b"]
    with pytest.raises(InvalidInputError, match="has no time zone"):
        table.tags.expire(older_than="2024-01-02")


def test_writers_that_only_write_leave_tags_to_a_job(make):
    table = make(tag__automatic_creation="process-time", write_only="true")
    write(table, "2024-01-01 10:00", "2024-01-02 10:00")
    assert tags(table) == {}
    assert table.tags.create_due() == ["2023-12-31", "2024-01-01"]
    write(table, "2024-01-03 10:00")
    table.compact()
    assert set(tags(table)) == {"2023-12-31", "2024-01-01", "2024-01-02"}


def test_a_failure_is_logged_for_the_commit_is_done(make, monkeypatch, caplog):
    table = make(tag__automatic_creation="process-time")

    def failing(*_args, **_named):
        raise StorageError("the storage is away", kind="storage")

    monkeypatch.setattr("tidelake.commit.tags.automatic.create_due_tags", failing)
    write(table, "2024-01-01 10:00")
    assert table.count() == 1
    assert "tags could not be made or removed: the storage is away" in caplog.text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tag.creation-delay": "1 d"}, "must be shorter than the period"),
        ({"sink.process-time-zone": "Mars/Olympus"}, "no time zone"),
        ({"sink.watermark-time-zone": "nowhere"}, "no time zone"),
        ({"tag.creation-period": "weekly"}, "tag.creation-period"),
    ],
)
def test_what_makes_no_tags_is_refused_before_a_table_is_made(make, options, says):
    with pytest.raises(InvalidInputError, match=says):
        make(tag__automatic_creation="process-time", **options)
    table = make(tag__automatic_creation="process-time")
    with pytest.raises(InvalidInputError, match=says):
        table.set_options(options)


class Counted(MemoryFileIO):
    """A storage that counts as remote, with the files of another one; it counts reads of tags."""

    is_remote = True

    def __init__(self, other):
        super().__init__()
        self.__dict__.update(vars(other))
        self.tag_reads = 0

    def read_bytes(self, path, **how):
        self.tag_reads += "/tag/tag-" in path
        return super().read_bytes(path, **how)


def test_a_commit_reads_no_tag_again_that_is_as_it_was(make):
    table = make(tag__default_time_retained="30 d")
    write(table, "2024-01-01 10:00")
    for number in range(20):
        table.tags.create(f"t{number}")
    files = Counted(table.handle.fileio)
    counted = tidelake.open("/w", fileio=files, env=table.handle.env).table("db.t")
    write(counted, "2024-01-01 11:00")
    assert files.tag_reads == 20
    write(counted, "2024-01-01 12:00", "2024-01-01 13:00")
    assert files.tag_reads == 20
    table.tags.replace("t7", time_retained="1 h")
    write(counted, "2024-01-01 14:01")
    assert "t7" not in tags(table)
    assert files.tag_reads < 25


def test_a_success_file_that_cannot_be_written_hinders_no_tag(make, caplog, monkeypatch):
    table = make(tag__create_success_file="true")
    write(table, "2024-01-01 10:00", "2024-01-02 10:00")
    path = f"{table.handle.paths.tag_dir}/tag-success-file/v1_SUCCESS"
    table.fileio.put_if_absent(path, b"")  # of a writer that was killed
    table.tags.create("v1", snapshot_id=1)
    assert success_files(table)["v1_SUCCESS"]["creationTime"]
    replace = MemoryFileIO.replace

    def refuses(files, at, data, **how):
        if at.endswith("v2_SUCCESS"):
            raise StorageError("no space left", kind="storage")
        return replace(files, at, data, **how)

    monkeypatch.setattr(MemoryFileIO, "replace", refuses)
    table.tags.create("v2")
    assert set(tags(table)) == {"v1", "v2"}
    assert set(success_files(table)) == {"v1_SUCCESS"}
    assert "Tag 'v2' is made, and has no success file" in caplog.text


def test_success_files_follow_a_fast_forward(make):
    table = make(tag__create_success_file="true")
    write(table, "2024-01-01 10:00")
    table.tags.create("start")
    table.branches.create("b", tag="start")
    write(table, "2024-01-02 10:00")
    table.tags.create("late")
    write(table.branch("b"), "2024-01-03 10:00")
    table.branches.fast_forward("b")
    assert set(tags(table)) == {"start"}
    assert set(success_files(table)) == {"start_SUCCESS"}


def test_no_tag_takes_the_place_of_the_success_files(make):
    table = make()
    write(table, "2024-01-01 10:00")
    with pytest.raises(InvalidInputError, match="where success files of tags lie"):
        table.tags.create("success-file")
