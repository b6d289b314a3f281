"""Tables of ORC and Avro files, of several formats, and with file indexes, as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tidelake import AddColumn, DropColumn, RenameColumn, UpdateColumnType

TYPES = """
SELECT id AS k, id % 2 = 0 AS flag,
       tinyint(id - 20) AS i8, smallint(id * 800) AS i16, int(id * 50000000) AS i32,
       IF(id = 0, -9223372036854775807, id) AS i64,
       IF(id = 1, float('NaN'), float(id) / 3) AS f, IF(id = 2, -0D, double(id) / 7) AS d,
       CAST(id / 4 AS decimal(9, 2)) AS small,
       CAST(concat(id, '9999999999999999999999.125') AS decimal(38, 3)) AS large,
       concat('tä', id) AS s, binary(concat('b', id)) AS b,
       DATE'1969-12-01' + int(id) AS day,
       -- an ORC file that Java reads right holds no parts of a second before 1970
       TIMESTAMP_NTZ'1960-01-01 00:00:00'
         + make_dt_interval(int(id) * 800, 1, 2, IF(id < 5, 3.0, 3.123456)) AS at,
       TIMESTAMP'2024-03-10 01:59:59.5-05:00' + make_dt_interval(int(id)) AS instant,
       IF(id % 5 = 0, NULL, transform(sequence(1, id % 4), i -> IF(i = 2, NULL, i * id))) AS list,
       map(concat('k', id), named_struct('x', id, 'at', DATE'2024-01-01' + int(id))) AS m,
       IF(id % 7 = 0, NULL, named_struct('a', id, 'deep', array(named_struct('b', id)))) AS r,
       IF(id % 3 = 0, NULL, id) AS n
