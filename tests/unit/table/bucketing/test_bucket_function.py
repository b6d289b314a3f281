"""Tables whose rows find their buckets by another function than Paimon's own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake import InvalidInputError

COLUMNS = pa.schema({"k": pa.string(), "n": pa.int32(), "v": pa.string()})


@pytest.mark.parametrize(
    ("function", "keys"), [("hive", ["k"]), ("hive", ["k", "n"]), ("mod", ["n"])]
)
def test_rows_are_found_by_the_function_they_were_written_with(catalog, function, keys):
    table = catalog.create_table(
        "db.t",
        COLUMNS,
        primary_keys=keys,
        options={"bucket": 5, "bucket-function.type": function},
    )
    rows = [{"k": f"key{i}", "n": i - 20, "v": str(i)} for i in range(60)]
    table.write(rows)
    table.write(rows[:10])
    buckets = table.system_table("buckets").to_arrow().num_rows
    assert buckets == 5
    for row in rows:
        text = " AND ".join(f"{k} = {row[k]!r}" for k in keys)
        assert table.to_arrow(where=text).to_pylist() == [row]
    plan = table.plan(where=" AND ".join(f"{k} = {rows[0][k]!r}" for k in keys))
    assert plan.pruned["bucket"] > 0


def test_a_key_that_the_function_does_not_take_is_refused_when_the_table_is_made(catalog):
    for function, columns in (("mod", ["k"]), ("hive", ["ts"])):
        schema = pa.schema({"k": pa.string(), "ts": pa.timestamp("ms"), "v": pa.string()})
        with pytest.raises(InvalidInputError, match="bucket-function"):
            catalog.create_table(
                "db.t",
                schema,
                primary_keys=columns,
                options={"bucket": 2, "bucket-function.type": function},
            )
    assert catalog.list_databases() == []
