"""Checkpoints in a storage of Hadoop's: read by the class, and with the settings, that Spark has.

``viewfs`` stands for the stores: Spark has its class, and its files are local ones. What ``s3a``
and HDFS do is tried on MinIO and on a name node by ``make stores``.
"""

from __future__ import annotations

import itertools

import pytest

import tidelake.spark
from tidelake.errors import InvalidInputError, StorageError, UnsupportedError
from tidelake.spark.streams.write.checkpoint import MARK_FILE, Checkpoint, SinkMark, check_mark

NUMBERS = itertools.count()
ODD = "a b+ü#%20'{1}z"
MARK = SinkMark("default.t", 1, "append", 0)


@pytest.fixture
def place(spark, tmp_path):
    """A URI and the directory behind it."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    table = f"lake{next(NUMBERS)}"  # Hadoop keeps a file system for each
    (tmp_path / "store").mkdir()
    conf.set(f"fs.viewfs.mounttable.{table}.link./ck", (tmp_path / "store").as_uri())
    return f"viewfs://{table}/ck", tmp_path / "store"


@pytest.fixture
def lake(spark, tmp_path):
    opened = tidelake.spark.attach(spark, tmp_path / "lake", catalog="remote")
    opened.create_table("default.s", "k bigint")
    opened.create_table("default.t", "k bigint")
    return opened


def rows(lake):
    return sorted(row[0] for row in lake.table("default.t").collect())


def test_a_stream_goes_on_from_a_checkpoint_in_a_store_and_writes_no_batch_twice(lake, place):
    uri, directory = place
    source = lake.catalog.table("default.s")

    def run(**given):
        query = lake.write_stream(
            lake.read_stream("default.s"),
            "default.t",
            **{"checkpoint": f"{uri}/{ODD}/", "trigger": "availableNow", **given},
        )
        query.awaitTermination(60)
        return query

    source.write([{"k": 1}])
    first = run()
    assert rows(lake) == [1]
    assert (directory / ODD / MARK_FILE).exists()
    assert first._sink.run.wait(60)
    source.write([{"k": 2}])
    second = run()
    assert (rows(lake), second.id) == ([1, 2], first.id)
    assert second._sink.run.wait(60)
    (directory / ODD / "commits" / "1").unlink()  # as if the driver had died before Spark's note
    (directory / ODD / "commits" / ".1.crc").unlink(missing_ok=True)
    third = run()
    assert third._sink.last_result.already_committed
    assert rows(lake) == [1, 2]
    with pytest.raises(InvalidInputError, match="in mode 'append', not 'complete'"):
        run(mode="complete")


def test_a_job_of_sql_has_its_checkpoint_in_a_store(lake, place):
    uri, directory = place
    lake.sql("INSERT INTO s VALUES (7)")
    lake.sql("SET 'execution.runtime-mode' = 'streaming'")
    lake.sql(f"SET 'execution.checkpointing.dir' = '{uri}/jobs'")
    lake.sql("SET 'pipeline.name' = 'a+ü #job%20'")
    lake.sql("INSERT INTO t SELECT * FROM s")
    (job,) = lake.jobs()
    try:
        while rows(lake) != [7]:
            assert job.status == "RUNNING"
    finally:
        job.stop()
    assert (directory / "jobs" / "a+ü #job%20" / "metadata").exists()


def test_a_folder_in_a_store_is_read_and_written(spark, place):
    uri, directory = place
    checkpoint = Checkpoint.of(f"{uri}/c", table="default.t", spark=spark)
    folder = checkpoint.folder
    assert (checkpoint.query_id(), checkpoint.mark(), checkpoint.has_batches) == (None, None, False)
    assert folder.names("offsets") == []
    assert checkpoint.put_mark(MARK)
    assert not checkpoint.put_mark(SinkMark("default.other", 1, "append", 0))
    assert checkpoint.mark() == MARK
    left = [found.name for found in (directory / "c").iterdir() if found.suffix != ".crc"]
    assert left == [MARK_FILE], "nothing hidden stays"
    folder.replace("offsets/0", 'v1\n{"batchWatermarkMs": 7}\n0')
    folder.replace("offsets/.1.tmp", "")
    assert sorted(folder.names("offsets")) == [".1.tmp", "0"]
    assert checkpoint.watermark_before(0) == 7
    with pytest.raises(InvalidInputError, match=f"The checkpoint {uri}/c belongs to"):
        check_mark(checkpoint, SinkMark("default.other", 1, "append", 0))
    folder.remove("offsets/0")
    folder.remove("offsets/0")
    checkpoint.remove_torn_start()
    assert folder.names("offsets") == []
    (directory / "c" / "metadata").write_bytes(b"\xff")
    with pytest.raises(StorageError, match=f"The checkpoint {uri}/c cannot be read: "):
        checkpoint.query_id()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("s3://bucket/c", r"has none for 's3a' \(hadoop-aws\) on its class path"),
        ("az://box/c", r"abfs://container@account.dfs.core.windows.net \(hadoop-azure\)"),
        ("nowhere://x/c", "has none for 'nowhere' on its class path"),
    ],
)
def test_a_storage_without_a_class_is_refused_before_anything_starts(lake, given, said):
    with pytest.raises(UnsupportedError, match=said) as refused:
        lake.write_stream(lake.read_stream("default.s"), "default.t", checkpoint=given)
    assert refused.value.kind == "checkpoint_storage"
