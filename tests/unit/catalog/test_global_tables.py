"""System tables of the whole catalog, in a database that is not on disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError, UnsupportedError

SCHEMA = pa.schema({"k": pa.int64()})


@pytest.fixture
def catalog(tmp_path):
    opened = tidelake.open(tmp_path / "w", options={"table-default.file.format": "orc"})
    opened.create_table("b.t", SCHEMA, primary_keys=["k"], options={"bucket": 2})
    opened.create_table("a.u", SCHEMA)
    return opened


def test_every_option_that_a_table_sets_is_shown(catalog):
    rows = [
        tuple(r.values()) for r in catalog.table("sys.all_table_options").to_arrow().to_pylist()
    ]
    assert rows == [
        ("a", "u", "file.format", "orc"),
        ("b", "t", "bucket", "2"),
        ("b", "t", "file.format", "orc"),
    ]
    one = catalog.table("sys.all_table_options").to_arrow(columns=["value"], where="key = 'bucket'")
    assert one.to_pylist() == [{"value": "2"}]


def test_the_catalog_s_own_options_are_shown(catalog, tmp_path):
    assert catalog.table("sys.catalog_options").to_arrow().to_pylist() == [
        {"key": "table-default.file.format", "value": "orc"},
        {"key": "warehouse", "value": str(tmp_path / "w")},
    ]


def test_the_database_is_not_on_disk(catalog):
    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("sys") == ["all_table_options", "catalog_options"]
    with pytest.raises(NotFoundError, match=r"sys\.catalog_option'.*Did you mean"):
        catalog.table("sys.catalog_option")
    for use in (
        lambda: catalog.create_database("sys"),
        lambda: catalog.create_table("sys.t", SCHEMA),
        lambda: catalog.drop_database("sys"),
        lambda: catalog.drop_table("sys.catalog_options"),
    ):
        with pytest.raises(InvalidInputError, match="'sys' is the catalog's own"):
            use()


def test_they_are_only_read_and_of_no_moment(catalog):
    table = catalog.table("sys.catalog_options")
    with pytest.raises(UnsupportedError, match="is a system table"):
        table.write([{"k": 1}])
    with pytest.raises(InvalidInputError, match="does not show one moment"):
        table.to_arrow(snapshot_id=1)
    assert repr(table).startswith("System table sys.catalog_options, 2 rows")
