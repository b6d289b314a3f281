"""The procedures: what they answer, what they do, and what they refuse."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from proving.expiring import Meanwhile

import tidelake
from tidelake import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    WriteResult,
)
from tidelake.cdc import JobLag, SyncStatus, TableStatus
from tidelake.cdc.job.epoch_reads import SCHEMA as EPOCHS
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import PROCEDURES, REFUSED, ParameterType, call

KEYED = pa.schema({"k": pa.int64(), "v": pa.string()})
DAYS = pa.schema({"day": pa.date32(), "hh": pa.int32(), "k": pa.int64()})


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


@pytest.fixture
def table(catalog):
    """Four snapshots of four keys, none compacted."""
    options = {"bucket": 1, "write-only": "true"}
    made = catalog.create_table("db.t", KEYED, primary_keys=["k"], options=options)
    for k in range(1, 5):
        made.write([{"k": k, "v": "x"}])
    return made


@pytest.fixture
def days(catalog):
    made = catalog.create_table("db.days", DAYS, partition_keys=["day", "hh"])
    for day, hh in ((1, 7), (1, 8), (2, 7)):
        made.write([{"day": dt.date(2024, 1, day), "hh": hh, "k": 10 * day + hh}])
    return made


def files(table) -> int:
    return table.system_table("files").count()


def done(catalog, name, *positional, **named):
    answer = call(catalog, name, positional, named)
    assert answer.schema == PROCEDURES[name.removeprefix("sys.")].output
    return [tuple(row.values()) for row in answer.to_pylist()]


# ---- tags and rollback


def test_snapshots_and_changelogs_expire(catalog, table):
    def ids():
        return table.handle.snapshots.ids()

    assert done(catalog, "expire_snapshots", "db.t") == [(0,)]  # ten are kept
    asked = {"retain_max": 3, "retain_min": 1}
    assert done(catalog, "expire_snapshots", "db.t", **asked, dry_run=True) == [(1,)]
    assert ids() == [1, 2, 3, 4]
    assert done(catalog, "expire_snapshots", "db.t", **asked) == [(1,)]
    assert ids() == [2, 3, 4]
    late = {"retain_min": 1, "older_than": "2100-01-01 00:00:00Z"}
    one = "snapshot.expire.limit=1, changelog.num-retained.min=99"
    assert done(catalog, "expire_snapshots", "db.t", **late, options=one) == [(1,)]
    assert ids() == [3, 4]
    assert done(catalog, "expire_changelogs", "db.t", retain_min=1) == [(0,)]
    assert done(catalog, "expire_changelogs", "db.t", delete_all=True) == [(1,)]
    assert done(catalog, "expire_snapshots", "db.t", None, 1, 2**41, "1") == [(1,)]
    assert table.count() == 4
    with pytest.raises(InvalidInputError, match="keeps 10 snapshots: give retain_min too"):
        call(catalog, "expire_snapshots", ("db.t", 2))
    with pytest.raises(InvalidInputError, match="unknown option 'retain'"):
        call(catalog, "expire_snapshots", ("db.t",), {"options": "retain=1"})


@pytest.mark.parametrize("both", [False, True])
def test_a_compaction_that_another_one_overtook_is_no_success(both):
    fileio = MemoryFileIO()
    options = {"bucket": 2, "bucket-function.type": "mod", "write-only": "true"}
    made = tidelake.open("/w", fileio=fileio).create_table(
        "db.t", KEYED, primary_keys=["k"], options=options
    )
    for k in range(1, 5):
        made.write([{"k": k, "v": "x"}])
    meanwhile = Meanwhile(
        fileio,
        "put_if_absent",
        made.paths.snapshot(5),
        lambda: made.compact(full=True, buckets=[0, 1] if both else [1]),
    )
    slow = tidelake.open("/w", fileio=meanwhile)
    left = f"rewrote {'2 buckets' if both else '1 bucket'} of table 'db.t'"
    with pytest.raises(ConflictError, match=left) as caught:
        call(slow, "compact", ("db.t",))
    assert ("The other buckets are compacted" in str(caught.value)) is not both
    assert made.count() == 4
    assert files(made) == 2
    assert done(slow, "compact", "db.t") == [(True,)]


def test_tags_by_position_and_by_name(catalog, table):
    assert done(catalog, "sys.create_tag", "db.t", "one", 1, "1 d") == [(True,)]
    assert done(catalog, "create_tag", table="db.t", TAG="new") == [(True,)]
    assert done(catalog, "rename_tag", "db.t", "new", target_tag="newest") == [(True,)]
    assert done(catalog, "replace_tag", "db.t", "newest", "3") == [(True,)]
    rows = table.system_table("tags").to_arrow().to_pylist()
    shown = [(r["tag_name"], r["snapshot_id"], r["time_retained"]) for r in rows]
    assert shown == [("newest", 3, None), ("one", 1, "PT24H")]
    with pytest.raises(NotFoundError, match="no tag 'two'"):
        done(catalog, "delete_tag", "db.t", "one,two")
    assert table.system_table("tags").count() == 2
    assert done(catalog, "delete_tag", "db.t", "one, newest") == [(True,)]
    assert table.system_table("tags").count() == 0


def test_a_fast_forward_tells_first_what_would_go(catalog, table, caplog):
    table.branches.create("b", snapshot_id=2)
    table.branch("b").write([{"k": 50, "v": "b"}])
    before = table.to_arrow()
    assert done(catalog, "fast_forward", "db.t", "b", dry_run=True) == [(True,)]
    assert "would end at snapshot 3, and remove or replace snapshots [3, 4" in caplog.text
    assert table.to_arrow() == before
    assert done(catalog, "fast_forward", "db.t", "b") == [(True,)]
    assert table.latest_snapshot_id == 3


def test_a_tag_of_the_first_snapshot_from_a_time_on(catalog, table):
    times = [t.as_py() for t in table.history()["commit_time"].cast(pa.int64())]
    assert done(catalog, "create_tag_from_timestamp", "db.t", "a", times[0] - 1) == [
        ("a", 1, times[0], "null")
    ]
    last = dt.datetime.fromtimestamp(times[3] / 1000, dt.UTC)
    [(_, snapshot_id, _, _)] = done(catalog, "create_tag_from_timestamp", "db.t", "b", last)
    assert times[snapshot_id - 1] == times[3]
    for snapshot_id in (1, 2):
        table.fileio.delete(table.paths.snapshot(snapshot_id))
    table.fileio.replace(table.paths.earliest_hint, b"3")
    # only the tag has snapshot 1 now
    assert done(catalog, "create_tag_from_timestamp", "db.t", "c", 0)[0][1] == 1
    with pytest.raises(NotFoundError, match="or later: give an earlier time"):
        done(catalog, "create_tag_from_timestamp", "db.t", "d", times[3] + 1)


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ({"version": "2"}, 2),
        ({"version": 3}, 3),
        ({"version": "one"}, 1),
        ({"snapshot": 2}, 2),
        ({"tag": "one"}, 1),
    ],
)
def test_a_rollback_says_from_where_to_where(catalog, table, arguments, left):
    table.tags.create("one", snapshot_id=1)
    assert done(catalog, "rollback", table="db.t", dry_run=True, **arguments) == [(4, left)]
    assert table.latest_snapshot_id == 4
    assert done(catalog, "rollback", table="db.t", **arguments) == [(4, left)]
    assert table.latest_snapshot_id == left


@pytest.mark.parametrize("arguments", [{}, {"snapshot": 1, "tag": "a"}, {"version": ""}])
def test_a_rollback_goes_to_one_place(catalog, table, arguments):
    with pytest.raises(InvalidInputError, match="give snapshot or tag, not"):
        done(catalog, "rollback", table="db.t", **arguments)


def test_a_rollback_to_a_time(catalog, table):
    times = [t.as_py() for t in table.history()["commit_time"].cast(pa.int64())]
    wanted = max(i for i, t in enumerate(times, start=1) if t <= times[1])
    assert done(catalog, "rollback_to_timestamp", "db.t", times[1]) == [(4, wanted)]


def test_a_rollback_to_a_watermark(catalog, table):
    for snapshot_id, watermark in ((2, 10), (3, 20), (4, 30)):
        path = table.paths.snapshot(snapshot_id)
        document = json.loads(table.fileio.read_bytes(path)) | {"watermark": watermark}
        document.pop("tidelake.checksum")
        table.fileio.replace(path, json.dumps(document).encode())
    with pytest.raises(NotFoundError, match="a watermark of 9 or less"):
        done(catalog, "rollback_to_watermark", "db.t", 9)
    assert done(catalog, "rollback_to_watermark", "db.t", 25) == [(4, 3)]


def test_a_purge_may_be_asked_first(catalog, table):
    table.tags.create("one", snapshot_id=1)
    [(says,)] = done(catalog, "purge_files", "db.t", True)
    assert says.startswith("Would remove 4 snapshots, 1 tags and ")
    assert (table.count(), table.latest_snapshot_id) == (4, 4)
    assert done(catalog, "purge_files", "db.t") == [("Success",)]
    assert (table.count(), table.history()["snapshot_id"].to_pylist()) == (0, [5])


# ---- compactions


def test_compact_is_full_unless_it_is_said_otherwise(catalog, table):
    assert done(catalog, "compact", "db.t", compact_strategy="minor") == [(True,)]
    minor = files(table)
    assert done(catalog, "compact", "db.t", order_strategy="none", options="write-only=false") == [
        (True,)
    ]
    assert (minor, files(table), table.count()) == (4, 1, 4)


def test_a_runner_runs_the_compaction(catalog, days):
    calls = []

    class Recorder:
        def compact(self, name, **asked):
            calls.append((name, asked))
            return WriteResult()

    named = {"table": "db.days", "where": "hh = 7", "buckets": "0, 2", "options": "a=b,c = d"}
    call(catalog, "compact", named=named, runner=Recorder())
    named = {"table": "db.days", "partitions": "day=2024-01-01,hh='8';day=2024-01-02"}
    call(catalog, "compact", named=named, runner=Recorder())
    assert calls == [
        (
            "db.days",
            {
                "full": True,
                "partitions": "hh = 7",
                "buckets": [0, 2],
                "options": {"a": "b", "c": "d"},
            },
        ),
        (
            "db.days",
            {
                "full": True,
                "partitions": [
                    {"day": dt.date(2024, 1, 1), "hh": 8},
                    {"day": dt.date(2024, 1, 2)},
                ],
                "buckets": None,
                "options": None,
            },
        ),
    ]


def test_only_quiet_partitions_are_compacted_where_that_is_asked(catalog, days):
    asked = []

    class Recorder:
        def compact(self, name, **arguments):
            asked.append(arguments["partitions"])
            return WriteResult()

    named = {"table": "db.days", "partition_idle_time": "1 h"}
    assert call(catalog, "compact", named=named, runner=Recorder()).num_rows == 1
    assert asked == []
    named["partition_idle_time"] = "0 s"
    call(catalog, "compact", named=named, runner=Recorder())
    assert sorted(asked.pop(), key=str) == [
        {"day": dt.date(2024, 1, 1), "hh": 7},
        {"day": dt.date(2024, 1, 1), "hh": 8},
        {"day": dt.date(2024, 1, 2), "hh": 7},
    ]
    call(catalog, "compact", named=named | {"where": "hh = 8"}, runner=Recorder())
    assert asked.pop() == [{"day": dt.date(2024, 1, 1), "hh": 8}]


def test_manifests_are_merged_into_one(catalog, table):
    before = table.to_arrow().sort_by("k")
    assert table.system_table("manifests").count() == 4
    assert done(catalog, "compact_manifest", "db.t") == [(True,)]
    assert table.system_table("manifests").count() == 1
    assert table.history()["commit_kind"].to_pylist()[-1] == "COMPACT"
    assert table.to_arrow().sort_by("k") == before
    assert done(catalog, "compact_manifest", "db.t") == [(True,)]
    assert table.latest_snapshot_id == 5


def test_rescale_gives_another_number_of_buckets(catalog, table):
    assert done(catalog, "rescale", "db.t", 2) == [(True,)]
    assert catalog.table("db.t").options.raw["bucket"] == "2"
    assert (catalog.table("db.t").count(), table.system_table("buckets").count()) == (4, 2)


def test_tags_whose_time_is_over_are_removed(catalog, table):
    table.write([{"k": 1, "v": "a"}])
    table.tags.create("soon", time_retained="1 ms")
    table.tags.create("kept")
    assert done(catalog, "expire_tags", "db.t", dry_run=True)[0] in [
        ("soon",), ("No expired tags.",)
    ]  # fmt: skip
    assert done(catalog, "expire_tags", "db.t", "2000-01-01T00:00:00Z")[0][0] != "kept"
    assert done(catalog, "trigger_tag_automatic_creation", "db.t") == [(True,)]
    assert "kept" in table.handle.tags.names()


# ---- partitions


def test_partitions_are_dropped_by_name(catalog, days):
    named = {"table": "db.days", "partitions": "day=2024-01-01,hh=8;day=2024-01-02"}
    assert done(catalog, "drop_partition", **named) == [("Success",)]
    assert days.to_arrow()["k"].to_pylist() == [17]


def test_a_partition_without_a_value_is_dropped_by_the_name_of_its_folder(catalog, days):
    days.write([{"day": None, "hh": 7, "k": 0}])
    done(catalog, "drop_partition", "db.days", "day=__DEFAULT_PARTITION__")
    assert sorted(days.to_arrow()["k"].to_pylist()) == [17, 18, 27]


def test_a_partition_that_is_done_has_a_file_that_says_so(catalog, days):
    assert done(catalog, "mark_partition_done", "db.days", "hh=7,day=2024-01-02") == [(True,)]
    path = f"{days.paths.location}/day=19724/hh=7/_SUCCESS"
    first = json.loads(days.fileio.read_bytes(path))
    assert set(first) == {"creationTime", "modificationTime"}
    done(catalog, "mark_partition_done", "db.days", "day=2024-01-02,hh=7")
    again = json.loads(days.fileio.read_bytes(path))
    assert again["creationTime"] == first["creationTime"]
    assert again["modificationTime"] >= first["modificationTime"]
    assert days.count() == 3
    with pytest.raises(InvalidInputError, match="missing partition column 'hh'"):
        done(catalog, "mark_partition_done", "db.days", "day=2024-01-02")
    other = days.with_options({"partition.mark-done-action": "done-partition"})
    assert other.options.raw["partition.mark-done-action"] == "done-partition"
    days.set_options({"partition.mark-done-action": "done-partition"})
    with pytest.raises(
        UnsupportedError, match="and this catalog is none: set it to 'success-file' or"
    ):
        done(catalog, "mark_partition_done", "db.days", "day=2024-01-02,hh=7")


def test_old_partitions_are_dropped(catalog, days):
    named = {
        "table": "db.days",
        "expiration_time": "9 d",
        "timestamp_pattern": "2024-01-$hh",
        "max_expires": 1,
    }
    assert done(catalog, "expire_partitions", **named, dry_run=True) == [("day=19723, hh=7",)]
    assert days.count() == 3
    assert done(catalog, "expire_partitions", **named) == [("day=19723, hh=7",)]
    assert done(
        catalog, "expire_partitions", **named, options="partition.expiration-batch-size=1"
    ) == [("day=19723, hh=8",)]
    none = done(catalog, "expire_partitions", "db.days", "9 d", None, None, "update-time")
    assert none == [("No expired partitions.",)]


def test_compact_sorts_an_append_table_by_partitions_and_where(catalog, days):
    for named in ({"partitions": "day=2024-01-01"}, {"where": "day > '2024-01-01'"}):
        named |= {"order_strategy": "ZORDER", "order_by": "k, day2"}
        with pytest.raises(NotFoundError, match="no column 'day2'"):
            done(catalog, "compact", "db.days", **named)
        named["order_by"] = "k"
        before = days.to_arrow().sort_by("k")
        assert done(catalog, "compact", "db.days", **named) == [(True,)]
        assert days.history()["commit_kind"].to_pylist()[-1] == "COMPACT"
        assert days.to_arrow().sort_by("k").equals(before)


def test_a_primary_key_table_is_not_sorted(catalog, table):
    with pytest.raises(
        UnsupportedError, match="files of a primary-key table are sorted by its key"
    ):
        done(catalog, "compact", table="db.t", order_strategy="order", order_by="k")


def test_a_table_with_incremental_clustering_is_compacted_a_little_by_default(catalog):
    options = {"clustering.columns": "k", "clustering.incremental": "true"}
    table = catalog.create_table("db.g", {"k": "INT"}, options=options)
    for k in range(2):
        table.write([{"k": k}])
    done(catalog, "compact", "db.g")
    assert table.latest_snapshot_id == 2
    done(catalog, "compact", "db.g", compact_strategy="full")
    assert table.latest_snapshot_id == 3


# ---- refusals


@pytest.mark.parametrize(
    ("name", "named", "says"),
    [
        ("compact", {"order_by": "k"}, "needs an order_strategy"),
        ("compact", {"order_strategy": "random"}, "not 'random'"),
        ("compact", {"order_strategy": "order"}, "No columns to cluster"),
        ("compact", {"order_strategy": "order", "order_by": "day"}, "have one value"),
        (
            "compact",
            {"order_strategy": "order", "order_by": "k", "partition_idle_time": "1 h"},
            "does not go with",
        ),
        ("compact", {"compact_strategy": "half"}, "'full' or 'minor', not 'half'"),
        ("compact", {"partitions": "day=1", "where": "day = 1"}, "together with partitions"),
        ("compact", {"buckets": "x"}, "numbers with commas"),
        ("compact", {"options": "a"}, "is invalid for options"),
        ("compact", {"options": "a=1,a=2"}, "is invalid for options"),
        ("compact", {"partition_idle_time": "long"}, "not a duration"),
        ("compact", {"where": "k = 1"}, "k"),
        ("drop_partition", {"partitions": "dya=2024-01-01"}, "Did you mean 'day'"),
        ("drop_partition", {"partitions": "day"}, "is invalid for partitions"),
        ("drop_partition", {"partitions": "day=soon"}, "cannot be cast"),
        ("rescale", {"where": "day = 1"}, "use partitions"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_done(catalog, days, name, named, says):
    with pytest.raises(InvalidInputError, match=says):
        done(catalog, name, table="db.days", **named)
    assert days.latest_snapshot_id == 3


def test_a_system_table_is_no_table_to_work_on(catalog, table):
    for name in ("db.t$files", "sys.catalog_options"):
        with pytest.raises(InvalidInputError, match="takes the table itself"):
            done(catalog, "compact", name)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_paimon_s_other_procedures_are_refused_with_the_reason(catalog, name):
    with pytest.raises(UnsupportedError, match=f"'{name}' of Paimon is not supported.*: .{{20}}"):
        call(catalog, f"sys.{name}", ["whatever"])


def test_an_unknown_procedure_is_refused_with_near_names(catalog):
    with pytest.raises(NotFoundError, match=r"'sys\.compakt'.*Did you mean 'compact'"):
        call(catalog, "sys.compakt")


def test_the_names_and_parameters_are_paimon_s():
    """Of Java 1.3.1's SparkProcedures: name, and parameters in the order of positions."""
    assert set(PROCEDURES).isdisjoint(REFUSED)
    java = {
        "compact": "table partitions compact_strategy order_strategy order_by where options"
        " partition_idle_time",
        "compact_manifest": "table options",
        "create_tag": "table tag snapshot time_retained",
        "create_tag_from_timestamp": "table tag timestamp time_retained",
        "rename_tag": "table tag target_tag",
        "replace_tag": "table tag snapshot time_retained",
        "delete_tag": "table tag",
        "create_branch": "table branch tag ignoreIfExists",
        "delete_branch": "table branch",
        "fast_forward": "table branch",
        "rollback": "table version snapshot tag",
        "rollback_to_timestamp": "table timestamp",
        "rollback_to_watermark": "table watermark",
        "mark_partition_done": "table partitions",
        "purge_files": "table",
        "expire_snapshots": "table retain_max retain_min older_than max_deletes options",
        "expire_tags": "table older_than",
        "trigger_tag_automatic_creation": "table",
        "expire_partitions": "table expiration_time timestamp_formatter timestamp_pattern"
        " expire_strategy max_expires options",
    }
    for name, parameters in java.items():
        ours = [p.name for p in PROCEDURES[name].parameters if not p.is_ours]
        assert ours == parameters.split(), name
    spark = set(java) | {
        "migrate_database",
        "migrate_table", "remove_orphan_files", "remove_unexisting_files", "repair",
        "reset_consumer", "clear_consumers",
        "alter_view_dialect", "create_function", "alter_function", "drop_function",
    }  # fmt: skip
    assert len(spark) == 30
    assert spark <= set(PROCEDURES) | set(REFUSED)


