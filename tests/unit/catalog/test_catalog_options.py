"""Which kind of catalog is opened, and what it is told."""

import pickle

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError

SCHEMA = pa.schema({"k": pa.int64()})


@pytest.mark.parametrize(
    "catalog",
    [
        {},
        {"type": "filesystem"},
        {"type": "paimon"},
        {"type": "paimon", "metastore": "filesystem"},
        {"metastore": "filesystem"},
        {"metastore": "filesystem", "cache-enabled": "false"},
    ],
)
def test_a_warehouse_is_a_catalog_of_directories_unless_told_otherwise(tmp_path, catalog):
    opened = tidelake.open(tmp_path / "w", catalog=catalog)
    opened.create_table("db.t", SCHEMA)
    assert (tmp_path / "w/db.db/t/schema/schema-0").exists()
    assert repr(opened) == f"Catalog('{tmp_path}/w')"
    assert pickle.loads(pickle.dumps(opened)).list_tables("db") == ["t"]


def test_the_warehouse_and_defaults_of_tables_may_stand_among_the_options(tmp_path):
    given = {"warehouse": f"{tmp_path}/w", "table-default.bucket": 3}
    opened = tidelake.open(catalog=given, options={"table-default.bucket": 4})
    table = opened.create_table("db.t", SCHEMA, primary_keys=["k"])
    assert table.table_schema.options == {"bucket": "4"}
    with pytest.raises(InvalidInputError, match="given twice, as '/x' and as"):
        tidelake.open("/x", catalog=given)
    with pytest.raises(InvalidInputError, match="no 'warehouse'"):
        tidelake.open()


@pytest.mark.parametrize(
    ("catalog", "error", "says"),
    [
        ({"type": "filesystems"}, InvalidInputError, "Did you mean 'filesystem'"),
        ({"metastore": "hiv"}, InvalidInputError, "kind of catalog 'hiv'. Did you mean 'hive'"),
        ({"type": "filesystem", "metastore": "x"}, InvalidInputError, "give one"),
        ({"warehose": "/x"}, InvalidInputError, "Unknown .* 'warehose'. Did you mean 'warehouse'"),
        ({"uri": "jdbc:sqlite:/x"}, InvalidInputError, "Unknown catalog option 'uri'"),
        ({"table-default.bukcet": 1}, InvalidInputError, "Did you mean 'bucket'"),
    ],
)
def test_a_misspelt_kind_or_key_is_refused(tmp_path, catalog, error, says):
    with pytest.raises(error, match=says):
        tidelake.open(tmp_path, catalog=catalog)
