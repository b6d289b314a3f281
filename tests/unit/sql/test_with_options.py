"""The 26 options of the WITH clause that users of Paimon on Flink are told of: what each one does.

Those of parallel reads and writes are in ``tests/spark/seeds``: only Spark has tasks.
"""

import re
from pathlib import Path

import pytest

import tidelake
from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.options import Support, declared
from tidelake.sql import SqlSession, execute, parse

PAGE = Path(__file__).parents[3] / "docs" / "options-in-use.md"
SEED = Path(__file__).parents[4] / "shared" / "seeds" / "001_102db0004ef48af7.txt"

OF_STATEMENTS = ("connector", "path", "auto-create")
OF_TASKS = ("scan.infer-parallelism", "scan.parallelism", "sink.parallelism")
ACTING = (
    "bucket",
    "bucket-key",
    "changelog-producer",
    "full-compaction.delta-commits",
    "lookup.cache-max-memory-size",
    "merge-engine",
    "partial-update.ignore-delete",
    "partition.default-name",
    "scan.mode",
    "scan.snapshot-id",
    "scan.timestamp-millis",
    "snapshot.num-retained.max",
    "snapshot.num-retained.min",
    "snapshot.time-retained",
    "write-mode",
)
EXPIRING = {
    "partition.expiration-check-interval": ("1 h", "often"),
    "partition.expiration-time": ("7 d", "a week"),
    "partition.timestamp-formatter": ("yyyyMMdd", "HH:mm"),
    "partition.timestamp-pattern": ("$dt", "$day"),
}
"""A value that is taken, and one that is not of the option's kind."""

OF_STREAMS = ("scan.bounded.watermark",)
"""Tested with streams: ``tests/spark/sql/test_stream_sql.py``."""

ALL = (*OF_STATEMENTS, *OF_TASKS, *OF_STREAMS, *ACTING, *EXPIRING)


@pytest.fixture
def session(tmp_path):
    return SqlSession(tidelake.open(tmp_path / "warehouse"), name="lake")


@pytest.fixture
def make(session):
    """Makes a table with options and gives it."""

    def make(options, columns="k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED", partition=""):
        pairs = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
        execute(parse("DROP TABLE IF EXISTS t")[0], session)
        execute(parse(f"CREATE TABLE t ({columns}) {partition} WITH ({pairs})")[0], session)
        return session.catalog.table("default.t")

    return make


def files(table):
    return table.system_table("files").to_arrow().to_pylist()


@pytest.mark.skipif(not SEED.is_file(), reason="the documents are not beside the checkout")
def test_these_are_all_options_of_the_document():
    text = SEED.read_text(encoding="utf-8")
    begin = text.index("Parameters for the WITH Clause")
    lines = text[begin : text.index("Feature Overview", begin)].splitlines()
    named = {key for key in ALL if any(line.startswith(key) for line in lines)}
    assert named == set(ALL)
    assert len(ALL) == len(set(ALL)) == 26
    rows = [line for line in lines if re.match(r"[a-z][a-z.-]+[A-Z]", line)]
    assert len(rows) == 26


