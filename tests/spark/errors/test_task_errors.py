"""What a user sees of an error in a task, or of a table that is gone when a DataFrame runs."""

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PythonException

from tidelake.errors import InvalidInputError

KEYED = "CREATE TABLE db.t (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1'"


def doors(lake, name):
    """DataFrames of a table by each door."""
    path = lake.catalog.table(name).paths.location
    return {
        "table": lake.table(name),
        "sql": lake.sql(f"SELECT v, id FROM {name}"),
        "spark.sql": lake.spark.sql(f"SELECT * FROM tidelake.{name}"),
        "format": lake.spark.read.format("tidelake").load(path),
    }


@pytest.fixture
def with_nulls(lake):
    """A table whose column became NOT NULL over stored nulls, as other engines let it."""
    lake.sql(f"CREATE DATABASE db; {KEYED})")
    lake.sql("INSERT INTO db.t VALUES (1, 'x'), (2, NULL); INSERT INTO db.t VALUES (1, 'y')")
    schemas = Path(lake.catalog.table("db.t").location) / "schema"
    changed = json.loads((schemas / "schema-0").read_text())
    changed["fields"][1]["type"] = "STRING NOT NULL"
    changed["id"] = 1
    del changed["tidelake.checksum"]
    (schemas / "schema-1").write_text(json.dumps(changed))
    return lake


def test_issue_36_an_error_of_a_task_is_told_by_its_message(with_nulls):
    table = with_nulls.catalog.table("db.t")
    with pytest.raises(InvalidInputError) as of_kernel:
        table.to_arrow()
    message = str(of_kernel.value)
    assert message.startswith(
        f"Column 'v' of table {table.paths.location} is NOT NULL, but its older file "
    )
    assert "ALTER COLUMN v DROP NOT NULL" in message
    for door, frame in doors(with_nulls, "db.t").items():
        with pytest.raises(PythonException) as refused:
            frame.collect()
        assert str(refused.value).splitlines() == [
            "An exception was thrown from the Python worker:",
            f"tidelake.errors.InvalidInputError: {message}",
        ], door


def test_an_error_of_a_users_own_task_keeps_its_traceback_beside_ours(with_nulls):
    with pytest.raises(PythonException):
        with_nulls.table("db.t").collect()
    failing = with_nulls.spark.range(4).mapInArrow(
        lambda batches: [1 // 0 for _ in batches], "i int"
    )
    with pytest.raises(PythonException, match=r"Traceback(.|\n)*ZeroDivisionError"):
        failing.collect()


@pytest.mark.parametrize("form", ["parquet", "orc"])  # which Spark scans, which workers read
def test_issue_36_a_dropped_table_is_named_by_the_dataframes_of_it(lake, form):
    lake.sql("CREATE DATABASE db")
    made = f"{KEYED}, 'file.format' = '{form}'); INSERT INTO db.t VALUES (1, 'x'), (2, 'y')"
    lake.sql(made)
    frames, location = doors(lake, "db.t"), lake.catalog.table("db.t").paths.location
    for again in (False, True):
        lake.sql(made if again else "DROP TABLE db.t")
        for door in ("table", "sql"):
            raised = IllegalArgumentException if form == "parquet" else PythonException
            with pytest.raises(raised, match=r"dropped|was deleted") as refused:
                frames[door].collect()
            text = str(refused.value)
            assert location in text
            assert len(text.splitlines()) < 3, text
        with pytest.raises(IllegalArgumentException, match=r"'db\.t' has no schema any more"):
            frames["spark.sql"].collect()
        if not again:
            with pytest.raises(
                AnalysisException, match=r"'db\.t' was dropped or renamed"
            ) as refused:
                frames["format"].collect()
            assert "Pickling" not in str(refused.value)
            assert len(str(refused.value).splitlines()) < 6
    assert sorted(lake.table("db.t").collect()) == [(1, "x"), (2, "y")]
