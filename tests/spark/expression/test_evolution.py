"""Altered tables as DataFrames: old and new files together, natively where Spark casts alike."""

from __future__ import annotations

import pytest

from tidelake import (
    AddColumn,
    DropColumn,
    InvalidInputError,
    Position,
    RenameColumn,
    UpdateColumnType,
)

FRAME = "SELECT id AS k, CAST(id AS INT) AS i, CAST(id AS STRING) AS s, 'x' AS gone FROM range(9)"


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("keys", [[], ["k"]])
def test_an_altered_table_reads_and_writes_as_it_is_now(spark, lake, keys):
    frame = spark.sql(FRAME)
    lake.create_table("db.t", frame, primary_keys=keys, options={"bucket": 1} if keys else {})
    lake.write(frame, "db.t")
    lake.alter_table(
        "db.t",
        [
            RenameColumn("i", "wide"),
            UpdateColumnType("wide", "BIGINT"),
            UpdateColumnType("s", "TINYINT"),
            DropColumn("gone"),
            AddColumn("new", "STRING", None, Position.after("k")),
        ],
    )
    old = [(k, None, k, k) for k in range(9)]
    assert rows(lake.table("db.t")) == old
    added = spark.sql("SELECT 20 AS k, 'n' AS new, 5000000000 AS wide, 3 AS s")
    lake.write(added, "db.t")
    both = [*old, (20, "n", 5_000_000_000, 3)]
    assert rows(lake.table("db.t")) == both
    assert rows(lake.table("db.t", where="s = 3")) == [both[3], both[-1]]
    assert rows(lake.table("db.t", columns=["wide"], where="new IS NULL AND wide > 6")) == [
        (7,), (8,)
    ]  # fmt: skip
    assert rows(spark.read.format("tidelake").load(lake.catalog.table("db.t").paths.location)) == (
        both
    )
    assert lake.table("db.t", snapshot_id=1).columns == ["k", "i", "s", "gone"]
    assert rows(lake.table("db.t", snapshot_id=1))[4] == (4, 4, "4", "x")
    with pytest.raises(InvalidInputError, match="'i'"):
        lake.write(frame, "db.t")
    lake.catalog.table("db.t").compact(full=True)
    assert rows(lake.table("db.t")) == both
