"""Dropping: at once out of sight, whoever writes meanwhile, and whatever the storage cannot do."""

from __future__ import annotations

import errno
import itertools
import os
import threading

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError, StorageError, TidelakeError
from tidelake.catalog.dropped_directories import STAGING_DIRECTORY, DroppedDirectories
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.telemetry import Env
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

COLUMNS = pa.schema({"k": pa.int64()})
SEEDS = itertools.count(1)
STAGING = f"/w/{STAGING_DIRECTORY}"


def made(catalog, name="db.t", rows=1):
    table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": 1})
    for k in range(rows):
        table.write([{"k": k}])
    return table


def on(files):
    return tidelake.open("/w", fileio=files, env=Env.seeded(next(SEEDS)))


def names(files, path):
    return sorted(s.name for s in files.list_dir(path))


def test_a_drop_that_dies_leaves_the_table_or_none():
    """At each of its calls; the next drop in the warehouse finishes it."""
    trial = FaultyFileIO(MemoryFileIO())
    made(on(trial))
    before = len(trial.trace)
    on(trial).drop_table("db.t")
    calls = len(trial.trace) - before
    left = set()
    for call in range(1, calls + 1):
        for mode in (FaultMode.CRASH_BEFORE, FaultMode.CRASH_AFTER):
            files = MemoryFileIO()
            made(on(files))
            with pytest.raises(SimulatedCrash):
                on(FaultyFileIO(files, {call: mode})).drop_table("db.t")
            catalog = on(files)
            tables = catalog.list_tables("db")
            left.add((*tables, *names(files, STAGING)))
            if tables:
                assert catalog.table("db.t").count() == 1
            else:
                with pytest.raises(NotFoundError):
                    catalog.table("db.t")
                made(catalog, rows=2)
                assert catalog.table("db.t").count() == 2
            catalog.drop_table("db.t")
            assert names(files, STAGING) == names(files, "/w/db.db") == []
    assert len(left) > 2, left


def test_issue_22_a_table_is_dropped_beside_a_live_writer(tmp_path):
    catalog = tidelake.open(tmp_path)
    for _ in range(5):
        table = made(catalog)
        refused = []

        def write(table=table, refused=refused):
            try:
                while True:
                    table.write([{"k": 1}])
            except TidelakeError as error:
                refused.append(error)

        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        catalog.drop_table("db.t")
        for writer in writers:
            writer.join(60)
        assert len(refused) == 2
        assert catalog.list_tables("db") == []
        assert not any((tmp_path / STAGING_DIRECTORY).iterdir())


def test_what_a_late_writer_leaves_hinders_nothing(tmp_path):
    catalog = tidelake.open(tmp_path)
    out = made(catalog).writer()
    out.write([{"k": 7}])
    catalog.drop_table("db.t")
    with pytest.raises(NotFoundError, match="dropped"):
        out.commit()
    assert not (tmp_path / "db.db/t/snapshot").exists()
    assert catalog.list_tables("db") == []
    assert made(catalog, rows=2).count() == 2
    catalog.drop_table("db.t")
    catalog.drop_database("db")


