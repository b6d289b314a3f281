"""Rows go when a compaction finds them too old; what that may not bring to light."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env, ManualClock

NOW_S = 1_700_000_000
HOUR = 3600


class World:
    """A table of (k, v, t) whose clock a test moves."""

    def __init__(self, time_type="INT", nullable=True, **options):
        self.clock = ManualClock(NOW_S * 1000)
        self.catalog = tidelake.open(
            "/w", fileio=MemoryFileIO(), env=replace(Env.seeded(1), clock=self.clock)
        )
        self.table = self.catalog.create_table(
            "db.t",
            {"k": "INT", "v": "INT", "t": time_type if nullable else f"{time_type} NOT NULL"},
            primary_keys=["k"],
            options={
                "bucket": "1",
                "record-level.expire-time": "1 h",
                "record-level.time-field": "t",
                "num-sorted-run.compaction-trigger": "50",
                **{key.replace("_", "-"): value for key, value in options.items()},
            },
        )

    def write(self, *rows, kinds=None):
        self.table.write([dict(zip("kvt", row, strict=True)) for row in rows], row_kinds=kinds)

    def pass_s(self, seconds):
        self.clock.sleep_ms(seconds * 1000)

    def rows(self):
        return sorted(tuple(row.values()) for row in self.table.to_arrow().to_pylist())

    def files(self):
        files = self.table.system_table("files").to_arrow().to_pylist()
        return {f["file_path"].rpartition("/")[2]: f["level"] for f in files}


def test_a_read_shows_what_no_compaction_has_met():
    world = World()
    world.write((1, 1, 1), (2, 2, NOW_S), (3, 3, None))
    world.pass_s(HOUR)
    assert len(world.rows()) == 3
    world.table.compact(full=True)
    assert world.rows() == [(2, 2, NOW_S), (3, 3, None)]  # to the second still there
    world.pass_s(1)
    assert len(world.rows()) == 2
    world.table.compact(full=True)
    assert world.rows() == [(3, 3, None)]


MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20)  # NOW_S


@pytest.mark.parametrize(
    ("time_type", "old", "new"),
    [
        ("INT", NOW_S - HOUR - 1, NOW_S - HOUR),
        ("BIGINT", NOW_S - HOUR - 1, NOW_S - HOUR),
        ("BIGINT", (NOW_S - HOUR) * 1000 - 1, (NOW_S - HOUR) * 1000),
        ("TIMESTAMP(0)", MOMENT - dt.timedelta(seconds=HOUR + 1), MOMENT - dt.timedelta(hours=1)),
        ("TIMESTAMP(3)", MOMENT - dt.timedelta(hours=1, milliseconds=1), MOMENT),
        ("TIMESTAMP(6)", MOMENT - dt.timedelta(hours=1, microseconds=1), MOMENT),
        ("TIMESTAMP(9)", dt.datetime(1969, 12, 31), MOMENT),
        (
            "TIMESTAMP_LTZ(3)",
            (MOMENT - dt.timedelta(seconds=HOUR + 1)).replace(tzinfo=dt.UTC),
            (MOMENT - dt.timedelta(seconds=HOUR)).replace(tzinfo=dt.UTC),
        ),
    ],
)
def test_the_time_is_that_of_its_type(time_type, old, new):
    world = World(time_type, nullable=False)
    world.write((1, 1, old), (2, 2, new))
    world.table.compact(full=True)
    assert [k for k, *_ in world.rows()] == [2]


def test_a_file_on_the_last_level_is_rewritten_when_rows_of_it_expire_and_not_before():
    world = World(target_file_size="1 b")  # no file is small: they are lifted as they are
    world.write((1, 1, NOW_S + 10), (2, 2, NOW_S + HOUR))
    world.table.compact(full=True)
    lifted = world.files()
    assert set(lifted.values()) == {50}
    world.write((3, 3, NOW_S + HOUR))
    world.table.compact(full=True)
    assert lifted.items() <= world.files().items()
    world.pass_s(HOUR + 11)
    world.table.compact(full=True)
    assert world.rows() == [(2, 2, NOW_S + HOUR), (3, 3, NOW_S + HOUR)]
    assert len(world.files()) == 2
    files = world.files()
    assert world.table.compact(full=True).snapshot_ids == ()
    assert world.files() == files
    world.pass_s(HOUR)
    world.table.compact(full=True)
    assert (world.rows(), world.files()) == ([], {})


def test_a_compaction_above_older_rows_shows_no_older_row():
    world = World(**{"num_sorted_run.compaction_trigger": "3",
                     "compaction.max_size_amplification_percent": "1000000"})  # fmt: skip
    world.write(*((k, k**3 % 99_991, NOW_S + k % 2) for k in range(5000)))
    world.table.compact(full=True)
    world.write((1, 1, NOW_S + 1))
    world.pass_s(HOUR + 2)
    world.write((2, 2, NOW_S))
    assert set(world.files().values()) == {3, 2}  # only the new runs were compacted
    assert world.rows()[1:3] == [(1, 1, NOW_S + 1), (2, 2, NOW_S)]
    world.table.compact(full=True)
    assert world.rows() == []


def test_an_expired_delete_hides_what_it_deleted():
    world = World()
    world.write((1, 1, NOW_S + HOUR))
    world.write((1, None, 5), kinds=["-D"])
    world.table.compact(full=True)
    assert world.rows() == []


ENGINES = {
    "aggregation": ({"fields.v.aggregate-function": "sum"}, [(1, 5, NOW_S + HOUR)]),
    "partial-update": ({}, [(1, None, NOW_S + HOUR)]),
    "first-row": ({}, []),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lookup", [False, True])
def test_engines_merge_what_is_not_expired(engine, lookup):
    options, _ = ENGINES[engine]
    if lookup:
        options = {**options, "changelog-producer": "lookup"}
    world = World(**{"merge_engine": engine, **options})
    world.write((1, 10, NOW_S - 1), (2, 7, NOW_S + HOUR))
    world.table.compact(full=True)
    world.pass_s(HOUR)
    new = 5 if engine == "aggregation" else None
    world.write((1, new, NOW_S + HOUR))
    if not lookup and engine != "first-row":
        assert world.rows()[0] == (1, 15 if new else 10, NOW_S + HOUR)
    world.table.compact(full=True)
    kept = [] if engine == "first-row" else [(1, new, NOW_S + HOUR)]
    assert world.rows() == [*kept, (2, 7, NOW_S + HOUR)]


def test_a_changelog_says_nothing_of_rows_that_expire():
    world = World(changelog_producer="full-compaction")
    world.write((1, 1, NOW_S), (2, 2, 1))
    world.table.compact(full=True)
    world.pass_s(HOUR + 1)
    world.write((3, 3, NOW_S + HOUR))
    world.table.compact(full=True)
    changes = world.table.changes(0, mode="changelog").to_pylist()
    assert [tuple(c.values()) for c in changes] == [("+I", 1, 1, NOW_S), ("+I", 3, 3, NOW_S + HOUR)]
    assert world.rows() == [(3, 3, NOW_S + HOUR)]


@pytest.mark.parametrize("changelog", ["none", "lookup"])
def test_a_late_row_replaces_an_older_one_where_vectors_mark_it(changelog):
    world = World(**{"deletion-vectors.enabled": "true", "changelog_producer": changelog})
    world.write(*((k, 0, NOW_S + 2 * HOUR) for k in range(4)))
    world.table.compact(full=True)
    world.write((1, 1, NOW_S + 1), (2, 2, NOW_S + 2 * HOUR))
    world.pass_s(HOUR + 2)
    world.write((3, 3, NOW_S))  # expired when it comes: an older row would show through
    assert world.rows()[3] == (3, 3, NOW_S)
    world.table.compact(full=True)
    assert world.rows() == [(0, 0, NOW_S + 2 * HOUR), (2, 2, NOW_S + 2 * HOUR)]


def test_files_without_statistics_are_rewritten_once():
    world = World(**{"metadata.stats_mode": "none", "target_file_size": "1 b"})
    world.write((1, 1, NOW_S), (2, 2, NOW_S + HOUR))
    world.pass_s(HOUR + 1)
    world.table.compact(full=True)
    assert world.rows() == [(2, 2, NOW_S + HOUR)]
    assert world.table.compact(full=True).snapshot_ids == ()


def test_the_column_may_get_another_name_or_a_wider_type():
    world = World(target_file_size="1 b")
    world.write((1, 1, NOW_S), (2, 2, NOW_S + HOUR))
    world.table.compact(full=True)
    world.catalog.alter_table(
        "db.t", [tidelake.RenameColumn("t", "seen"), tidelake.UpdateColumnType("seen", "BIGINT")]
    )
    world.table = world.catalog.table("db.t")
    world.table.write([{"k": 3, "v": 3, "seen": NOW_S * 1000}])
    world.pass_s(HOUR + 1)
    world.table.compact(full=True)
    assert world.rows() == [(2, 2, NOW_S + HOUR)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"record-level.expire-time": "1 d"}, "name one in 'record-level.time-field'"),
        ({"record-level.time-field": "tt"}, r"no column 'tt'.*Did you mean 't'"),
        ({"record-level.time-field": "s"}, "'s' of type STRING cannot hold the time"),
        ({"record-level.time-field": "d"}, "'d' of type DATE cannot hold the time"),
        ({"record-level.time-field": "i"}, "'i' of type SMALLINT cannot hold the time"),
    ],
)
def test_a_time_that_is_none_is_refused(catalog, tmp_path, options, says):
    columns = {"k": "INT", "t": "INT", "s": "STRING", "d": "DATE", "i": "SMALLINT"}
    with pytest.raises(InvalidInputError, match=says):
        catalog.create_table("db.t", columns, primary_keys=["k"], options={"bucket": 1, **options})
    assert not list(tmp_path.rglob("t/*"))
    table = catalog.create_table("db.u", columns, primary_keys=["k"], options={"bucket": 1})
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match=says):
        table.copy(options).write([{"k": 1, "t": 1, "s": "", "d": None, "i": 1}])
    assert sorted(tmp_path.rglob("*")) == files


def test_an_append_table_keeps_its_rows(catalog):
    options = {"record-level.expire-time": "1 s", "record-level.time-field": "t"}
    table = catalog.create_table("db.t", {"t": "INT"}, options=options)
    table.write([{"t": 1}])
    table.compact(full=True)
    assert table.count() == 1
