"""Batches that processes of their own commit belong to one run of a query."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from proving.expiring import ALL, make

from tidelake import ConflictError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.streams.write.batch_claim import RETAINED_MS, SILENCE_MS, claim_batch
from tidelake.spark.streams.write.checkpoint import RUN_FILE, Checkpoint
from tidelake.table.stream import StreamLease

QUERY = "6f1c"


@pytest.fixture
def table():
    made = make(MemoryFileIO())
    for number in range(3):
        made.write([{"k": number, "v": 0, "p": "a"}], commit_user=QUERY, commit_identifier=number)
    return made


@pytest.fixture
def folder(tmp_path):
    """A checkpoint in a folder, perhaps with what another one holds."""

    def made(name, like=None):
        path = tmp_path / name
        if like is None:
            path.mkdir()
        else:
            shutil.copytree(like.folder.path, path)
        return Checkpoint.of(path, table="db.t")

    return made


def claim(table, checkpoint):
    claim_batch(table.handle, checkpoint, QUERY)


def log_of(table):
    return ConsumerLog(table.fileio, table.handle.paths)


def refused(table, checkpoint):
    with pytest.raises(ConflictError, match="copy of the checkpoint") as error:
        claim(table, checkpoint)
    assert error.value.kind == "stream_runs_already"
    return True


def test_a_run_knows_its_lease_again_in_the_next_process(table, folder):
    checkpoint = folder("a")
    for _ in range(3):
        claim(table, checkpoint)
        table.handle.env.clock.sleep_ms(2 * SILENCE_MS)  # also after a long rest
    assert log_of(table).newest_term(f"sink-{QUERY}") == 1


def test_a_copy_is_refused_beside_a_live_run(table, folder):
    first = folder("a")
    claim(table, first)
    copy = folder("b", like=first)
    assert refused(table, copy)
    claim(table, first)
    assert refused(table, copy)


def test_a_run_that_a_copy_followed_commits_no_more(table, folder):
    first = folder("a")
    claim(table, first)
    copy = folder("b", like=first)
    table.handle.env.clock.sleep_ms(SILENCE_MS)
    claim(table, copy)
    table.handle.env.clock.sleep_ms(SILENCE_MS)
    assert refused(table, first)
    claim(table, copy)
    moved = folder("c", like=copy)
    table.handle.env.clock.sleep_ms(SILENCE_MS)
    claim(table, moved)


def test_a_killed_jvm_is_followed_at_once(table, folder, monkeypatch):
    first = folder("a")
    claim(table, first)
    log = log_of(table)
    lease = log.lease(f"sink-{QUERY}")
    here, _, _ = lease.process.rpartition("/")
    with log.open_dir() as place:
        log.write_lease(replace(lease, process=f"{here}/0"), within=place)  # another boot's number
    claim(table, folder("b", like=first))


def test_write_stream_and_the_data_source_exclude_each_other(table, folder):
    checkpoint = folder("a")
    with StreamLease.open(table.handle, f"sink-{QUERY}", 4, run_id="r"):
        assert refused(table, checkpoint)
    claim(table, checkpoint)
    with pytest.raises(ConflictError):
        StreamLease.open(table.handle, f"sink-{QUERY}", 4, run_id="s")
    table.handle.env.clock.sleep_ms(SILENCE_MS)
    StreamLease.open(table.handle, f"sink-{QUERY}", 4, run_id="s").close()
    claim(table, checkpoint)  # in turn, in one folder


def test_the_newest_commit_is_held_until_a_later_one_and_for_a_week(table, folder):
    checkpoint = folder("a")
    claim(table, checkpoint)  # batch 3 comes, behind the commit of batch 2
    table.write([{"k": 3, "v": 0, "p": "a"}], commit_user=QUERY, commit_identifier=3)
    for number in range(3):
        table.write([{"k": number, "v": 0, "p": "a"}])
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)
    claim(table, checkpoint)
    assert table.maintenance.expire_snapshots(**ALL).ids == (3,)
    claim(table, checkpoint)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()
    table.write([{"k": 9, "v": 0, "p": "a"}])
    table.handle.env.clock.sleep_ms(SILENCE_MS + RETAINED_MS + 1)
    table.maintenance.expire_snapshots(**ALL)
    assert log_of(table).states() == {}
    claim(table, checkpoint)
    assert json.loads((checkpoint.folder.path / RUN_FILE).read_text())["term"] == 2


def test_a_torn_file_of_the_run_makes_it_a_new_one(table, folder):
    checkpoint = folder("a")
    claim(table, checkpoint)
    (checkpoint.folder.path / RUN_FILE).write_text("{")
    assert refused(table, checkpoint)
    table.handle.env.clock.sleep_ms(SILENCE_MS)
    claim(table, checkpoint)
