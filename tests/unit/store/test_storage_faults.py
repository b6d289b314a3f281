"""Writers on a failing storage: nothing is doubled, and nothing is deleted before a commit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from unit.store.bucket_world import Bucket, kinds, schema_of, upserts

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_ROW
from tidelake.store import LsmBucketWriter, MemoryBudget, StoreContext
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash


def history(bucket: Bucket) -> dict[tuple[int], tuple[int, str, int]]:
    """Commits with compactions in between; the rows that must be there."""
    model = {}
    for value in range(5):
        writer = bucket.writer()
        keys = range(value, value + 6)
        writer.write(bucket.batch(upserts(keys, value)))
        writer.write(bucket.batch(upserts([value], value)), kinds(3))
        model |= {(k,): (k, f"name{k}", value) for k in keys}
        model.pop((value,))
        bucket.commit(writer.prepare_commit())
    return model


def test_nothing_is_deleted_or_replaced_before_the_writer_is_closed():
    storage = FaultyFileIO(MemoryFileIO())
    bucket = Bucket(schema_of(options={"num-sorted-run.compaction-trigger": "2"}), fileio=storage)
    model = history(bucket)
    assert bucket.rows() == model
    operations = {entry.op for entry in storage.trace}
    assert operations & {"delete", "delete_dir", "replace"} == set()


@pytest.mark.parametrize("mode", [FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER, FaultMode.ENOSPC])
def test_a_failed_flush_can_be_tried_again_or_given_up_wherever_it_failed(mode):
    options = {"num-sorted-run.compaction-trigger": "2"}
    clean = FaultyFileIO(MemoryFileIO())
    history(Bucket(schema_of(options=options), fileio=clean))
    tried = 0
    for call in range(1, len(clean.trace) + 1):
        storage = FaultyFileIO(MemoryFileIO(), {call: mode})
        bucket = Bucket(schema_of(options=options), fileio=storage)
        model: dict[tuple[int], tuple[int, str, int]] = {}
        for value in range(5):
            writer = bucket.writer()
            keys = range(value, value + 6)
            writer.write(bucket.batch(upserts(keys, value)))
            writer.write(bucket.batch(upserts([value], value)), kinds(3))
            model |= {(k,): (k, f"name{k}", value) for k in keys}
            model.pop((value,))
            try:
                message = writer.prepare_commit()
            except StorageError:
                tried += 1
                if call % 2:
                    writer.close()
                    writer = bucket.writer()
                    writer.write(bucket.batch(upserts(keys, value)))
                    writer.write(bucket.batch(upserts([value], value)), kinds(3))
                message = writer.prepare_commit()
            bucket.commit(message)
            writer.close()
        assert bucket.rows() == model, call
        assert {f.file_name for f in bucket.live} <= bucket.data_files()
    assert tried > 5


def test_after_a_crash_the_committed_files_are_all_there():
    options = {"num-sorted-run.compaction-trigger": "2"}
    clean = FaultyFileIO(MemoryFileIO())
    history(Bucket(schema_of(options=options), fileio=clean))
    for call in range(1, len(clean.trace) + 1, 3):
        memory = MemoryFileIO()
        bucket = Bucket(
            schema_of(options=options), fileio=FaultyFileIO(memory, {call: FaultMode.CRASH_AFTER})
        )
        with pytest.raises(SimulatedCrash):
            history(bucket)
        bucket.fileio = memory
        values = {row[2] for row in bucket.rows().values()}
        assert values <= set(range(5))
        assert {f.file_name for f in bucket.live} <= bucket.data_files()


def test_hundreds_of_buckets_stay_inside_one_budget(tmp_path: Path):
    buckets_count, rows_per_batch = 300, 3_000
    bucket = Bucket(schema_of(options={"write-only": "true"}), spill_dir=str(tmp_path))
    context = StoreContext(
        bucket.fileio,
        bucket.context.paths,
        bucket.schema,
        bucket.context.options,
        bucket.env,
        str(tmp_path),
    )
    partition = serialize_row([], [])
    assert partition == EMPTY_ROW
    writers = [
        LsmBucketWriter(context, partition, b, total_buckets=buckets_count, live_files=())
        for b in range(buckets_count)
    ]
    budget = MemoryBudget(256 << 10)
    rng = np.random.default_rng(11)
    peak, batch_bytes, spills, reliefs = 0, 0, 0, 0
    for part in range(40):
        keys = rng.integers(0, 20_000, rows_per_batch)
        batch = bucket.batch(upserts(keys.tolist(), part))
        batch_bytes = max(batch_bytes, batch.nbytes + 16 * rows_per_batch)
        for b in np.unique(keys % buckets_count):
            rows = np.flatnonzero(keys % buckets_count == b)
            writers[b].write(batch.take(rows))
        held = {b: w.buffered_bytes for b, w in enumerate(writers)}
        peak = max(peak, sum(held.values()))
        for b, size_bytes in budget.victims(held, reliefs=reliefs):
            writers[b].spill(size_bytes)
            spills += 1
        reliefs += sum(held.values()) > budget.limit_bytes
        assert sum(w.buffered_bytes for w in writers) <= budget.limit_bytes
    assert spills > buckets_count
    assert peak <= budget.limit_bytes + batch_bytes * 1.2  # small batches round their buffers up
    rows = 0
    for b, writer in enumerate(writers):
        [file] = writer.prepare_commit().new_files
        rows += file.row_count
        path = context.paths.data_file(partition, b, file)
        assert bucket.fileio.size(path) == file.file_size_bytes
    assert list(tmp_path.iterdir()) == []
    assert 19_000 < rows <= 20_000