@pytest.mark.parametrize("relative", [False, True])
def test_issue_22_a_table_that_is_a_link_is_dropped_with_what_it_points_to(tmp_path, relative):
    catalog = tidelake.open(tmp_path / "w")
    made(catalog)
    place, disk = tmp_path / "w/db.db/t", tmp_path / "disk"
    disk.mkdir()
    place.rename(disk / "t")
    place.symlink_to("../../disk/t" if relative else disk / "t")
    assert catalog.table("db.t").count() == 1
    catalog.drop_table("db.t")
    assert not os.path.lexists(place)
    assert list(disk.iterdir()) == []
    assert catalog.list_tables("db") == []
    assert made(catalog).count() == 1
    assert not place.is_symlink()


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EBUSY, errno.EACCES])
def test_what_cannot_be_moved_is_dropped_where_it_is(tmp_path, monkeypatch, code):
    catalog = tidelake.open(tmp_path)
    rename = os.rename

    def refused(source, target, **kwargs):
        if STAGING_DIRECTORY in str(target):
            raise OSError(code, os.strerror(code))
        rename(source, target, **kwargs)

    monkeypatch.setattr(os, "rename", refused)
    made(catalog)
    catalog.drop_table("db.t")
    assert list((tmp_path / "db.db").iterdir()) == []
    made(catalog, "db.a")
    made(catalog, "db.b")
    with pytest.raises(InvalidInputError, match="holds 2 tables"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


def test_a_database_is_dropped_at_once_with_its_tables():
    files = MemoryFileIO()
    made(on(files), "db.a")
    made(on(files), "db.b")

    class Dies(FaultyFileIO):
        def delete_dir(self, path):
            raise SimulatedCrash(path)

    with pytest.raises(SimulatedCrash):
        on(Dies(files)).drop_database("db", cascade=True)
    assert on(files).list_databases() == []
    on(files).create_database("db")
    on(files).drop_database("db")
    assert names(files, STAGING) == []


def test_a_table_that_is_made_while_its_database_is_dropped_stays():
    files = MemoryFileIO()
    on(files).create_database("db")

    class Late(FaultyFileIO):
        def move_dir(self, source, target):
            if source == "/w/db.db":
                made(on(files))
            super().move_dir(source, target)

    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        on(Late(files)).drop_database("db")
    assert on(files).table("db.t").count() == 1


def test_files_that_cannot_be_deleted_are_named_and_tried_again():
    files = MemoryFileIO()
    made(on(files))

    class Stubborn(FaultyFileIO):
        def delete_dir(self, path):
            raise StorageError(f"Could not delete {path}.", path=path)

    with pytest.raises(StorageError, match=rf"Table 'db.t' is dropped, but .* delete {STAGING}"):
        on(Stubborn(files)).drop_table("db.t")
    assert on(files).list_tables("db") == []
    made(on(files), "db.u")
    on(files).drop_table("db.u")
    assert names(files, STAGING) == []


def test_a_database_that_comes_back_takes_no_place_of_what_was_made_meanwhile(tmp_path):
    """A table is made just before its directory is moved away, and one just after."""

    class Moving(LocalFileIO):
        def move_dir(self, source, target):
            if source.endswith("/db.db") and not moved:
                moved.append(source)
                made(other, "db.before", rows=1)
                super().move_dir(source, target)
                made(other, "db.after", rows=2)
            else:
                super().move_dir(source, target)

    moved = []
    catalog = tidelake.open(tmp_path / "w", fileio=Moving(Env.system().ids))
    other = tidelake.open(tmp_path / "w")
    catalog.create_database("db")
    with pytest.raises(InvalidInputError, match=r"holds 1 tables \(before\)"):
        catalog.drop_database("db")
    assert other.list_tables("db") == ["after", "before"]
    assert [other.table(f"db.{name}").count() for name in ("after", "before")] == [2, 1]
    assert list((tmp_path / "w" / STAGING_DIRECTORY).iterdir()) == []


def test_a_warehouse_within_a_database_of_another_is_refused(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    made(catalog, "db.t")
    inner = tidelake.open(tmp_path / "w" / "db.db" / "inner")
    with pytest.raises(InvalidInputError, match="a database of another warehouse") as refused:
        made(inner, "d.t")
    assert refused.value.kind == "warehouse_inside"


def test_a_drop_of_another_table_deletes_no_database_that_may_come_back():
    """A table is made just before the database is moved away, and a second drop runs just after."""
    files = MemoryFileIO()
    on(files).create_database("db")
    made(on(files), "other.t")

    class Late(FaultyFileIO):
        def move_dir(self, source, target):
            if source == "/w/db.db":
                made(on(files))
            super().move_dir(source, target)
            if source == "/w/db.db":
                on(files).drop_table("other.t")

    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        on(Late(files)).drop_database("db")
    assert on(files).table("db.t").count() == 1
    assert names(files, STAGING) == []


def test_an_interrupted_drop_of_a_database_moves_it_back():
    files = MemoryFileIO()
    made(on(files))

    class Interrupted(FaultyFileIO):
        def list_dir(self, path):
            if path.startswith(STAGING):
                raise KeyboardInterrupt
            return super().list_dir(path)

    with pytest.raises(KeyboardInterrupt):
        on(Interrupted(files)).drop_database("db", cascade=True)
    assert on(files).table("db.t").count() == 1


def test_what_comes_back_beside_a_taken_name_is_kept_and_named():
    """Two of three tables find their place free; the third is kept from all further drops."""
    files = MemoryFileIO()
    for name in "abc":
        made(on(files), f"db.{name}")
    dropped = DroppedDirectories(files, "/w", Env.seeded(next(SEEDS)).ids)
    moved = dropped.move("/w/db.db")
    made(on(files), "db.b", rows=2)
    made(on(files), "other.t")
    with pytest.raises(StorageError, match=rf"{moved} still holds b: ") as kept:
        dropped.restore(moved, "/w/db.db")
    assert kept.value.kind == "drop_undone"
    on(files).drop_table("other.t")
    assert [on(files).table(f"db.{name}").count() for name in "abc"] == [1, 2, 1]
    assert names(files, moved) == ["b"]
