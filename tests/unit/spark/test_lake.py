"""Rows that are in this process are written here; no Spark job runs."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark import lake as lake_module
from tidelake.spark.lake import Lake

ROWS = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A lake whose session nobody may ask for more than whether it runs, and its options."""
    monkeypatch.setattr(lake_module, "is_stopped", lambda spark: False)
    monkeypatch.setattr(
        lake_module,
        "in_session",
        lambda spark, table, options: table.with_options(options or {}),
    )
    return Lake(None, tidelake.open(tmp_path))


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, list, iter],
    ids=["pandas", "polars", "arrow", "dicts", "generator"],
)
def test_local_rows_are_written_in_one_commit(lake, make):
    lake.create_table("db.t", {"k": "bigint", "v": "STRING"}, primary_keys=["k"])
    result = lake.write(make(ROWS), "db.t")
    assert (result.rows, len(result.snapshot_ids)) == (2, 1)
    lake.write(make(ROWS[:1]), "db.t", "overwrite", commit_user="me", commit_identifier=1)
    again = lake.write(make(ROWS), "db.t", commit_user="me", commit_identifier=1)
    assert again.already_committed
    assert lake.catalog.table("db.t").to_arrow().to_pylist() == ROWS[:1]


@pytest.mark.parametrize("schema", [pd.DataFrame(ROWS), pl.DataFrame(ROWS), pa.table({"k": [1]})])
def test_a_table_is_made_of_a_local_frame(lake, schema):
    table = lake.create_table("db.t", schema)
    assert table.table_schema.field("k").type == tidelake.types.parse_type("BIGINT")


@pytest.mark.parametrize(
    "more", [{"tasks": 2}, {"options": {"write.merge-schema": "true"}}], ids=["tasks", "merge"]
)
def test_what_needs_a_dataframe_says_so(lake, more):
    lake.create_table("db.t", pd.DataFrame(ROWS))
    with pytest.raises(UnsupportedError, match="createDataFrame"):
        lake.write(pd.DataFrame(ROWS), "db.t", **more)


def test_a_lake_shows_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(lake_module, "is_stopped", lambda spark: True)
    lake = Lake(None, tidelake.open(tmp_path / "a&b"))
    assert "stopped" in lake._repr_html_()
    assert "a&amp;b" in lake._repr_html_()


@pytest.mark.parametrize("spark", [None, "local[2]", 3])
def test_attach_takes_a_session(spark, tmp_path):
    with pytest.raises(InvalidInputError, match="A SparkSession is expected"):
        lake_module.attach(spark, tmp_path)


def test_a_missing_pyspark_is_named_with_what_to_install():
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import tidelake\n"
        "try:\n    import tidelake.spark\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, tidelake.UnsupportedError)\n"
        "    print(error.kind, error)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    wanted = "library_missing tidelake.spark needs PySpark: pip install 'tidelake[spark]'."
    assert answer.stdout.strip() == wanted


def test_a_new_column_is_refused_with_how_to_add_it(lake):
    lake.create_table("db.t", {"k": "bigint"}, primary_keys=["k"])
    lake.catalog.table("db.t").alter(tidelake.SetOption("write.merge-schema", "true"))
    with pytest.raises(InvalidInputError, match=r"db\.t ADD COLUMN\. .* 'write\.merge-schema'"):
        lake.catalog.table("db.t").write(ROWS)
