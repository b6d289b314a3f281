"""An assigner of dynamic buckets, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.codec.bucket import hash_rows
from tidelake.errors import ConflictError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import CommitMessage
from tidelake.metadata.index_entry import HASH, IndexChange, IndexFile
from tidelake.spark.write.dynamic_bucket_assigner import (
    HASH_COLUMN,
    AssignTask,
    check_one_bucket_per_key,
)


def test_hashes_that_are_not_the_kernels_are_refused():
    catalog = tidelake.open("/lake", fileio=MemoryFileIO())
    rows = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table("d.t", rows.schema, primary_keys=["k"], options={"bucket": "-1"})
    task = AssignTask.of(table.handle, assigners=1, base_snapshot_id=None)
    [batch] = rows.to_batches()
    hashes = hash_rows(batch.columns, [table.handle.schema.field("k").type])

    def assigned(values) -> list[int]:
        given = batch.append_column(HASH_COLUMN, pa.array(values, pa.int32()))
        [(_, buckets, _)] = task.assign(iter([given]))
        return buckets.tolist()

    assert assigned(hashes) == [0, 0, 0]
    with pytest.raises(UnsupportedError, match="differently from Tidelake"):
        assigned((hashes + 1).tolist())


def test_a_key_in_two_buckets_is_found_without_a_look_into_the_files():
    catalog = tidelake.open("/lake", fileio=MemoryFileIO())
    handle = catalog.create_table(
        "d.t", {"k": "int64"}, primary_keys=["k"], options={"bucket": "-1"}
    ).handle

    def message(bucket: int, *added: int) -> CommitMessage:
        file = IndexFile(HASH, f"missing-{bucket}", 40, 10)
        told = b"".join(h.to_bytes(4, "little") for h in added)
        return CommitMessage(b"", bucket, -1, index=IndexChange(1, file, 7, told))

    check_one_bucket_per_key(handle, [message(0, 1, 2), message(1, 3)])
    with pytest.raises(ConflictError, match="two buckets"):
        check_one_bucket_per_key(handle, [message(0, 1, 2), message(1, 2)])
