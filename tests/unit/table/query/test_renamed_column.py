"""Columns that are renamed, retyped, dropped and added again, and lookup files made before."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError


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


@pytest.mark.parametrize(
    ("before", "path", "after", "old", "new"),
    [
        ("INT", "v", "BIGINT", 1, 1 << 40),
        ("ROW<a INT>", ["v", "a"], "BIGINT", {"a": 1}, {"a": 1 << 40}),
    ],
)
def test_a_column_of_another_type_is_never_cast_back(tmp_path, before, path, after, old, new):
    catalog = tidelake.open(tmp_path / "warehouse")
    columns = {"id": "INT", "v": before}
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "v": old}])
    with table.local_query(directory=tmp_path / "lookup") as query:
        assert query.get(1) == {"id": 1, "v": old}
        retyped = table.retype_column(path, after)
        assert query.refresh() == 1, "nothing was written with it yet"
        retyped.write([{"id": 1, "v": new}])
        with pytest.raises(InvalidInputError, match="open a new one") as failure:
            query.refresh()
        assert failure.value.kind == "table_altered"
        assert (query.snapshot_id, query.get(1)) == (1, {"id": 1, "v": old})
        with retyped.local_query(directory=tmp_path / "lookup") as again:
            assert again.get(1) == {"id": 1, "v": new}


def test_a_query_goes_on_when_nested_fields_come_and_go(tmp_path):
    catalog = tidelake.open(tmp_path / "warehouse")
    columns = {"id": "INT", "r": "ROW<a INT, b INT>"}
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "r": {"a": 1, "b": 2}}])
    with table.local_query(directory=tmp_path / "lookup") as query:
        assert query.get(1) == {"id": 1, "r": {"a": 1, "b": 2}}
        table = table.drop_column(["r", "b"]).add_column(["r", "c"], "STRING")
        table.write([{"id": 1, "r": {"a": 3, "c": "x"}}])
        query.refresh()
        assert query.get(1) == {"id": 1, "r": {"a": 3, "b": None}}
