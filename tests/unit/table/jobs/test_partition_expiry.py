"""Partitions that are too old are dropped, and no others; what says no time stays."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from proving.expiring import TABLES, check

import tidelake
from tidelake import InvalidInputError, SetOption, UnsupportedError
from tidelake.errors import StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.table.jobs import partition_expiry
from tidelake.telemetry import Env, ManualClock

NOW = datetime(2024, 2, 10, tzinfo=UTC)
DAY_MS = 86_400_000
COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("p", pa.string())]
)
KINDS = {
    name: {**how, "partition_keys": ["p"], "primary_keys": ["k", "p"]}
    if "primary_keys" in how and name != "moves"
    else {**how, "partition_keys": ["p"]}
    for name, how in TABLES.items()
}


class LocalClock(ManualClock):
    """A clock of a place five hours ahead of UTC."""

    def local_offset_ms(self) -> int:
        return 5 * 3_600_000


def at(moment, clock=ManualClock):
    env = Env.seeded(3)
    return tidelake.open(
        "/w",
        fileio=MemoryFileIO(),
        env=Env(
            clock=clock(int(moment.timestamp() * 1000)),
            rng=env.rng,
            ids=env.ids,
            executor=env.executor,
            zone="UTC",
        ),
    )


def table_of(catalog, columns=COLUMNS, *, partition_keys=("p",), **options):
    return catalog.create_table(
        "db.t", columns, partition_keys=list(partition_keys), options=options
    )


def days(*texts):
    return [{"k": k, "v": k, "p": text} for k, text in enumerate(texts)]


def kept(table):
    return sorted({str(row["p"]) for row in table.to_arrow().to_pylist()})


def move(table, **by):
    table.handle.env.clock.sleep_ms(timedelta(**by) / timedelta(milliseconds=1))


@pytest.mark.parametrize("kind", KINDS)
def test_old_partitions_go_from_tables_of_every_kind(kind):
    how = dict(KINDS[kind])
    keys = {key: how.pop(key) for key in ("primary_keys", "partition_keys") if key in how}
    catalog = at(NOW)
    table = catalog.create_table("db.t", COLUMNS, **keys, options=how)
    for _ in range(3):
        table.write(days("2024-01-31", "2024-02-02", "2024-02-09", "later"))
    told = table.maintenance.expire_partitions(expiration_time="7 d", dry_run=True)
    assert [p.values for p in told.partitions] == [{"p": "2024-01-31"}, {"p": "2024-02-02"}]
    assert told.unread == ("p=later",)
    assert len(kept(table)) == 4
    done = table.maintenance.expire_partitions(expiration_time="7 d")
    assert done.partitions == told.partitions
    assert len(done.snapshot_ids) == 1
    assert kept(table) == ["2024-02-09", "later"]
    table.write(days("2024-02-08"))
    assert table.maintenance.expire_partitions(expiration_time="7 d").partitions == ()
    check(table)


def test_a_partition_of_the_very_moment_stays():
    table = table_of(at(NOW))
    table.write(days("2024-02-03", "2024-02-02 23:59:59"))
    done = table.maintenance.expire_partitions(expiration_time=timedelta(days=7))
    assert [p.time for p in done.partitions] == ["2024-02-02 23:59:59"]


def test_times_are_compared_with_the_local_clock():
    table = table_of(at(NOW, LocalClock))
    table.write(days("2024-02-10 04:00:00", "2024-02-10 05:30:00"))
    table.maintenance.expire_partitions(expiration_time=30 * 60_000)
    assert kept(table) == ["2024-02-10 05:30:00"]


def test_a_pattern_makes_the_time_of_several_columns():
    columns = pa.schema([("dt", pa.string()), ("dt1", pa.int32()), ("v", pa.int64())])
    options = {
        "partition.timestamp-pattern": "$dt $dt1:00",
        "partition.timestamp-formatter": "yyyyMMdd H:mm",
        "partition.expiration-time": "1 d",
    }
    table = table_of(at(NOW), columns, partition_keys=("dt", "dt1"), **options)
    rows = [("20240208", 23), ("20240209", 0), ("20240209", 1), ("20240209", None), (None, 1)]
    table.write([{"dt": dt, "dt1": hour, "v": 1} for dt, hour in rows])
    done = table.maintenance.expire_partitions()
    assert [str(p) for p in done.partitions] == ["dt=20240208, dt1=23"]
    assert done.unread == (
        "dt=20240209, dt1=__DEFAULT_PARTITION__",
        "dt=__DEFAULT_PARTITION__, dt1=1",
    )


@pytest.mark.parametrize(
    ("arrow", "values", "formatter", "gone"),
    [
        (pa.int32(), [20240131, 20240209], "yyyyMMdd", ["20240131"]),
        (pa.int64(), [2024013108, 2024020908], "yyyyMMddHH", ["2024013108"]),
        (pa.date32(), [date(2024, 1, 31)], None, []),
        (
            pa.timestamp("us"),
            [datetime(2024, 1, 31, 8, 0, 5)],
            "yyyy-MM-dd'T'HH:mm[:ss]",
            ["2024-01-31T08:00:05"],
        ),
        (pa.bool_(), [True], None, []),
    ],
)  # fmt: skip
def test_values_of_each_type_are_read_as_java_prints_them(arrow, values, formatter, gone):
    given = {} if formatter is None else {"timestamp_formatter": formatter}
    table = table_of(at(NOW), pa.schema([("p", arrow), ("v", pa.int64())]))
    table.write([{"p": value, "v": 1} for value in values])
    done = table.maintenance.expire_partitions(expiration_time="7 d", **given)
    assert [p.values["p"] for p in done.partitions] == gone
    assert table.count() == len(values) - len(gone)


def test_by_update_time_the_newest_file_counts():
    table = table_of(at(NOW), **{"partition.expiration-strategy": "update-time"})
    table.write(days("a", "b"))
    move(table, days=5)
    table.write(days("b", "c"))
    move(table, days=5)
    done = table.maintenance.expire_partitions(expiration_time="7 d")
    assert [p.values["p"] for p in done.partitions] == ["a"]
    assert kept(table) == ["b", "c"]


def test_a_partition_that_gets_rows_meanwhile_is_young_again(monkeypatch):
    table = table_of(at(NOW))
    table.write(days("a", "b"))
    move(table, days=8)
    plan = partition_expiry._plan
    late = iter([True, False, False])

    def planned(handle, rule):
        found = plan(handle, rule)
        if next(late):
            table.write(days("a"))
        return found

    monkeypatch.setattr(partition_expiry, "_plan", planned)
    done = table.maintenance.expire_partitions(expiration_time="7 d", expire_strategy="update-time")
    assert [p.values["p"] for p in done.partitions] == ["b"]
    assert kept(table) == ["a"]


def test_so_many_go_at_a_time_and_in_one_commit():
    options = {"partition.expiration-max-num": "5", "partition.expiration-batch-size": "2"}
    table = table_of(at(NOW), **options)
    table.write(days(*(f"2024-01-{day:02}" for day in range(1, 9))))
    done = table.maintenance.expire_partitions(expiration_time="1 d")
    assert len(done.snapshot_ids) == 3
    assert done.more_count == 3
    assert kept(table) == ["2024-01-06", "2024-01-07", "2024-01-08"]
    assert "5 partitions older than 2024-02-09 00:00:00 dropped" in str(done)
    done = table.maintenance.expire_partitions(expiration_time="1 d", max_expires=1)
    assert (len(done.partitions), done.more_count) == (1, 2)


# ---- with commits


def test_a_commit_looks_after_each_interval():
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "1 h"}
    table = table_of(at(NOW), **options)
    table.write(days("2024-01-31", "2024-02-09"))
    assert kept(table) == ["2024-01-31", "2024-02-09"]  # the first look is up to an hour away
    move(table, hours=1, seconds=1)
    result = table.write(days("2024-02-08"))
    assert kept(table) == ["2024-02-08", "2024-02-09"]
    assert result.snapshot_ids == (2,)
    assert table.handle.snapshots.load(3).commit_user != table.handle.snapshots.load(2).commit_user
    table.write(days("2024-01-30"))
    assert "2024-01-30" in kept(table)
    move(table, hours=2)
    table.write(days("2024-02-09"))
    assert kept(table) == ["2024-02-08", "2024-02-09"]


@pytest.mark.parametrize("change", ["longer", "never", "shorter"])
def test_a_table_that_is_open_for_long_goes_by_the_newest_options(change):
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s"}
    catalog = at(NOW)
    table_of(catalog, **options)
    table = catalog.table("db.t")
    other = catalog.table("db.t")
    match change:
        case "longer":
            other.set_options({"partition.expiration-time": "90 d"})
        case "never":
            other.reset_options(["partition.expiration-time"])
        case "shorter":
            other.set_options({"partition.expiration-time": "1 d"})
    table.write(days("2024-01-31", "2024-02-05"))
    assert kept(table) == ([] if change == "shorter" else ["2024-01-31", "2024-02-05"])


def test_options_of_this_use_count_before_the_newest():
    catalog = at(NOW)
    table_of(catalog, **{"partition.expiration-check-interval": "0 s"})
    table = catalog.table("db.t").with_options({"partition.expiration-time": "7 d"})
    catalog.table("db.t").set_options({"partition.expiration-time": "90 d"})
    table.write(days("2024-01-31", "2024-02-05"))
    assert kept(table) == ["2024-02-05"]


def test_a_clock_that_was_set_back_drops_nothing_and_begins_the_interval():
    options = {"partition.expiration-time": "7 d"}
    table = table_of(at(NOW), **options)
    table.write(days("2024-02-09"))
    move(table, days=-40)
    table.write(days("2024-01-02"))
    assert kept(table) == ["2024-01-02", "2024-02-09"]
    move(table, hours=2)
    table.write(days("2024-01-03"))
    assert kept(table) == ["2024-01-02", "2024-01-03", "2024-02-09"]


def test_each_commit_of_a_batch_may_look():
    options = {"partition.expiration-time": "7 d", "end-input.check-partition-expire": "true"}
    table = table_of(at(NOW), **options)
    table.write(days("2024-01-31"), commit_user="stream", commit_identifier=1)
    assert kept(table) == ["2024-01-31"]
    table.write(days("2024-02-09"))
    assert kept(table) == ["2024-02-09"]


def test_a_stream_s_commit_stays_its_newest_one():
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s"}
    table = table_of(at(NOW), **options)
    for number in (1, 2):
        rows = days("2024-01-31", "2024-02-09")
        table.write(rows, commit_user="stream", commit_identifier=number)
    again_ = table.write(rows, commit_user="stream", commit_identifier=2)
    assert again_.already_committed
    assert table.count() == 2
    assert kept(table) == ["2024-02-09"]


def test_a_table_that_is_write_only_leaves_it_to_its_compaction():
    options = {
        "partition.expiration-time": "7 d",
        "partition.expiration-check-interval": "0 s",
        "write-only": "true",
    }
    table = table_of(at(NOW), **options)
    table.write(days("2024-01-31", "2024-02-09"))
    assert len(kept(table)) == 2
    table.compact()
    assert kept(table) == ["2024-02-09"]


def test_a_failure_after_the_commit_is_logged(monkeypatch, caplog):
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s"}
    table = table_of(at(NOW), **options)

    def failing(*_args, **_named):
        raise StorageError("the storage is away", kind="storage")

    monkeypatch.setattr("tidelake.commit.committer.due_plan", failing)
    assert table.write(days("2024-01-31")).snapshot_ids == (1,)
    assert "old partitions could not expire: the storage is away" in caplog.text


def test_what_says_no_time_is_named_once(caplog):
    options = {"partition.expiration-time": "7 d", "partition.expiration-check-interval": "0 s"}
    catalog = at(NOW)
    table = catalog.create_table("db.named", COLUMNS, partition_keys=["p"], options=options)
    caplog.set_level(logging.WARNING, "tidelake")
    for _ in range(3):
        table.write(days("x", *(f"y{i}" for i in range(6))))
    texts = [r.getMessage() for r in caplog.records if "cannot expire" in r.getMessage()]
    assert len(texts) == 1
    assert "p=x; p=y0; p=y1; p=y2; p=y3; and 2 more" in texts[0]


def test_a_stream_that_reads_the_table_goes_on():
    table = table_of(at(NOW))
    stream = table.stream(start=1)
    table.write(days("2024-01-31", "2024-02-09"))
    assert next(stream).snapshot_id == 1
    table.maintenance.expire_partitions(expiration_time="7 d")
    table.write(days("2024-02-08"))
    rest = [next(stream) for _ in range(2)]
    assert [b.data["p"].to_pylist() for b in rest] == [["2024-02-09"], ["2024-02-08"]]
    assert rest[-1].snapshot_id == 3  # the drop is passed over
    diff = table.stream(start=2, options={"streaming-read-overwrite": "diff"})
    assert next(diff).data.to_pylist() == [{"_row_kind": "-D", "k": 0, "v": 0, "p": "2024-01-31"}]


def test_iceberg_metadata_forgets_the_partition():
    table = table_of(at(NOW), **{"metadata.iceberg.storage": "table-location"})
    table.write(days("2024-01-31", "2024-02-09"))
    table.maintenance.expire_partitions(expiration_time="7 d")
    synced = table.maintenance.sync_iceberg()
    assert synced.snapshot_id == table.handle.snapshots.latest_id()


# ---- refusals


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition.expiration-time": "7"}, "write the unit, as in '7 d'"),
        ({"partition.timestamp-pattern": "$day"}, "partition columns are p"),
        ({"partition.timestamp-formatter": "HH:mm"}, "no year, month and day"),
        ({"partition.timestamp-formatter": "yyyy-MM-ddXXX"}, "'X' is not read here"),
    ],
)
def test_what_yields_no_time_is_refused_before_a_table_is_made(options, says):
    catalog = at(NOW)
    with pytest.raises(InvalidInputError, match=says):
        table_of(catalog, **options)
    table = table_of(catalog)
    with pytest.raises(InvalidInputError, match=says):
        table.set_options(options)
    (value,) = options.values()
    name = {
        "partition.expiration-time": "expiration_time",
        "partition.timestamp-pattern": "timestamp_pattern",
        "partition.timestamp-formatter": "timestamp_formatter",
    }[next(iter(options))]
    with pytest.raises(InvalidInputError, match=says):
        table.maintenance.expire_partitions(**{"expiration_time": "7 d", name: value})


def test_a_strategy_of_java_is_refused():
    with pytest.raises(UnsupportedError, match="Java class"):
        table_of(at(NOW), **{"partition.expiration-strategy": "custom"})


def test_without_an_age_or_partitions_nothing_expires():
    catalog = at(NOW)
    with pytest.raises(InvalidInputError, match="no expiration time"):
        table_of(catalog).maintenance.expire_partitions()
    plain = catalog.create_table("db.plain", COLUMNS)
    with pytest.raises(InvalidInputError, match="no partitions"):
        plain.maintenance.expire_partitions(expiration_time="7 d")


def test_a_table_whose_partitions_say_no_time_is_warned_of(caplog):
    catalog = at(NOW)
    columns = pa.schema([("d", pa.date32()), ("v", pa.int64())])
    options = {"partition.expiration-time": "7 d"}
    catalog.create_table("warned.d", columns, partition_keys=["d"], options=options)
    catalog.create_table("warned.e", columns)
    catalog.alter_table("warned.e", [SetOption("partition.expiration-time", "7 d")])
    assert "the values of d are no times" in caplog.text
    assert "it has no partitions" in caplog.text
