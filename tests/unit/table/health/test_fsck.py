"""What fsck finds: all damage that a read stumbles over, and nothing in sound tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from proving import damage
from proving.world import NAME, open_catalog
from sizes import FULL, SIZE

import tidelake
from tidelake.errors import TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.table.health import fsck

HISTORY = Path(__file__).parents[3] / "history"
PLACES = 40 if SIZE is FULL else 2
"""Damaged places of each kind of file."""
NEEDED = {"manifest-list-", "manifest-", "index-manifest-", "index-", "data-", damage.INDEX}
"""Files that something else names."""


def damaged(world, path, data):
    fileio = MemoryFileIO()
    for name, sound in world.files.items():
        content = data if name == path else sound
        if content is not None:
            fileio.write_once(name, content)
    return fileio


def is_found(fileio):
    try:
        return not open_catalog(fileio, 3).table(NAME).fsck(data=True).is_whole
    except TidelakeError:  # without its schema a table is not even opened
        return True


@pytest.mark.parametrize("name", damage.TABLES)
def test_what_a_read_stumbles_over_is_found(name):
    world = damage.sound_table(name)
    assert open_catalog(damaged(world, "", None), 3).table(NAME).fsck(data=True).is_whole
    found = 0
    for kind in damage.CHECKED:
        if kind.table != name:
            continue
        for path in world.of_kind(kind.begins)[:: max(1, len(world.of_kind(kind.begins)) - 1)]:
            sound = world.files[path]
            every = list(damage.damages(sound, step=max(1, len(sound) // PLACES)))
            some = every[:: 1 if SIZE is FULL else 2]
            gone = [("gone", None)] if kind.begins in NEEDED else []
            for what, data in [*some, *gone]:
                outcome = damage.check(world, path, what, data, has_checksums=kind.has_checksums)
                # reads do without an index of a file; one that is cut short is found all the same
                is_cut = kind.begins == damage.INDEX and len(data or b"") < len(sound)
                if outcome == "error" or is_cut:
                    assert is_found(damaged(world, path, data)), (path, what)
                    found += 1
    assert found, "some damage was met"


@pytest.mark.parametrize("release", sorted(p.name for p in HISTORY.iterdir() if p.is_dir()))
def test_tables_of_earlier_releases_are_whole(release):
    if not (HISTORY / release / "warehouse").is_dir():
        return
    catalog = tidelake.open(HISTORY / release / "warehouse")
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            report = catalog.table(f"{database}.{name}").fsck(data=True)
            assert report.is_whole, report


def test_tables_of_java_are_whole(oracle_dir):
    warehouse = oracle_dir / "fixtures" / "warehouse"
    catalog, checked = tidelake.open(warehouse), 0
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            report = catalog.table(f"{database}.{name}").fsck(data=True)
            assert report.is_whole, report
            checked += 1
    assert checked


@pytest.fixture
def table(tmp_path):
    """Three snapshots, the second one tagged."""
    columns = pa.schema({"k": pa.int64(), "v": pa.string()})
    made = tidelake.open(tmp_path).create_table(
        "db.t", columns, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for n in range(3):
        made.write([{"k": k, "v": f"{n}"} for k in range(n, n + 5)])
        if n == 1:
            made.tags.create("good")
    return made


def files_of(table, snapshot_id):
    versions = table.with_options({"scan.snapshot-id": snapshot_id})
    paths = versions.system_table("files").to_arrow()["file_path"].to_pylist()
    return [path if path.startswith("/") else f"{table.location}/{path}" for path in paths]


def test_a_lost_file_spoils_the_versions_that_name_it(table):
    [newest] = set(files_of(table, 3)) - set(files_of(table, 2))
    Path(newest).unlink()
    [problem] = table.fsck().problems
    assert (problem.kind, problem.snapshots, problem.tags) == ("data_file", (3,), ())
    assert table.fsck().whole == (1, 2)
    assert "the file is not there" in str(problem)
    oldest = files_of(table, 1)[0]
    Path(oldest).write_bytes(Path(oldest).read_bytes() + b"x")
    told = {p.path.rpartition("/")[2]: p for p in table.fsck().problems}
    assert told[Path(oldest).name].snapshots == (1, 2, 3)
    assert told[Path(oldest).name].tags == ("good",)


def test_a_repair_goes_back_to_the_newest_whole_snapshot(table):
    [newest] = set(files_of(table, 3)) - set(files_of(table, 2))
    Path(newest).unlink()
    plan = table.repair_plan()
    restore, _, back = plan.steps
    assert restore.remedy is None
    assert Path(newest).name in restore.what
    assert back.remedy.python == "table.rollback_to(2)"
    assert back.loses == "all that was committed after snapshot 2: 1 snapshots"
    eval(back.remedy.python, {"table": table})
    assert table.fsck(data=True).is_whole
    assert table.repair_plan().steps == ()
    assert len(table.to_arrow()) == 6


def test_lost_files_are_taken_out_of_the_newest_snapshot(table):
    [newest] = set(files_of(table, 3)) - set(files_of(table, 2))
    Path(newest).unlink()
    step = table.repair_plan().steps[1]
    assert (step.remedy.python, step.loses) == (
        "table.maintenance.remove_missing_files()",
        "the rows of 1 file",
    )
    eval(step.remedy.python, {"table": table})
    assert len(table.to_arrow()) == 6
    assert table.latest_snapshot_id in table.fsck(data=True).whole


def test_a_damaged_tag_and_hint_have_their_steps(table, tmp_path):
    (tmp_path / "db.db" / "t" / "tag" / "tag-good").write_bytes(b"{")
    (tmp_path / "db.db" / "t" / "snapshot" / "EARLIEST").write_bytes(b"zz")
    plan = table.repair_plan()
    assert {p.kind for p in plan.report.problems} == {"tag", "hint"}
    for step in plan.steps:
        if step.remedy is not None:
            eval(step.remedy.python, {"table": table})
    assert table.fsck().is_whole, table.fsck()


def test_an_old_snapshot_that_is_damaged_is_left(table):
    first = Path(files_of(table, 1)[0])
    table.compact(full=True)
    first.unlink()
    table.tags.delete("good")
    plan = table.repair_plan()
    assert [s.remedy for s in plan.steps] == [None, None]
    assert "Snapshots 1 to 3 cannot be read; the newest can" in plan.steps[-1].what
    shutil.rmtree(first.parent)
    assert "No snapshot can be read" in repr(table.repair_plan())


def test_what_expires_meanwhile_is_no_problem(monkeypatch):
    catalog = tidelake.open("/warehouse", fileio=MemoryFileIO())
    table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}), primary_keys=["k"])
    for k in range(6):
        table.write([{"k": k}])
    looks = []
    check_version = fsck._check_version

    def check(*given, **more):
        looks.append(given[1])
        if len(looks) == 2:  # commits go on, and what was listed expires
            for k in range(3):
                table.write([{"k": k}])
            table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
        check_version(*given, **more)

    monkeypatch.setattr(fsck, "_check_version", check)
    assert table.fsck(data=True).is_whole
    looks.clear()
    table.write([{"k": 1}])
    assert table.repair_plan().steps == ()


def test_a_tag_needs_no_changelog(tmp_path):
    """It went when the snapshot expired, as in Paimon; a tag keeps the rows."""
    table = tidelake.open(tmp_path).create_table(
        "db.t", {"k": "INT"}, primary_keys=["k"], options={"changelog-producer": "input"}
    )
    for k in range(3):
        table.write([{"k": k}])
    table.tags.create("first", snapshot_id=1)
    assert table.fsck(data=True).is_whole
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert table.fsck(data=True).problems == ()