def test_names_of_flink_and_later_versions_say_what_to_use(catalog):
    for name, says in (("copy_files", "use copy"), ("merge_into", "MERGE INTO")):
        with pytest.raises(UnsupportedError, match=says):
            call(catalog, name)


def test_parameters_behind_the_first_optional_one_are_optional():
    for procedure in PROCEDURES.values():
        needed = [p.is_required for p in procedure.parameters]
        assert needed == sorted(needed, reverse=True), procedure.name
        first = procedure.parameters[0]
        if procedure.name.startswith("cdc_"):
            assert first.name == "job_file"
        elif procedure.name in ("compact_database", "maintain", "repair"):
            assert not first.is_required
        elif procedure.name in ("alter_view_dialect", "clone", "migrate_table"):
            assert first.name in ("view", "database", "source_type")
        else:
            assert first.type is ParameterType.TABLE


# ---- many tables


def test_all_tables_of_databases_are_compacted(catalog, table):
    other = catalog.create_table("log.t", KEYED, primary_keys=["k"], options={"bucket": 1})
    for k in (1, 2, 3):
        other.write([{"k": k, "v": "x"}])
    answer = "Compact database finished. Success: {}, Failed: {}"
    named = {"including_databases": "db|none", "options": "num-levels=4"}
    assert done(catalog, "compact_database", **named) == [(answer.format(1, 0),)]
    assert (files(table), files(other)) == (1, 3)
    named = {"excluding_tables": "db[.].*", "mode": "divided", "compact_strategy": "minor"}
    assert done(catalog, "compact_database", **named) == [(answer.format(1, 0),)]
    assert files(other) == 3
    assert done(catalog, "compact_database", ".*", "log[.]t") == [(answer.format(1, 0),)]
    assert files(other) == 1
    assert done(catalog, "compact_database", "none") == [(answer.format(0, 0),)]


