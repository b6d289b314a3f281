"""Tables are read when they are asked for, and summed and examined after commits alone."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake
from tidelake.engine.env import Env
from tidelake.errors import InvalidInputError, NotFoundError
from tidelake.telemetry.env import ManualClock
from tidelake.ui.model import table_facts
from tidelake.ui.model.warehouse_watch import DIAGNOSIS_AGE_MS, FRESH_MS, WarehouseWatch

PATIENCE_S = 60


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def watch(tmp_path, clock):
    from dataclasses import replace

    env = replace(Env.system(), clock=clock)
    lake = tidelake.open(tmp_path / "lake", env=env)
    lake.create_table("db.t", pa.schema({"n": pa.int64()})).write([{"n": 1}])
    lake.create_table("db.u", pa.schema({"n": pa.int64()}))
    with WarehouseWatch(lake) as found:
        yield found


def write(watch, n=2):
    watch.table("db.t").write([{"n": n}])


def test_many_readers_cost_as_much_as_one(watch, clock):
    first = watch.facts("db.t")
    write(watch)
    assert watch.facts("db.t") is first
    clock.sleep_ms(FRESH_MS)
    assert watch.facts("db.t").newest.id == 2


def test_files_are_summed_again_after_a_commit_alone(watch, clock, monkeypatch):
    sums, file_layout = [], table_facts.file_layout
    monkeypatch.setattr(
        table_facts, "file_layout", lambda *a: sums.append(a[1].id) or file_layout(*a)
    )
    for _ in range(3):
        watch.facts("db.t")
        clock.sleep_ms(FRESH_MS)
    write(watch)
    assert watch.facts("db.t").layout.rows == 2
    assert sums == [1, 2]


def test_a_table_is_examined_after_a_commit_or_when_time_has_passed(watch, clock):
    facts = watch.facts("db.t")
    assert watch.examination(facts) is None
    found = watch.examine(facts)
    assert watch.examination(facts) is watch.examine(facts) is found
    clock.sleep_ms(DIAGNOSIS_AGE_MS)
    assert watch.examination(facts) is None
    again = watch.examine(watch.facts("db.t"))
    write(watch)
    clock.sleep_ms(FRESH_MS)
    assert watch.examination(watch.facts("db.t")) is None
    assert again.diagnosis.is_healthy


def test_the_page_of_all_tables_has_every_table(watch):
    found = {one.name: one for one in watch.overview(patience_s=PATIENCE_S)}
    assert {name: one.health for name, one in found.items()} == {
        "db.t": "healthy",
        "db.u": "healthy",
    }
    assert found["db.t"].facts.layout.files == 1
    assert found["db.u"].facts.layout is None
    assert not any(one.is_pending for one in found.values())


def test_a_slow_table_does_not_keep_the_page_waiting(watch, monkeypatch):
    go_on = threading.Event()
    real = WarehouseWatch.facts

    def slow(self, name):
        if name == "db.t":
            assert go_on.wait(PATIENCE_S)
        return real(self, name)

    monkeypatch.setattr(WarehouseWatch, "facts", slow)
    found = {one.name: one for one in watch.overview(patience_s=0)}
    assert found["db.t"].is_pending
    assert found["db.t"].health == "unknown"
    go_on.set()
    assert not any(one.is_pending for one in watch.overview(patience_s=PATIENCE_S))


def test_a_damaged_table_does_not_hide_the_others(watch, clock):
    place = Path(watch.table("db.t").paths.schema_dir)
    (place / "schema-0").write_text("{")
    found = {one.name: one for one in watch.overview(patience_s=PATIENCE_S)}
    assert (found["db.t"].health, found["db.u"].health) == ("failed", "healthy")
    assert "schema-0" in found["db.t"].problem


def test_a_damaged_part_is_named_and_the_others_are_shown(watch):
    write(watch)
    for file in Path(watch.table("db.t").paths.manifest_dir).iterdir():
        file.write_bytes(b"torn")
    facts = watch.facts("db.t")
    assert set(facts.problems) == {"files"}
    assert facts.layout is None
    assert facts.timeline.count == 2
    assert watch.examine(facts).problem


def test_tables_come_and_go(watch, clock):
    watch.overview(patience_s=PATIENCE_S)
    watch.catalog.drop_table("db.u")
    watch.catalog.create_table("db.w", pa.schema({"n": pa.int64()}))
    clock.sleep_ms(FRESH_MS)
    assert [one.name for one in watch.overview(patience_s=PATIENCE_S)] == ["db.t", "db.w"]
    with pytest.raises(NotFoundError):
        watch.facts("db.u")
    with pytest.raises(InvalidInputError, match="system table"):
        watch.facts("db.t$files")


def test_a_table_that_is_created_anew_is_read_anew(watch, clock):
    watch.examine(watch.facts("db.t"))
    watch.catalog.drop_table("db.t")
    new = watch.catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
    new.write([{"k": 1}, {"k": 2}])
    clock.sleep_ms(FRESH_MS)
    facts = watch.facts("db.t")
    assert facts.layout.rows == 2
    assert watch.examination(facts) is None


def test_an_error_of_a_table_that_nobody_expects_is_its_own(watch, monkeypatch):
    real = table_facts.table_facts

    def odd(table, before):
        if table.identifier == "db.t":
            raise ZeroDivisionError("password=hush")
        return real(table, before)

    monkeypatch.setattr("tidelake.ui.model.warehouse_watch.table_facts", odd)
    found = {one.name: one for one in watch.overview(patience_s=PATIENCE_S)}
    assert (found["db.t"].health, found["db.u"].health) == ("failed", "healthy")
    assert found["db.t"].problem.startswith("ZeroDivisionError: password=")
    assert "hush" not in found["db.t"].problem
    assert not found["db.t"].is_pending


def test_an_empty_table_that_is_made_anew_is_examined_anew(watch, clock):
    watch.examine(watch.facts("db.u"))
    watch.catalog.drop_table("db.u")
    clock.sleep_ms(FRESH_MS)
    watch.catalog.create_table("db.u", pa.schema({"n": pa.int64()}))
    assert watch.examination(watch.facts("db.u")) is None


def test_of_very_many_tables_the_first_are_shown_and_known(watch, monkeypatch):
    monkeypatch.setattr("tidelake.ui.model.warehouse_watch.TABLES_SHOWN_MAX", 1)
    [only] = watch.overview(patience_s=PATIENCE_S)
    assert only.name == "db.t"
    assert not only.is_pending
    assert watch.facts("db.u").identifier == "db.u"


def test_the_more_tables_there_are_the_more_seldom_each_is_read(watch, clock, monkeypatch):
    monkeypatch.setattr("tidelake.ui.model.warehouse_watch.TABLE_MS", 5_000)
    watch.overview(patience_s=PATIENCE_S)
    write(watch)
    clock.sleep_ms(2 * 5_000 - 1)
    found = {one.name: one for one in watch.overview(patience_s=PATIENCE_S)}
    assert found["db.t"].facts.newest.id == 1
    clock.sleep_ms(1)
    found = {one.name: one for one in watch.overview(patience_s=PATIENCE_S)}
    assert found["db.t"].facts.newest.id == 2
