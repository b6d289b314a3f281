"""Drawn DELETE, UPDATE and MERGE: by `tl.sql`, by `spark.sql` and on a list of rows."""

from __future__ import annotations

import random

import pytest
from proving import dml, doors
from sizes import SIZE

LAYOUTS = {
    "append": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')",
    "marked": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keyed, marked": (
        "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    ),
    "partitioned": "PARTITIONED BY (part)",
}


def shown(rows):
    """In one order; NaN is equal to itself, and a decimal is its number."""
    made = [{c: row[c] for c in ("k", "v", "m", "d", "s")} for row in rows]
    for row in made:
        row["m"] = None if row["m"] is None else f"{row['m']:.2f}"
    return sorted(map(repr, made))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_doors_and_a_list_of_rows_agree(spark, lake, layout):
    rng = random.Random(f"dml {layout}")
    others = rng.sample(range(dml.KEYS), 8)
    spark.createDataFrame([(k,) for k in others], "id long").createOrReplaceTempView("others")
    rows = dml.some_rows(rng, 14)
    columns, extra = dml.COLUMNS, ""
    if layout == "partitioned":
        columns, extra = f"{columns}, part INT", ", 1 AS part"
    for name in ("one", "two"):
        spark.sql(f"CREATE TABLE tidelake.default.{name} ({columns}) {LAYOUTS[layout]}")
        table = lake.catalog.table(f"default.{name}")
        table.write([{**row, "part": 1} if extra else row for row in rows])
    done = 0
    while done < SIZE.dml_statements:
        text, rows = dml.some_statement(rng, rows, others, extra)
        for name, door in zip(("one", "two"), doors.DOORS, strict=True):
            doors.run(lake, text.format(t=name), door)
            found = lake.catalog.table(f"default.{name}").to_arrow().to_pylist()
            assert shown(found) == shown(rows), (door, text)
        done += 1