FROM range(40)
"""


def shown(frame):
    """Rows as text; a map has one entry, so its order does not matter."""
    return sorted(frame.select(F.to_json(F.struct("*")).alias("j")).toArrow()["j"].to_pylist())


def suffixes(table):
    return {path.suffix for path in Path(table.paths.location).rglob("data-*")}


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_rows_of_every_type_go_in_and_come_out(spark, lake, file_format):
    frame = spark.sql(TYPES)
    wanted = shown(frame)
    options = {"bucket": 2, "file.format": file_format}
    table = lake.create_table("db.t", frame, primary_keys=["k"], options=options)
    lake.write(frame, "db.t")
    assert suffixes(table.handle) == {f".{file_format}"}
    assert shown(lake.table("db.t")) == wanted
    lake.write(frame.where("k < 10").withColumn("_row_kind", F.lit("-D")), "db.t")
    lake.write(frame.where("k >= 5 AND k < 20"), "db.t")
    left = lake.table("db.t", columns=["k", "s", "r"], where="n IS NOT NULL AND day < '1970-01-01'")
    assert shown(left) == shown(
        frame.where("k >= 5 AND n IS NOT NULL AND day < '1970-01-01'").select("k", "s", "r")
    )
    source = spark.read.format("tidelake").load(table.handle.paths.location)
    assert shown(source.where("k = 7")) == shown(frame.where("k = 7"))
    assert table.to_arrow().num_rows == 35


def test_levels_of_several_formats_without_copies_of_keys(spark, lake):
    """A large Parquet run that Spark scans, under newer Avro files that the kernel merges."""
    frame = spark.range(300).selectExpr("id AS k", "concat('v', id) AS v", "0 AS n")
    options = {
        "bucket": 2,
        "file.format": "parquet",
        "file.format.per.level": "0:avro,3:orc",
        "data-file.thin-mode": "true",
    }
    table = lake.create_table("db.t", frame, primary_keys=["k"], options=options)
    lake.write(frame.where("k % 2 = 0").withColumn("n", F.lit(9)), "db.t")
    lake.write(frame, "db.t")
    table.compact(full=True)  # one run, written anew: a single file would only be lifted
    lake.write(frame.where("k % 10 = 3").withColumn("n", F.lit(1)), "db.t")
    lake.write(frame.where("k < 50").withColumn("_row_kind", F.lit("-D")), "db.t")
    assert suffixes(table.handle) == {".parquet", ".avro"}
    found = lake.table("db.t")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" in plan
    want = [(k, f"v{k}", int(k % 10 == 3)) for k in range(50, 300)]
    assert sorted(map(tuple, found.collect())) == want
    assert lake.table("db.t", where="n = 1 AND k > 100").count() == 20
    assert lake.table("db.t", snapshot_id=1).count() == 150


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_from_before_an_alter_are_read_as_the_table_is_now(spark, lake, file_format):
    frame = spark.sql(
        "SELECT id AS k, int(id) AS i, string(id) AS s, 'x' AS gone,"
        " named_struct('a', id, 'b', string(id)) AS r FROM range(9)"
    )
    options = {"bucket": 1, "file.format": file_format}
    lake.create_table("db.t", frame, primary_keys=["k"], options=options)
    lake.write(frame, "db.t")
    lake.alter_table(
        "db.t",
        [
            RenameColumn("i", "wide"),
            UpdateColumnType("wide", "BIGINT"),
            UpdateColumnType("s", "TINYINT"),
            DropColumn("gone"),
            AddColumn("gone", "DATE"),
            RenameColumn(("r", "a"), "c"),
            AddColumn(("r", "a"), "STRING"),
        ],
    )
    changed = spark.sql(
        "SELECT 8L AS k, 5000000000 AS wide, tinyint(3) AS s, DATE'2024-01-01' AS gone,"
        " named_struct('c', 1L, 'b', 'y', 'a', 'new') AS r"
    )
    lake.write(changed, "db.t")
    old = "id AS k", "id AS wide", "tinyint(id) AS s", "CAST(NULL AS date) AS gone"
    struct = "named_struct('c', id, 'b', string(id), 'a', CAST(NULL AS string)) AS r"
    expected = spark.range(8).selectExpr(*old, struct).unionAll(changed)
    columns = ["k", "wide", "s", "gone", "r"]
    assert shown(lake.table("db.t", columns=columns)) == shown(expected)
    assert lake.table("db.t", where="wide > 6 AND gone IS NULL").count() == 1
    assert shown(lake.table("db.t", snapshot_id=1)) == shown(frame)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_an_index_rules_files_out_so_that_nobody_opens_them(spark, lake, file_format):
    frame = spark.range(0, 400, 1, 4).selectExpr(
        "id AS k", "concat('name-', id) AS name", "concat('kind-', int(id / 200)) AS kind"
    )
    options = {
        "file.format": file_format,
        "file-index.bloom-filter.columns": "name",
        "file-index.bloom-filter.name.items": "1000",
        "file-index.bloom-filter.name.fpp": "0.001",
        "file-index.bitmap.columns": "kind",
        "metadata.stats-mode": "none",
    }
    table = lake.create_table("db.t", frame, options=options)
    lake.write(frame, "db.t")
    assert table.system_table("file_indexes").to_arrow().num_rows == 8
    plan = table.plan(where="name = 'name-333'")
    (kept,) = (file for split in plan.splits for file in split.files)
    assert plan.pruned == {"file index": 3}
    for path in Path(table.handle.paths.location).rglob("data-*"):
        if path.suffix == f".{file_format}" and path.name != kept.file_name:
            path.unlink()
    assert lake.table("db.t", where="name = 'name-333'").first()["k"] == 333
    source = spark.read.format("tidelake").load(table.handle.paths.location)
    assert source.where("name = 'name-333' AND kind = 'kind-1'").count() == 1
    assert lake.table("db.t", where="kind = 'kind-7'").collect() == []
    with pytest.raises(Exception, match=r"data-|FILE_NOT_EXIST|no such file"):
        lake.table("db.t", where="name = 'name-1'").collect()
