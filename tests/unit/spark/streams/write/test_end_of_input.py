"""What a query notes of the partitions that it wrote, and whether it has come to its end."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

import tidelake
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.end_of_input import PARTITIONS_FILE, EndOfInput


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path / "lake")
    columns = pa.schema({"day": pa.string(), "k": pa.int64()})
    options = {"partition.end-input-to-done": "true"}
    return catalog.create_table("db.t", columns, partition_keys=["day"], options=options)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    return Checkpoint.of(tmp_path / "checkpoint", table="db.t")


def wrote(table, checkpoint, days="xy"):
    """The end of a query after its batch 0, which Spark has not noted as done."""
    rows = [{"day": day, "k": 1} for day in days]
    table.write(rows, commit_user="stream", commit_identifier=1)
    end = EndOfInput(table.handle, checkpoint, {"availableNow": True})
    end.wrote(SimpleNamespace(snapshot_id=table.handle.snapshots.latest_id()))
    note(checkpoint, "offsets/0")
    return end


def note(checkpoint, name):
    path = checkpoint.folder.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("v1")


def done(table):
    found = (entry.name for entry in table.fileio.list_dir(table.location))
    days = (name for name in found if name.startswith("day="))
    return sorted(d for d in days if table.fileio.exists(f"{table.location}/{d}/_SUCCESS"))


def test_a_query_that_was_stopped_amid_a_batch_is_not_at_its_end(table, checkpoint):
    end = wrote(table, checkpoint)
    end.ended()
    assert done(table) == []
    note(checkpoint, "commits/0")
    note(checkpoint, "offsets/.1.crc")
    EndOfInput(table.handle, checkpoint, {"once": True}).ended()
    assert done(table) == ["day=x", "day=y"]


@pytest.mark.parametrize("gone", ["snapshot", "manifest"])
def test_a_batch_that_expired_is_not_noted(table, checkpoint, gone):
    wrote(table, checkpoint)
    before = checkpoint.folder.read(PARTITIONS_FILE)
    snapshot = table.handle.snapshots.latest()
    of_snapshot = table.paths.snapshot(snapshot.id)
    of_list = f"{table.location}/manifest/{snapshot.delta_manifest_list}"
    opened = tidelake.open(table.location.rsplit("/", 2)[0]).table("db.t")
    table.fileio.delete(of_snapshot if gone == "snapshot" else of_list)
    end = EndOfInput(opened.handle, checkpoint, {"once": True})
    end.wrote(SimpleNamespace(snapshot_id=snapshot.id))
    assert checkpoint.folder.read(PARTITIONS_FILE) == before
