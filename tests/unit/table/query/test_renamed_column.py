"""A renamed column keeps its lookup files, also where the old name is still open."""

from __future__ import annotations

import pyarrow as pa

import tidelake


def test_a_renamed_column_has_its_values_beside_a_query_by_the_old_name(tmp_path):
    catalog = tidelake.open(tmp_path / "warehouse")
    schema = pa.schema({"id": pa.int64(), "v": pa.string()})
    table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "v": "a"}])
    with table.local_query(directory=tmp_path / "lookup") as old:
        assert old.get(1) == {"id": 1, "v": "a"}
        renamed = table.rename_column("v", "value")
        with renamed.local_query(directory=tmp_path / "lookup") as new:
            assert new.get(1) == {"id": 1, "value": "a"}
            assert new.stats.builds == old.stats.builds
        assert old.get(1) == {"id": 1, "v": "a"}


def test_a_nested_field_that_was_dropped_and_added_again_is_null_in_older_rows(tmp_path):
    catalog = tidelake.open(tmp_path / "warehouse")
    columns = {"id": "INT", "r": "ROW<a INT, b INT>"}
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "r": {"a": 1, "b": 2}}])
    with table.local_query(directory=tmp_path / "lookup") as before:
        assert before.get(1) == {"id": 1, "r": {"a": 1, "b": 2}}
    table = table.drop_column(["r", "b"]).add_column(["r", "b"], "INT")
    rows = table.to_arrow().to_pylist()
    assert rows == [{"id": 1, "r": {"a": 1, "b": None}}]
    with table.local_query(directory=tmp_path / "lookup") as after:
        assert [after.get(1)] == rows == after.get_many([1])
