"""Real processes: a race to commit; writers killed, forked and interrupted at random moments."""

import os
from pathlib import Path

import pytest
from proving import aborts, forks, kill, race, soak
from sizes import SIZE

import tidelake


@pytest.fixture(autouse=True)
def _children_find_the_modules(monkeypatch):
    root = Path(__file__).parents[2]
    path = [str(root / "tests"), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


def test_four_racing_processes_lose_and_double_nothing(tmp_path):
    commits = SIZE.race_commits
    figures = race.race(tmp_path, processes=4, commits=commits, options={"bucket": "4"})
    assert figures["commits"] == commits


def test_no_commit_is_lost_when_processes_race_in_an_object_store(tmp_path, s3):
    """Each process is told the keys by its environment; the store is this process's."""
    commits = SIZE.store_race_commits
    figures = race.race(
        tmp_path,
        processes=4,
        commits=commits,
        options={"bucket": "1", "num-sorted-run.compaction-trigger": "20"},
        warehouse="s3://lake/house",
        storage=s3.storage(),
    )
    assert figures["commits"] == commits
    assert s3.uploads == []


def test_killed_writers_lose_nothing_in_an_object_store(tmp_path, s3):
    count = max(2, SIZE.kills // 5)
    figures = kill.kills(
        tmp_path, count=count, seed=8, warehouse="s3://lake/house", storage=s3.storage()
    )
    assert figures["kills"] == count


def test_killed_writers_lose_nothing_they_acknowledged(tmp_path):
    figures = kill.kills(tmp_path, count=SIZE.kills, seed=7)
    assert figures["kills"] == SIZE.kills
    assert figures["commits"] > 0


def test_forked_children_hang_nowhere_and_lose_nothing(tmp_path):
    figures = forks.forks(tmp_path, count=SIZE.forks, seed=7)
    assert figures["forks"] == SIZE.forks


def test_interrupted_work_leaves_no_file_behind(tmp_path):
    figures = aborts.aborts(tmp_path, count=SIZE.aborts, seed=7)
    assert figures["interrupted"] > figures["of_them_while_published"]


def test_racing_processes_put_no_key_into_two_dynamic_buckets(tmp_path):
    options = {"dynamic-bucket.target-row-num": "5"}
    figures = race.race(tmp_path, processes=4, commits=40, options=options)
    assert figures["commits"] == 40


def test_processes_that_do_everything_leave_whole_commits_in_an_object_store(tmp_path, s3):
    """Fewer of them: the store is this process."""
    s3.keeps_requests = False
    seconds = max(4, SIZE.soak_s // 2) if SIZE.soak_s > 60 else 4
    figures = soak.soak(tmp_path, seconds=seconds, seed=7, processes=3, s3=s3)
    assert figures["reader"]["snapshots"] > 0
    assert s3.uploads == []


def test_processes_that_do_everything_leave_whole_commits(tmp_path):
    figures = soak.soak(tmp_path, seconds=SIZE.soak_s, seed=7)
    assert figures["done"]["upsert"] > 0
    assert figures["reader"]["snapshots"] > 0


def test_a_soak_that_fails_shows_what_the_table_has(tmp_path):
    catalog = tidelake.open(str(tmp_path))
    soak.create(catalog, "log")
    table = catalog.table("db.log")
    table.write(soak.rows_of_block(1, "1-1"))
    table.tags.create("one")
    lists = table.paths.manifest_dir
    for status in table.fileio.list_dir(lists):
        table.fileio.delete(f"{lists}/{status.name}")
    reader = soak.Reader(str(tmp_path), soak.PlainFiles())
    [watch] = [one for one in reader.watches if one.name == "log"]
    with pytest.raises(soak.SoakViolation) as caught, soak._showing(reader, watch):
        soak._judge_told(watch, reader, [])
    said = str(caught.value)
    for word in ("log: its newest snapshot, 1, cannot be read", "snapshot-1", "tag-one", "LATEST"):
        assert word in said
    assert f"made at {table.handle.schema.time_ms} ms" in said
    assert "manifest-list" in said
