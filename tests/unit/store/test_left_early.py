"""A read that is left early ends at once: an interrupt that comes meanwhile reaches the caller."""

from __future__ import annotations

import pytest
from unit.store.bucket_world import Bucket, schema_of, upserts

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.scan import read as scan_read
from tidelake.store.append import bucket_writer
from tidelake.store.lsm import read_file
from tidelake.store.lsm.read_file import BucketReader
from tidelake.telemetry import Env


def interrupted(files, read, *, ahead, **_):
    """Give the first file; an interrupt comes while the others' opening is ended."""
    try:
        for file in files:
            yield file, read(file, ahead)
    finally:
        raise KeyboardInterrupt


def closed_after_one(batches):
    assert next(batches).num_rows
    with pytest.raises(KeyboardInterrupt):
        batches.close()


def test_of_a_split(monkeypatch):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    table = catalog.create_table("db.t", {"k": "BIGINT"})
    for k in range(2):
        table.write([{"k": k}])
    [split] = table.plan().splits
    monkeypatch.setattr(scan_read, "files_in_turn", interrupted)
    context = table.handle.read_context()
    closed_after_one(scan_read.read_split(context, split, columns=["k"], predicate=None))


def test_of_a_bucket(monkeypatch):
    bucket = Bucket(schema_of())
    for value in range(2):
        writer = bucket.writer()
        writer.write(bucket.batch(upserts(range(3), value)))
        bucket.commit(writer.prepare_commit())
    monkeypatch.setattr(read_file, "files_in_turn", interrupted)
    reader = BucketReader(bucket.context, bucket.path, lambda _: ())
    closed_after_one(reader.physical_batches(bucket.live, bucket.schema.fields, 1 << 20))


def test_of_a_compaction(monkeypatch):
    bucket = Bucket(schema_of((("id", "BIGINT"),), primary_keys=()))
    for value in range(2):
        writer = bucket.writer()
        writer.write(bucket.batch([(value,)]))
        bucket.commit(writer.prepare_commit())

    def full(*_):
        raise OSError("no space")

    writer = bucket.writer()
    monkeypatch.setattr(bucket_writer, "files_in_turn", interrupted)
    monkeypatch.setattr(bucket_writer.RollingWriter, "write", full)
    with pytest.raises(KeyboardInterrupt):
        writer.compact_part([file.file_name for file in bucket.live])
