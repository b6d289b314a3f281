"""Moving rows out of the postpone bucket, the executors' parts called without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.scan import Split, split_to_bytes
from tidelake.spark.write.postpone_compaction import WaitingTask
from tidelake.spark.write.write_task import TaskAnswer, WriteTask, write_task
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.postpone_compaction import (
    MovedRows,
    postponed_partitions,
    with_real_buckets,
)
from tidelake.table.write.transaction import WriteTransaction

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": -2})
    table.write([{"k": k, "v": "first"} for k in range(5)])
    table.write([{"k": 1, "v": "second"}, {"k": 2, "v": None}], row_kinds=["+U", "-D"])
    return table


def test_rows_are_read_numbered_and_written_into_real_buckets(table):
    handle = table.handle
    partitions = postponed_partitions(handle, handle.snapshots.latest(), Chosen())
    blobs = tuple(
        split_to_bytes(Split(0, p.partition, -1, -1, (((f,),),), raw=True))
        for p in partitions
        for f in p.waiting
    )
    real = with_real_buckets(handle, 3)
    task = WaitingTask(real.read_context())
    rows = pa.Table.from_batches(b for share in enumerate(blobs) for b in task.batches(share))
    assert rows["_tidelake_file"].to_pylist() == [0] * 5 + [1] * 2
    assert rows["_tidelake_row"].to_pylist() == [*range(5), *range(2)]
    assert rows["_row_kind"].to_pylist() == [0] * 5 + [2, 3]
    given = rows.drop_columns(["_tidelake_file", "_tidelake_row"]).to_batches()
    write = write_task(WriteTask.of(real, user=""))
    answer = TaskAnswer.gather([r for b in write(iter(given)) for r in b.to_pylist()])
    assert answer.errors == ()
    transaction = WriteTransaction(handle)
    moved = transaction.take(MovedRows(handle, partitions))
    moved.at(real).add(answer.messages, rows_count=7)
    assert moved.commit(transaction).rows == 7
    found = sorted((r["k"], r["v"]) for r in table.to_arrow().to_pylist())
    assert found == [(0, "first"), (1, "second"), (3, "first"), (4, "first")]
    assert set(table.system_table("buckets").to_arrow()["bucket"].to_pylist()) <= {0, 1, 2}
