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
from tidelake.cdc import SyncStatus, TableStatus
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
    with pytest.raises(UnsupportedError, match="is not supported"):
        done(catalog, "mark_partition_done", "db.days", "day=2024-01-02,hh=7")


# ---- refusals


@pytest.mark.parametrize(
    ("name", "named", "says"),
    [
        ("compact", {"order_strategy": "zorder", "order_by": "k"}, "needs a shuffle"),
    ],
)
def test_what_is_not_covered_says_what_else_to_do(catalog, table, name, named, says):
    with pytest.raises(UnsupportedError, match=says):
        done(catalog, name, table="db.t", **named)


@pytest.mark.parametrize(
    ("name", "named", "says"),
    [
        ("compact", {"order_by": "k"}, "needs an order_strategy"),
        ("compact", {"order_strategy": "random"}, "not 'random'"),
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
        "rollback": "table version snapshot tag",
        "rollback_to_timestamp": "table timestamp",
        "rollback_to_watermark": "table watermark",
        "mark_partition_done": "table partitions",
        "purge_files": "table",
        "expire_snapshots": "table retain_max retain_min older_than max_deletes options",
    }
    for name, parameters in java.items():
        ours = [p.name for p in PROCEDURES[name].parameters if not p.is_ours]
        assert ours == parameters.split(), name
    spark = set(java) | {
        "expire_tags", "create_branch", "delete_branch", "migrate_database",
        "migrate_table", "remove_orphan_files", "remove_unexisting_files", "expire_partitions",
        "repair", "fast_forward", "reset_consumer", "clear_consumers",
        "alter_view_dialect", "create_function", "alter_function", "drop_function",
        "trigger_tag_automatic_creation",
    }  # fmt: skip
    assert len(spark) == 30
    assert spark <= set(PROCEDURES) | set(REFUSED)


def test_parameters_behind_the_first_optional_one_are_optional():
    for procedure in PROCEDURES.values():
        needed = [p.is_required for p in procedure.parameters]
        assert needed == sorted(needed, reverse=True), procedure.name
        first = procedure.parameters[0]
        if procedure.name.startswith("cdc_"):
            assert first.name == "job_file"
        else:
            assert first.type is ParameterType.TABLE


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
            return SyncStatus("ods", 3, 1, "0/1", "0/2", True, (table,), 2, facts)

        def resnapshot(self, table):
            asked.append(("resnapshot", table))

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


def test_procedures_of_jobs_are_refused_without_spark(catalog):
    with pytest.raises(UnsupportedError, match="the command 'tidelake cdc status'"):
        call(catalog, "cdc_status", ["a.toml"])
