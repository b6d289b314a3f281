"""Commits of Spark expire snapshots and partitions and make tags, as those of the kernel do."""

from __future__ import annotations

from datetime import date

import pytest

import tidelake.spark

OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.expire.limit": "10",
    "partition.expiration-time": "30 d",
    "partition.expiration-check-interval": "0 s",
    "tag.automatic-creation": "process-time",
}
ROWS = [("2020-01-01", 1), ("9999-12-31", 2)]
COMMITS = 3


def by_kernel(lake, table, _):
    table.write([{"day": day, "k": k} for day, k in ROWS])


def by_frame(lake, table, _):
    lake.write(lake.spark.createDataFrame(ROWS, "day STRING, k BIGINT"), table.identifier)


def by_sql(lake, table, _):
    lake.sql(f"INSERT INTO {table.identifier} VALUES ('2020-01-01', 1), ('9999-12-31', 2)")


def by_stream(lake, table, tmp_path):
    lake.sql("INSERT INTO default.source VALUES ('2020-01-01', 1), ('9999-12-31', 2)")
    frame = lake.read_stream("default.source")
    given = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"}
    lake.write_stream(frame, table.identifier, **given).awaitTermination()


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    made = tidelake.spark.attach(spark, tmp_path_factory.mktemp("upkeep"), catalog="upkeep")
    made.sql("CREATE TABLE default.source (day STRING, k BIGINT)")
    return made


@pytest.mark.parametrize("write", [by_kernel, by_frame, by_sql, by_stream])
def test_each_writer_keeps_the_table_as_its_options_say(lake, write, tmp_path):
    name = f"default.{write.__name__}"
    columns = {"day": "STRING", "k": "BIGINT"}
    table = lake.catalog.create_table(name, columns, partition_keys=["day"], options=OPTIONS)
    began = date.today()
    for _ in range(COMMITS):
        write(lake, table, tmp_path)
    midnights = (date.today() - began).days
    # each commit of rows is followed by one that drops the old partition
    kept = table.system_table("snapshots").to_arrow()
    held = 1 if write is by_stream else 0  # a query holds its last commit while it makes the next
    first = 2 * (COMMITS - held) - 1
    assert kept["snapshot_id"].to_pylist() == list(range(first, 2 * COMMITS + 1))
    assert kept["commit_kind"].to_pylist() == ["APPEND", "OVERWRITE"] * (1 + held)
    assert {row["day"] for row in table.to_arrow().to_pylist()} == {"9999-12-31"}
    tagged = [tag.snapshot_id for tag in table.tags.list()]
    assert min(tagged) == 1
    assert len(tagged) in {1, 1 + midnights}  # a day that begins meanwhile ends one, with its tag
