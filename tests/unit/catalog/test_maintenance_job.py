"""A job over many tables: rounds, failures, several jobs, and tables that come and go."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from proving.fsck import check_table
from sizes import FULL, SIZE

import tidelake
from tidelake.catalog.upkeep import maintenance_job
from tidelake.catalog.upkeep.table_patterns import TablePatterns
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.table.upkeep import TableUpkeep
from tidelake.telemetry import Env, ManualClock

IS_FULL = SIZE is FULL
TABLES, COMMITS = (20, 360) if IS_FULL else (2, 18)
"""Write-only tables, and commits to each: a commit in ten seconds for an hour, at full size."""
SEEDS, STEPS = (100, 120) if IS_FULL else (2, 40)
COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_keys": ["k"], "options": {"bucket": 2}},
    "dynamic": {"primary_keys": ["k"], "options": {}},
    "marked": {"primary_keys": ["k"], "options": {"bucket": 1, "deletion-vectors.enabled": True}},
    "log": {"options": {"compaction.min.file-num": 4}},
    "queue": {"options": {"bucket": 1, "bucket-key": "k", "compaction.min.file-num": 4}},
}


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def catalog(clock):
    env = replace(Env.seeded(1), clock=clock)
    return tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)


def make(catalog, name, kind="keyed", **more):
    given = KINDS[kind]
    options = {"write-only": True, "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 3}
    return catalog.create_table(
        name,
        COLUMNS,
        primary_keys=given.get("primary_keys", ()),
        options={**options, **given["options"], **more},
    )


def runs_by_bucket(table):
    counts = {}
    for file in table.system_table("files").to_arrow().to_pylist():
        key = (file["partition"], file["bucket"])
        counts.setdefault(key, []).append((file["level"], file["file_path"]))
    return {
        key: sum(level == 0 for level, _ in own) + len({level for level, _ in own if level})
        for key, own in counts.items()
    }


def rows(table):
    return sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())


def test_many_write_only_tables_stay_under_five_runs(catalog, clock):
    """A commit to each between two rounds; twenty tables for an hour at full size."""
    names = [f"db.t{number}" for number in range(TABLES)]
    tables = [make(catalog, name) for name in names]
    job = catalog.maintenance_job("db.*")
    expected = {}
    for step in range(COMMITS):
        for table in tables:
            table.write([{"k": k, "v": step} for k in range(step % 3, 6)])
            assert max(runs_by_bucket(table).values()) < 5
        expected.update(dict.fromkeys(range(step % 3, 6), step))
        done = job.round()
        assert not done.errors, done
        clock.sleep_ms(10_000)
    for table in tables:
        assert rows(table) == sorted(expected.items())
        assert len(table.handle.snapshots.ids()) <= 12  # kept for a minute, then three
        check_table(table.handle.fileio, table.location)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_and_their_order_are_those_of_a_model_whatever_the_job_does(seed):
    """Drawn writes, deletes, rounds of two jobs, and clocks that jump."""
    draw, clock = random.Random(seed), ManualClock()
    env = replace(Env.seeded(seed), clock=clock)
    catalog = tidelake.open("/lake", fileio=MemoryFileIO(clock=clock), env=env)
    tables = {kind: make(catalog, f"db.{kind}", kind) for kind in KINDS}
    model = {kind: [] for kind in KINDS}
    jobs = [catalog.maintenance_job("*.*"), catalog.maintenance_job("db.*")]
    for step in range(STEPS):
        kind = draw.choice(list(KINDS))
        keys = draw.sample(range(12), draw.randrange(1, 5))
        new = [(k, step) for k in keys]
        deletes = kind in ("keyed", "dynamic", "marked") and draw.random() < 0.2
        tables[kind].write(
            pa.table({"k": keys, "v": [step] * len(keys)}), row_kinds=["-D"] * len(keys)
        ) if deletes else tables[kind].write(pa.table({"k": keys, "v": [step] * len(keys)}))
        kept = model[kind]
        if kind in ("keyed", "dynamic", "marked"):
            kept = [row for row in kept if row[0] not in keys]
        model[kind] = kept if deletes else [*kept, *new]
        if draw.random() < 0.4:
            done = draw.choice(jobs).round()
            assert not done.errors, done
        clock.sleep_ms(draw.choice([10, 10_000, 90_000, 86_400_001, -3_600_000]))
    jobs[0].round()
    for kind, table in tables.items():
        if kind == "queue":
            assert [(r["k"], r["v"]) for r in table.to_arrow().to_pylist()] == model[kind]
        assert rows(table) == sorted(model[kind]), kind
        check_table(table.handle.fileio, table.location)


def test_tables_come_and_go(catalog):
    make(catalog, "db.a")
    job = catalog.maintenance_job("db.*")
    assert job.round().looked_count == 1
    make(catalog, "db.b")
    assert job.round().looked_count == 2
    catalog.drop_table("db.a")
    assert job.round().looked_count == 1
    table = make(catalog, "db.a")  # another one of this name
    for v in range(6):
        table.write([{"k": 1, "v": v}])
    assert [str(done.table) for done in job.round().tables] == ["db.a"]
    catalog.drop_database("db", cascade=True)
    assert job.round().looked_count == 0


def test_a_table_that_fails_is_reported_and_tried_later_and_the_others_go_on(catalog, clock):
    for name in ("db.a", "db.b"):
        table = make(catalog, name)
        for v in range(6):
            table.write([{"k": 1, "v": v}])
    path = f"{catalog.table('db.a').location}/schema/schema-0"
    whole = catalog.fileio.read_bytes(path)
    catalog.fileio.replace(path, b"{")
    job = catalog.maintenance_job("db.*")
    done = job.round()
    assert list(done.failed) == ["db.a"]
    assert [one.table for one in done.tables] == ["db.b"]
    assert job.round().looked_count == 1  # it waits
    clock.sleep_ms(10_000)
    assert list(job.round().failed) == ["db.a"]
    catalog.fileio.replace(path, whole)
    clock.sleep_ms(10_000)
    assert job.round().looked_count == 1  # longer each time
    clock.sleep_ms(10_000)
    assert [one.table for one in job.round().tables] == ["db.a"]


def test_of_two_jobs_one_works_on_a_table(catalog, monkeypatch):
    table = make(catalog, "db.a")
    for v in range(6):
        table.write([{"k": 1, "v": v}])
    other = catalog.maintenance_job("db.*")
    during = []
    real = TableUpkeep._compact

    def compact(self, handle):
        monkeypatch.setattr(TableUpkeep, "_compact", real)
        during.append(other.round())
        return real(self, handle)

    monkeypatch.setattr(TableUpkeep, "_compact", compact)
    catalog.maintenance_job("db.*").round()
    assert [one.is_taken for one in during[0].tables] == [True]
    assert other.round().tables == ()  # the work is done


def test_run_ends_by_rounds_by_time_and_by_stop(catalog, clock):
    make(catalog, "db.a")
    seen = []
    last = catalog.maintain("db.*", rounds=3, interval=5, watch=seen.append)
    assert [done.number for done in seen] == [1, 2, 3]
    assert last is seen[-1]
    began_ms = clock.now_ms()
    catalog.maintain("db.*", seconds=60, interval=5)
    assert 50_000 < clock.now_ms() - began_ms <= 60_000
    job = catalog.maintenance_job("db.*")
    assert job.run(watch=lambda _: job.stop()).number == 1
    assert job.round().looked_count == 0


def test_stop_may_be_called_by_another_thread(tmp_path):
    catalog = tidelake.open(tmp_path)
    make(catalog, "db.a")
    job = catalog.maintenance_job("db.*", interval=0.05)
    begun = threading.Event()
    thread = threading.Thread(target=job.run, kwargs={"watch": lambda _: begun.set()})
    thread.start()
    assert begun.wait(60)
    job.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_options_of_the_job_are_those_of_all_tables(catalog):
    table = make(catalog, "db.a")
    for v in range(6):
        table.write([{"k": 1, "v": v}])
    given = {"maintenance.tasks": "orphans"}
    assert catalog.maintain("db.*", rounds=1, options=given).tables == ()
    assert catalog.maintain("db.*", rounds=1).tables != ()


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        {"bucket": 4},
        {"deletion-vectors.enabled": True},
        {"primary-key": "v"},
        {"constraint.p": "v > 0"},
        {"maintenance.task": "compaction"},
        {"maintenance.expiry-interval": "soon"},
        {"branch": "b"},
    ],
)
def test_options_that_would_change_rows_or_are_none_are_refused(catalog, options):
    table = make(catalog, "db.a")
    for v in range(6):
        table.write([{"k": 1, "v": v}])
    with pytest.raises((InvalidInputError, UnsupportedError)):
        catalog.maintain("db.*", rounds=1, options=options)
    with pytest.raises((InvalidInputError, UnsupportedError)):
        catalog.maintain("db.*", dry_run=True, options=options)
    assert table.latest_snapshot_id == 6
    assert rows(table) == [(1, 5)]


def test_options_that_do_not_fit_one_table_are_its_error(catalog):
    for name in ("db.a", "db.b"):
        table = make(catalog, name, **({"num-levels": 3} if name == "db.b" else {}))
        for v in range(6):
            table.write([{"k": 1, "v": v}])
    done = catalog.maintain("db.*", rounds=1, options={"snapshot.num-retained.max": 1})
    assert not done.errors
    given = {"snapshot.num-retained.min": 5}  # both tables keep three at most
    done = catalog.maintain("db.*", rounds=1, options=given)
    assert set(done.errors) == {"db.a", "db.b"}


@pytest.mark.parametrize("name", ["db.a$branch_b", "db.a$files", "db.a*$files"])
def test_a_branch_or_a_system_table_is_refused(catalog, name):
    make(catalog, "db.a")
    with pytest.raises(InvalidInputError, match="branch"):
        catalog.maintenance_job(name)


def test_names_that_mean_no_table_are_told_once(catalog, caplog):
    catalog.maintain("none.*", rounds=2)
    assert caplog.text.count("no table is named none.*") == 1


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["*.*"], ["db.a", "db.ab", "log.a"]),
        (["db.*"], ["db.a", "db.ab"]),
        (["db.a"], ["db.a"]),
        (["*.a"], ["db.a", "log.a"]),
        (["db.a?", "log.a"], ["db.ab", "log.a"]),
        (["none.*"], []),
    ],
)
def test_names_of_tables_with_stars(catalog, names, meant):
    for name in ("db.a", "db.ab", "log.a"):
        make(catalog, name)
    assert catalog.maintenance_job(*names).tables() == meant


@pytest.mark.parametrize("name", ["db", "", "a.b.c", ".t", "db.", None])
def test_what_names_no_table_is_refused(catalog, name):
    with pytest.raises(InvalidInputError, match=r"'database\.table'"):
        catalog.maintenance_job(name)


def test_a_named_table_must_be_there_at_first(catalog):
    make(catalog, "db.a")
    with pytest.raises(NotFoundError):
        catalog.maintenance_job("db.b")


@pytest.mark.parametrize("given", [{"rounds": 0}, {"seconds": -1}, {"interval": 0}])
def test_wrong_numbers_are_refused(catalog, given):
    with pytest.raises(InvalidInputError, match=next(iter(given))):
        catalog.maintain(**given)


def test_patterns_are_those_of_java(catalog):
    for name in ("db1.a", "db1.ignore_table", "db2.a", "db12.a"):
        make(catalog, name)
    of = TablePatterns.of_paimon
    assert of("db1|db2").names(catalog) == ["db1.a", "db1.ignore_table", "db2.a"]
    assert of("db1", "db1.a|db2.a").names(catalog) == ["db1.a"]
    assert of("db1", ".*", ".*ignore_table").names(catalog) == ["db1.a"]
    with pytest.raises(InvalidInputError, match="including_tables"):
        of(None, "(")


def test_a_plan_has_the_error_of_a_table_and_those_of_others(catalog):
    make(catalog, "db.a")
    table = make(catalog, "db.b")
    for v in range(6):
        table.write([{"k": 1, "v": v}])
    schema = catalog.fileio.read_bytes(f"{catalog.table('db.a').location}/schema/schema-0")
    document = json.loads(schema)
    document["options"]["merge-engine"] = "of-tomorrow"
    document.pop("tidelake.checksum", None)
    path = f"{catalog.table('db.a').location}/schema/schema-0"
    catalog.fileio.replace(path, json.dumps(document).encode())
    plans = {plan.table: plan for plan in catalog.maintain("db.*", dry_run=True)}
    assert plans["db.b"].tasks
    assert plans["db.a"].error is not None
    assert [one.table for one in catalog.maintain("db.*", rounds=1).tables] == ["db.b"]


def test_what_this_version_does_not_write_is_no_error(catalog, monkeypatch, caplog):
    for name in ("db.a", "db.b"):
        table = make(catalog, name)
        for v in range(6):
            table.write([{"k": 1, "v": v}])
    real = maintenance_job.check_writable

    def check(handle):
        if handle.identifier == "db.a":
            message = "it has an option of tomorrow"
            raise UnsupportedError(message, kind="option")
        real(handle)

    monkeypatch.setattr(maintenance_job, "check_writable", check)
    assert [plan.table for plan in catalog.maintain("db.*", dry_run=True)] == ["db.b"]
    done = catalog.maintain("db.*", rounds=2, interval=0.1)
    assert not done.errors
    assert caplog.text.count("it has an option of tomorrow") == 1


def test_compact_database_goes_on_after_a_table_that_fails(catalog):
    for name in ("db.a", "db.b"):
        table = make(catalog, name)
        for v in range(3):
            table.write([{"k": 1, "v": v}])
    path = f"{catalog.table('db.a').location}/schema/schema-0"
    catalog.fileio.replace(path, b"{")
    found = catalog.compact_database(including_databases="db")
    assert list(found.failed) == ["db.a"]
    assert found.tables["db.b"].snapshot_ids == (4,)
