"""A maintenance job on Spark: the driver plans and commits, executors compact large plans."""

from __future__ import annotations

from unittest import mock

import pytest

from tidelake.errors import NotFoundError
from tidelake.spark.write import maintenance
from tidelake.spark.write.runner import SparkRunner

SCHEMA = "k int, v bigint"


def make(lake, name, **options):
    lake.create_table(
        name, SCHEMA, primary_keys=["k"], options={"bucket": 2, "write-only": True, **options}
    )
    table = lake.catalog.table(name)
    for v in range(6):
        table.write([{"k": k, "v": v} for k in range(20)])
    return table


def test_one_round_compacts_and_expires_on_spark(spark, lake):
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2}
    table, waiting = make(lake, "db.t", **options), make(lake, "db.p", bucket=-2)
    assert waiting.count() == 0
    with (
        mock.patch.object(maintenance, "DRIVER_BYTES_MAX", 0),
        mock.patch.object(SparkRunner, "run", autospec=True, side_effect=SparkRunner.run) as run,
    ):
        done = lake.maintain("db.*", rounds=1, tasks=2)
    assert run.call_count > 0
    assert not done.errors
    assert {(one.table, str(task.task)) for one in done.tables for task in one.tasks} == {
        ("db.t", "compaction"),
        ("db.t", "snapshots"),
        ("db.p", "compaction"),
    }
    assert lake.catalog.table("db.t$files").to_arrow().num_rows == 2
    assert sorted((r["k"], r["v"]) for r in table.to_arrow().to_pylist()) == [
        (k, 5) for k in range(20)
    ]
    assert waiting.count() == 20
    assert lake.maintain("db.*", dry_run=True)[0].tasks == ()
    with pytest.raises(NotFoundError):
        lake.maintain("db.none", rounds=1)


def test_the_procedures_run_on_executors(spark, lake):
    make(lake, "db.t")
    rows = lake.sql("CALL sys.compact_database(including_tables => 'db[.]t')").collect()
    assert rows[0]["result"] == "Compact database finished. Success: 1, Failed: 0"
    assert lake.catalog.table("db.t$files").to_arrow().num_rows == 2
    rows = lake.sql("CALL sys.maintain(tables => 'db.*')").collect()
    assert [row["error"] for row in rows if row["error"]] == []