def test_of_many_tables_one_that_fails_is_counted_and_logged(catalog, table, caplog):
    broken = catalog.create_table("db.b", KEYED)
    catalog.fileio.replace(f"{broken.location}/schema/schema-0", b"{")
    answer = [("Compact database finished. Success: 1, Failed: 1",)]
    assert done(catalog, "compact_database") == answer
    assert "table 'db.b' is not compacted" in caplog.text
    assert files(table) == 1


def test_only_idle_partitions_of_many_tables(catalog, days):
    for k in range(3):
        days.write([{"day": dt.date(2024, 1, 1), "hh": 7, "k": k}])
    assert files(days) == 6
    done(catalog, "compact_database", partition_idle_time="1 h")
    assert files(days) == 6
    done(catalog, "compact_database", partition_idle_time="0 s")
    assert files(days) == 3


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"mode": "both"}, "'combined' or 'divided'"),
        ({"compact_strategy": "big"}, "'full' or 'minor'"),
        ({"including_databases": "("}, "no regular expression"),
    ],
)
def test_what_compact_database_does_not_take(catalog, table, named, said):
    with pytest.raises(InvalidInputError, match=said):
        done(catalog, "compact_database", **named)


def test_a_round_of_maintenance(catalog, table):
    planned = done(catalog, "maintain", "db.*", dry_run=True)
    assert [row[:2] for row in planned] == [("db.t", "compaction")]
    assert files(table) == 4
    answer = done(catalog, "maintain", "db.*")
    assert [(name, task, error) for name, task, _, error in answer] == [
        ("db.t", "compaction", None)
    ]
    assert json.loads(answer[0][2])["files"] == 1
    assert done(catalog, "maintain") == []
    with pytest.raises(NotFoundError):
        done(catalog, "maintain", "db.none")


