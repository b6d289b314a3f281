"""A partition of floats is found by its bytes: -0.0 is not 0.0, and NaN is NaN."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import tidelake


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_get_finds_the_partition_that_a_read_has(tmp_path, kind):
    catalog = tidelake.open(tmp_path / "warehouse")
    table = catalog.create_table(
        "db.t",
        {"p": kind, "k": "INT", "v": "STRING"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "1"},
    )
    partitions = [0.5, 0.0, -0.0, math.nan, math.inf]
    table.write([{"p": p, "k": 1, "v": str(p)} for p in partitions])
    assert sorted(r["v"] for r in table.to_arrow().to_pylist()) == sorted(map(str, partitions))
    wanted = [str(p) for p in partitions]
    with table.local_query(directory=tmp_path / "lookup") as query:
        assert [(query.get((p, 1)) or {}).get("v") for p in partitions] == wanted
        keys = [(p, 1) for p in partitions]
        assert [(row or {}).get("v") for row in query.get_many(keys)] == wanted
        batch = pa.table({"p": pa.array(partitions), "k": pa.array([1] * len(partitions))})
        assert query.get_many(batch).column("v").to_pylist() == wanted
        assert query.get((7.0, 1)) is None
