"""Where streams begin: what contradicts itself, and what is not there."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.table.stream import StreamPlan
from tidelake.table.stream.consumer_reset import reset_consumer


def begin(table, **options):
    keys = {key.replace("_", "-").replace("--", "."): str(v) for key, v in options.items()}
    return StreamPlan.of(table.handle, keys).initial()


@pytest.fixture
def table(make, clock):
    """Five snapshots a second apart; the first two have expired."""
    made = make(options={"snapshot.num-retained.min": "1", "write-only": "true"})
    for number in range(5):
        made.write([{"k": number, "v": 0}])
        clock.sleep_ms(1000)
    made.maintenance.expire_snapshots(retain_max=3, retain_min=3)
    return made


FIRST_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("options", "snapshot", "phase"),
    [
        ({}, 5, "full"),
        ({"scan__mode": "full"}, 5, "full"),
        ({"scan__mode": "latest-full"}, 5, "full"),
        ({"scan__mode": "latest"}, 6, "delta"),
        ({"scan__mode": "compacted-full"}, 5, "full"),
        ({"scan__snapshot_id": 4}, 4, "delta"),
        ({"scan__snapshot_id": 6}, 6, "delta"),
        ({"scan__snapshot_id": 1}, 3, "delta"),
        ({"scan__mode": "from-snapshot-full", "scan__snapshot_id": 4}, 4, "full"),
        ({"scan__mode": "from-snapshot-full", "scan__snapshot_id": 1}, 3, "full"),
        ({"scan__timestamp_millis": FIRST_MS + 3000}, 4, "delta"),
        ({"scan__timestamp_millis": FIRST_MS + 3001}, 5, "delta"),
        ({"scan__timestamp_millis": 5}, 3, "delta"),
        ({"scan__timestamp_millis": FIRST_MS * 2}, 6, "delta"),
        ({"scan__timestamp": "2023-11-14 22:13:23Z"}, 4, "delta"),
        ({"scan__creation_time_millis": FIRST_MS + 3000}, 4, "delta"),
        ({"scan__creation_time_millis": 5}, 5, "full"),
        ({"scan__file_creation_time_millis": 5}, 5, "full"),
        ({"incremental_between": "3,4"}, 4, "delta"),
    ],
)
def test_a_stream_begins_where_paimon_s_does(table, options, snapshot, phase):
    at = begin(table, **options)
    assert (at.snapshot, at.index, at.phase) == (snapshot, 0, phase)


def test_files_of_some_age_are_left_out_of_the_state(table, follow):
    options = {"scan.file-creation-time-millis": str(FIRST_MS + 3000)}
    given, at = follow(table, options)
    assert [row[1] for batch in given for row in batch] == [3, 4]
    assert at.created_ms is None


def test_the_age_of_files_is_told_by_the_wall_clock_that_marks_them(
    make, clock, follow, monkeypatch
):
    monkeypatch.setattr(type(clock), "local_offset_ms", lambda _: 2 * 3600 * 1000)
    made = make(options={"write-only": "true"})
    for number in range(3):
        made.write([{"k": number, "v": 0}])
        clock.sleep_ms(1000)
    given, _ = follow(made, {"scan.file-creation-time-millis": str(FIRST_MS + 1000)})
    assert [row[1] for batch in given for row in batch] == [1, 2]


def test_a_tag_begins_a_stream_though_its_snapshot_has_expired(make, follow):
    table = make(options={"snapshot.num-retained.min": "1"})
    for number in range(3):
        table.write([{"k": number, "v": 0}])
    table.tags.create("here", snapshot_id=1)
    table.maintenance.expire_snapshots(retain_max=2, retain_min=2)
    options = {"scan.mode": "from-snapshot-full", "scan.tag-name": "here"}
    given, _ = follow(table, options)
    assert [row[1] for batch in given for row in batch] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"scan__snapshot_id": 7}, "snapshot_not_found", "no snapshot 7 yet, the newest is 5"),
        (
            {"scan__mode": "from-snapshot-full", "scan__snapshot_id": 7},
            "snapshot_not_found",
            "3 to 5",
        ),
        ({"scan__tag_name": "x"}, "tag_not_found", "no tag 'x'"),
        ({"scan__watermark": 7}, "watermark_not_reached", "none has one"),
        ({"incremental_between": "3,9"}, "snapshot_not_found", "no snapshot 9"),
    ],
)
def test_a_beginning_that_is_not_there_is_refused(table, options, kind, told):
    with pytest.raises(NotFoundError, match=told) as caught:
        begin(table, **options)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"scan__mode": "latest", "scan__snapshot_id": 3}, "scan_mode", "unset one of them"),
        ({"scan__mode": "from-snapshot"}, "scan_mode", "scan.snapshot-id"),
        ({"scan__mode": "from-timestamp"}, "scan_mode", "scan.timestamp-millis"),
        ({"scan__mode": "incremental"}, "scan_mode", "incremental-between"),
        ({"scan__snapshot_id": 3, "scan__tag_name": "x"}, "two_moments", "set one of them"),
        ({"incremental_between": "4,3"}, "changes_backwards", "swap them"),
        ({"incremental_between": "4"}, "changes_between", "comma"),
        ({"incremental_between_timestamp": "4"}, "changes_between", "comma"),
        ({"scan__timestamp": "noon"}, "bad_timestamp", "noon"),
    ],
)
def test_options_that_contradict_each_other_are_refused(table, options, kind, told):
    with pytest.raises(InvalidInputError, match=told) as caught:
        begin(table, **options)
    assert caught.value.kind == kind


def test_a_bounded_stream_ends(table, follow):
    options = {"incremental-between": "3,4"}
    given, at = follow(table, options)
    assert [row[1] for batch in given for row in batch] == [3]
    plan = StreamPlan.of(table.handle, options)
    assert plan.is_ended(at)
    assert plan.latest() == at
    assert not plan.is_ended(plan.initial())


def test_times_bound_a_stream_too(table, follow):
    ends = f"{FIRST_MS + 2500},{FIRST_MS + 3500}"
    given, at = follow(table, {"incremental-between-timestamp": ends})
    assert [row[1] for batch in given for row in batch] == [3]
    assert at.snapshot == 5


def test_the_name_of_a_consumer_is_checked_before_anything_is_read(table):
    with pytest.raises(InvalidInputError, match="not a valid consumer name"):
        StreamPlan.of(table.handle, {"consumer-id": "a/b"})


def test_a_consumer_s_progress_beats_the_options_of_the_beginning(table):
    path = f"{table.paths.consumer_dir}/consumer-me"
    table.fileio.replace(path, b'{"nextSnapshot": 4}')
    options = {"consumer-id": "me", "scan.mode": "latest"}
    assert StreamPlan.of(table.handle, options).initial().snapshot == 4
    anew = {**options, "consumer.ignore-progress": "true"}
    assert StreamPlan.of(table.handle, anew).initial().snapshot == 6


@pytest.mark.parametrize("mode", ["latest", "latest-full"])
def test_a_consumer_whose_snapshot_expired_is_refused_with_the_range(table, mode):
    path = f"{table.paths.consumer_dir}/consumer-me"
    table.fileio.replace(path, b'{"nextSnapshot": 2}')
    options = {"consumer-id": "me", "scan.mode": mode}
    with pytest.raises(NotFoundError, match=r"'me'.*snapshot 2.*snapshots 3 to 5") as caught:
        StreamPlan.of(table.handle, options).initial()
    assert caught.value.kind == "stream_expired"
    assert "reset_consumer with snapshot 3" in str(caught.value)
    reset_consumer(table.handle, "me", 3)
    assert StreamPlan.of(table.handle, options).initial().snapshot == 3
    table.fileio.replace(path, b'{"nextSnapshot": 2}')
    reset_consumer(table.handle, "me", None)
    assert StreamPlan.of(table.handle, options).initial().snapshot == (6 if mode == "latest" else 5)