# ---- jobs


def test_procedures_of_jobs_ask_the_runner(catalog):
    asked = []

    class Job:
        def plan(self):
            return "job ods\ncreate ods.t"

        def run(self, *, once=None):
            asked.append(("run", once))

        def status(self):
            table = TableStatus("shop.t", "ods.t", "suspended", 7, 1, None, "no key")
            facts = {"held_bytes": 5, "slot": "s"}
            lag = JobLag(2.5, 64, is_bound=True, note="no times")
            return SyncStatus("ods", 3, 1, "0/1", "0/2", True, (table,), 2, facts, lag)

        def resnapshot(self, table):
            asked.append(("resnapshot", table))

        def replay(self, table=None):
            asked.append(("replay", table))
            return "1 row can be applied\n    shop.t +U it stays"

        def epochs(self):
            begun = dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)
            rows = [
                {"epoch": 0, "kind": "copy", "start": "", "end": "0/1", "begun": begun,
                 "is_whole": True, "note": "", "snapshots": [("ods.t", 1)]},
                {"epoch": 1, "kind": "changes", "start": "0/1", "end": "0/2", "begun": begun,
                 "is_whole": None, "note": "cut", "snapshots": [("ods.t", None)]},
            ]  # fmt: skip
            return pa.Table.from_pylist(rows, EPOCHS)

        def drop(self):
            return ["dropped the slot", "removed the journal"]

    class Runner:
        def cdc_from_file(self, path):
            asked.append(path)
            return Job()

    def answered(name, *arguments):
        return call(catalog, name, arguments, runner=Runner()).to_pylist()

    row = {
        "job": "ods",
        "epoch": 3,
        "position": "0/1",
        "newest": "0/2",
        "is_behind": True,
        "lag_seconds": 2.5,
        "lag_is_bound": True,
        "lag_note": "no times",
        "lag_bytes": 64,
        "lag_messages": None,
        "quarantined": 2,
        "source_facts": '{"held_bytes": 5, "slot": "s"}',
        "source_table": "shop.t",
        "target_table": "ods.t",
        "phase": "suspended",
        "rows": 7,
        "copies": 1,
        "reason": "no key",
    }
    assert answered("cdc_plan", "a.toml") == [{"result": "job ods"}, {"result": "create ods.t"}]
    assert answered("cdc_status", "a.toml") == [row]
    assert answered("cdc_run", "a.toml") == [row]
    assert answered("cdc_resnapshot", "a.toml", "ods.t") == [{"result": True}]
    assert [one["result"] for one in answered("cdc_drop", "a.toml")] == Job().drop()
    assert [one for one in asked if one != "a.toml"] == [("run", True), ("resnapshot", "ods.t")]
    asked.clear()
    assert answered("cdc_replay", "a.toml") == [
        {"result": "1 row can be applied"}, {"result": "    shop.t +U it stays"},
    ]  # fmt: skip
    assert len(answered("cdc_replay", "a.toml", "ods.t")) == 2
    assert [one for one in asked if one != "a.toml"] == [("replay", None), ("replay", "ods.t")]
    copy, changes = answered("cdc_epochs", "a.toml")
    assert (copy["epoch"], copy["is_whole"], copy["note"]) == (0, True, None)
    assert copy["begun"] == dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)
    assert (changes["start_position"], changes["end_position"]) == ("0/1", "0/2")
    assert (changes["is_whole"], changes["note"]) == (None, "cut")
    assert [json.loads(one["snapshots"]) for one in (copy, changes)] == [
        {"ods.t": 1}, {"ods.t": None},
    ]  # fmt: skip


def test_procedures_of_jobs_are_refused_without_spark(catalog):
    with pytest.raises(UnsupportedError, match="the command 'tidelake cdc status'"):
        call(catalog, "cdc_status", ["a.toml"])