def test_the_page_lists_each_with_what_it_does():
    rows = dict(re.findall(r"^\| `([a-z.-]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    assert set(ALL) == set(rows)
    assert not [key for key, said in rows.items() if "not done yet" in said]


def test_connector_says_whose_table_it_is(session, tmp_path):
    text = "CREATE TEMPORARY TABLE x (a INT) WITH ('connector' = '{}', 'path' = '{}/x'{})"
    execute(parse(text.format("kafka", tmp_path, ""))[0], session)
    with pytest.raises(UnsupportedError, match="connector 'kafka'"):
        session.data_table(parse("TRUNCATE TABLE x")[0].name, use="read")
    execute(parse("DROP TABLE x")[0], session)
    with pytest.raises(InvalidInputError, match="needs the options 'connector'"):
        execute(parse("CREATE TEMPORARY TABLE x (a INT) WITH ('path' = '/x')")[0], session)


def test_path_and_auto_create_say_where_it_is_and_whether_it_is_made(session, tmp_path):
    text = "CREATE TEMPORARY TABLE x (a INT) WITH ('connector' = 'paimon', 'path' = '{}/x'{})"
    for refused in ("", ", 'auto-create' = 'false'"):
        with pytest.raises(NotFoundError, match=r"no table at .*'auto-create' = 'true'"):
            execute(parse(text.format(tmp_path, refused))[0], session)
    with pytest.raises(InvalidInputError, match="'auto-create' is 'maybe'"):
        execute(parse(text.format(tmp_path, ", 'auto-create' = 'maybe'"))[0], session)
    assert not (tmp_path / "x").exists()
    execute(parse(text.format(tmp_path, ", 'auto-create' = 'true'"))[0], session)
    assert (tmp_path / "x" / "schema" / "schema-0").is_file()


def test_bucket_is_the_number_of_buckets(make):
    rows = [{"k": k, "v": "x"} for k in range(64)]
    for count in (1, 3):
        table = make({"bucket": count})
        table.write(rows)
        assert {f["bucket"] for f in files(table)} == set(range(count))


def test_bucket_key_decides_the_bucket(make):
    columns = "a INT, b INT, PRIMARY KEY (a, b) NOT ENFORCED"
    rows = [{"a": 7, "b": b} for b in range(64)]
    by_all = make({"bucket": 4}, columns)
    by_all.write(rows)
    assert len({f["bucket"] for f in files(by_all)}) == 4
    by_one = make({"bucket": 4, "bucket-key": "a"}, columns)
    by_one.write(rows)
    assert len({f["bucket"] for f in files(by_one)}) == 1


def test_snapshots_are_kept_by_number_and_age(make):
    for options, kept in (
        ({}, 12),
        ({"snapshot.num-retained.min": 2}, 12),
        ({"snapshot.num-retained.max": 11}, 11),
        ({"snapshot.time-retained": "0 s"}, 10),
        ({"snapshot.time-retained": "0 s", "snapshot.num-retained.min": 3}, 3),
    ):
        table = make(options, columns="k INT, v STRING")
        for k in range(12):
            table.write([{"k": k, "v": "x"}])
        # of commits in one millisecond none is older than the next
        assert kept <= len(table.history()) <= min(12, kept + 2)
    for key, wrong in (
        ("snapshot.num-retained.max", "0"),
        ("snapshot.num-retained.min", "two"),
        ("snapshot.time-retained", "two hours"),
    ):
        with pytest.raises(InvalidInputError, match=key):
            make({key: wrong})


def test_changelog_producer_keeps_changes(make):
    counts = {}
    for producer in ("none", "input", "lookup", "full-compaction"):
        table = make({"bucket": 1, "changelog-producer": producer})
        table.write([{"k": 1, "v": "a"}])
        table.compact(full=True)
        snapshots = table.system_table("snapshots").to_arrow().to_pylist()
        counts[producer] = sum(s["changelog_record_count"] or 0 for s in snapshots)
    assert counts == {"none": 0, "input": 1, "lookup": 1, "full-compaction": 1}


def test_full_compaction_delta_commits_is_when_all_is_compacted(make):
    kinds = {}
    for commits in (1, 2, None):
        options = {} if commits is None else {"full-compaction.delta-commits": commits}
        table = make({"bucket": 1, "num-sorted-run.compaction-trigger": 9, **options})
        for k in range(3):
            table.write([{"k": k, "v": "a"}])
        snapshots = table.system_table("snapshots").to_arrow().to_pylist()
        kinds[commits] = sum(s["commit_kind"] == "COMPACT" for s in snapshots)
    assert kinds == {1: 3, 2: 1, None: 0}


def test_merge_engine_makes_one_row_of_many(make):
    columns = "k INT, a INT, b INT, PRIMARY KEY (k) NOT ENFORCED"
    sum_of_a = {"fields.a.aggregate-function": "sum"}
    answers = {}
    for engine in ("deduplicate", "partial-update", "aggregation", "first-row"):
        more = sum_of_a if engine == "aggregation" else {}
        table = make({"bucket": 1, "merge-engine": engine, **more}, columns)
        table.write([{"k": 1, "a": 1, "b": 5}])
        table.write([{"k": 1, "a": 2, "b": None}])
        table.compact(full=True)
        answers[engine] = [(r["a"], r["b"]) for r in table.to_arrow().to_pylist()]
    assert answers == {
        "deduplicate": [(2, None)],
        "partial-update": [(2, 5)],
        "aggregation": [(3, 5)],
        "first-row": [(1, 5)],
    }


def test_partial_update_ignore_delete_passes_over_deletes(make):
    rows = [{"k": 1, "v": "a"}]
    gone = [{"k": 1, "v": "a", "_row_kind": "-D"}]
    table = make({"bucket": 1, "merge-engine": "partial-update"})
    table.write(rows)
    with pytest.raises(TidelakeError, match="delete"):
        table.write(gone)
    options = {"merge-engine": "partial-update", "partial-update.ignore-delete": "true"}
    table = make({"bucket": 1, **options})
    table.write(rows)
    table.write(gone)
    assert table.to_arrow().to_pylist() == rows


def test_partition_default_name_stands_for_null(make):
    columns, partition = "k INT, p STRING", "PARTITIONED BY (p)"
    for name in ("__DEFAULT_PARTITION__", "none"):
        table = make({"partition.default-name": name}, columns, partition)
        table.write([{"k": 1, "p": None}])
        assert (Path(table.paths.location) / f"p={name}").is_dir()
        assert table.to_arrow().to_pylist() == [{"k": 1, "p": None}]


def test_scan_options_say_which_moment_is_read(make):
    table = make({"bucket": 1})
    table.write([{"k": 1, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    times = table.history().column("commit_time").to_pylist()
    first_ms = int(times[0].timestamp() * 1000)
    assert table.count(options={"scan.snapshot-id": 1}) == 1
    assert table.count(options={"scan.timestamp-millis": first_ms}) == 1
    assert table.count(options={"scan.mode": "latest-full"}) == 2
    assert table.count(options={"scan.mode": "from-snapshot", "scan.snapshot-id": 1}) == 1
    with pytest.raises(InvalidInputError, match=r"'scan\.mode' is 'from-snapshot' but no option"):
        table.count(options={"scan.mode": "from-snapshot"})
    assert table.count(options={"scan.mode": "compacted-full"}) == 2
    assert table.count(options={"scan.file-creation-time-millis": 2**53}) == 0
    with pytest.raises(UnsupportedError, match=r"'scan\.mode' = 'incremental' is refused"):
        table.count(options={"scan.mode": "incremental"})


def test_write_mode_is_what_the_primary_key_says(make, session):
    with pytest.raises(InvalidInputError, match=r"'append-only'.*has a primary key"):
        make({"write-mode": "append-only"})
    with pytest.raises(InvalidInputError, match=r"'change-log'.*the table has none"):
        make({"write-mode": "change-log"}, "k INT")
    with pytest.raises(InvalidInputError, match="'write-mode' is 'upsert'"):
        make({"write-mode": "upsert"})
    assert make({"write-mode": "append-only"}, "k INT").options.raw["write-mode"] == "append-only"
    table = make({"write-mode": "change-log", "bucket": 1})
    table.write([{"k": 1, "v": "a"}])
    with pytest.raises(InvalidInputError, match="cannot be set for one use"):
        table.write([{"k": 1, "v": "b"}], options={"write-mode": "append-only"})
    make({})
    with pytest.raises(InvalidInputError, match=r"'append-only'.*has a primary key"):
        execute(parse("ALTER TABLE t SET ('write-mode' = 'append-only')")[0], session)
    make({"write-mode": "append-only"}, "k INT")
    execute(parse("ALTER TABLE t RESET ('write-mode')")[0], session)


@pytest.mark.parametrize("key", EXPIRING)
def test_options_of_partition_expiry_are_checked(make, key):
    value, wrong = EXPIRING[key]
    columns, partition = "k INT, dt STRING", "PARTITIONED BY (dt)"
    assert declared.BY_KEY[key].support is Support.SUPPORTED
    assert make({key: value}, columns, partition).table_schema.options[key] == value
    with pytest.raises(InvalidInputError, match=re.escape(f"'{key}' is '{wrong}'")):
        make({key: wrong}, columns, partition)


def test_partitions_expire_by_their_time(make):
    options = {
        "partition.expiration-time": "7 d",
        "partition.expiration-check-interval": "0 s",
        "partition.timestamp-formatter": "yyyyMMdd",
        "partition.timestamp-pattern": "$dt",
    }
    table = make(options, "k INT, dt STRING", "PARTITIONED BY (dt)")
    table.write([{"k": 1, "dt": "20240131"}, {"k": 2, "dt": "99990101"}])
    assert table.to_arrow()["k"].to_pylist() == [2]


@pytest.mark.parametrize("key", OF_TASKS)
def test_numbers_of_tasks_are_numbers(make, key):
    wrong = "perhaps" if key == "scan.infer-parallelism" else "0"
    with pytest.raises(InvalidInputError, match=re.escape(f"'{key}' is '{wrong}'")):
        make({key: wrong})
