"""Orphan files on Spark: executors list the directories, the driver decides."""

from __future__ import annotations

import os
import time

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark.write import orphan_listing

LEFT = "p=3/bucket-0/data-of-a-writer-that-was-killed.parquet"


@pytest.fixture
def left(lake):
    """An orphan in a table of eight partitions."""
    lake.create_table("db.t", "p int, k int", partition_keys=["p"])
    table = lake.catalog.table("db.t")
    table.write([{"p": p, "k": p} for p in range(8)])
    path = f"{table.paths.location}/{LEFT}"
    table.fileio.write_once(path, b"half a file")
    os.utime(path, (0, 0))
    return path


def test_executors_find_what_this_process_finds(lake, left, monkeypatch):
    monkeypatch.setattr(orphan_listing, "DIRECTORIES_PER_TASK", 2)
    here = lake.catalog.remove_orphan_files("db.t", dry_run=True).tables[0]
    there = lake.remove_orphan_files("db.*", dry_run=True, parallelism=3).tables[0]
    assert there.files.equals(here.files)
    assert there.files["path"].to_pylist() == [LEFT]
    with pytest.raises(InvalidInputError, match="parallelism"):
        lake.remove_orphan_files("db.t", parallelism=0)


def test_the_procedure_removes_by_both_doors(spark, lake, left):
    call = "CALL {}.remove_orphan_files(table => 'db.t', mode => 'distributed', parallelism => 2"
    first = lake.sql(f"{call.format('sys')})").collect()[0]
    assert (first["deletedFileCount"], first["quarantinedFileCount"]) == (0, 1)
    time.sleep(0.05)
    older = int(time.time() * 1000) - 20
    second = lake.sql(f"{call.format('sys')}, older_than => {older})").collect()[0]
    assert (second["deletedFileCount"], second["deletedFileTotalLenInBytes"]) == (1, 11)
    assert not os.path.exists(left)
    assert lake.table("db.t").count() == 8
