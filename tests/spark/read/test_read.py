from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake import SetOption, col
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.types import DataField, parse_type

# of what Spark makes of plans, as users have them
pytestmark = pytest.mark.usefixtures("production_conf")

PATTERN = "SELECT id AS k, id % 4 AS p, concat('v', id) AS v, id * 1.5D AS x FROM range({n})"


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def half_merged(spark, lake):
    """A table in which some buckets are raw and others must be merged."""
    frame = spark.sql(PATTERN.format(n=200))
    lake.create_table(
        "db.t", frame, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": 1}
    )
    lake.write(frame, "db.t")
    lake.write(frame.where("p = 2").selectExpr("k", "p", "'new' AS v", "x"), "db.t")
    return frame


def test_raw_files_are_scanned_by_spark_and_others_merged(lake, half_merged):
    assert "MapInArrow" not in plan_of(lake.table("db.t"))  # under a mask
    lake.catalog.alter_table("db.t", [SetOption("read.mask-cache-size", "0")])
    plan = plan_of(lake.table("db.t"))
    assert "parquet" in plan
    assert "MapInArrow" in plan
    assert "MapInArrow" not in plan_of(lake.table("db.t", where="p = 1"))
    assert "parquet" not in plan_of(lake.table("db.t", where="p = 2"))


def test_a_lone_run_with_deletes_is_scanned_by_spark(spark, lake):
    frame = spark.sql("SELECT id AS k, IF(id % 2 = 0, '-D', '+I') AS _row_kind FROM range(10)")
    lake.create_table("db.t", "k bigint", primary_keys=["k"], options={"bucket": 1})
    lake.write(frame, "db.t")
    found = lake.table("db.t", where="k < 6")
    assert "MapInArrow" not in plan_of(found)
    assert sorted(row.k for row in found.collect()) == [1, 3, 5]


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_rows_that_deletion_vectors_name_are_not_read(spark, lake, bitmap64):
    frame = spark.sql(PATTERN.format(n=400)).repartition(1)
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bitmap64}
    lake.create_table("db.t", frame, partition_keys=["p"], options=options)
    lake.write(frame, "db.t")
    table = lake.catalog.table("db.t")
    assert table.delete("p = 2 and k < 100 or p = 3 and v = 'v7'").rows == 26
    found = lake.table("db.t")
    left = [k for k in range(400) if not (k % 4 == 2 and k < 100) and k != 7]
    assert sorted(row.k for row in found.collect()) == left
    assert found.count() == len(left)
    assert lake.table("db.t", columns=["x"], where="k < 10").count() == 7
    plan = plan_of(found)
    assert "row_index" in plan
    assert "MapInArrow" not in plan
    assert "row_index" not in plan_of(lake.table("db.t", where="p < 2"))
    lake.write(frame.where("k < 8"), "db.t")
    assert lake.table("db.t").count() == len(left) + 8
    assert table.compact(full=True).compactions_dropped == 0
    assert "MapInArrow" not in plan_of(lake.table("db.t"))
    assert lake.table("db.t").count() == len(left) + 8


def test_both_halves_give_their_rows_once(lake, half_merged):
    found = sorted(tuple(row) for row in lake.table("db.t").collect())
    expected = [(k, k % 4, "new" if k % 4 == 2 else f"v{k}", k * 1.5) for k in range(200)]
    assert found == expected
    assert lake.table("db.t").count() == 200


def test_only_wanted_columns_are_read(lake, half_merged):
    frame = lake.table("db.t", columns=["v", "k"])
    assert frame.columns == ["v", "k"]
    assert "x:double" not in plan_of(frame)
    assert {(row.v, row.k) for row in frame.collect()} == {
        ("new" if k % 4 == 2 else f"v{k}", k) for k in range(200)
    }


def test_a_column_of_the_filter_need_not_be_wanted(lake, half_merged):
    frame = lake.table("db.t", columns=["k"], where="x > 150 AND v LIKE 'v1%'")
    expected = {k for k in range(101, 200) if k % 4 != 2 and f"v{k}".startswith("v1")}
    assert {row.k for row in frame.collect()} == expected
    assert frame.columns == ["k"]


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "condition",
    [
        "k >= 10 AND k < 20",
        "k IN (1, 2, 3, 999) OR v = 'new'",
        "NOT (x <= 250)",
        "v LIKE 'v19%'",
        "p = 2 AND v <> 'new'",
        "k IS NULL",
        "v IS NOT NULL AND k BETWEEN 5 AND 8",
    ],
)
def test_filters_agree_with_sparks(lake, half_merged, condition):
    pushed = sorted(tuple(r) for r in lake.table("db.t", where=condition).collect())
    plain = sorted(tuple(r) for r in lake.table("db.t").where(condition).collect())
    assert pushed == plain


def test_filters_may_be_built_of_columns_or_tuples(lake, half_merged):
    by_column = lake.table("db.t", where=(col("k") > 5) & (col("k") < 8))
    by_tuples = lake.table("db.t", where=[("k", ">", 5), ("k", "<", 8)])
    assert (
        {row.k for row in by_column.collect()} == {row.k for row in by_tuples.collect()} == {6, 7}
    )


def test_sparks_own_operations_work_on_top(lake, half_merged):
    found = lake.table("db.t").groupBy("p").agg(F.sum("k"), F.count("*")).orderBy("p").collect()
    assert [tuple(r) for r in found] == [(p, sum(range(p, 200, 4)), 50) for p in range(4)]
    joined = lake.table("db.t").join(lake.table("db.t", where="k < 10"), "k")
    assert joined.count() == 10


def test_time_travel(spark, lake, half_merged):
    table = lake.catalog.table("db.t")
    first = (
        table.history().to_pylist()[0]
        if hasattr(table.history(), "to_pylist")
        else table.history()[0]
    )
    assert lake.table("db.t", snapshot_id=1, where="p = 2").where("v = 'new'").count() == 0
    assert lake.table("db.t", where="p = 2").where("v = 'new'").count() == 50
    with pytest.raises(NotFoundError, match="99"):
        lake.table("db.t", snapshot_id=99)
    with pytest.raises(NotFoundError):
        lake.table("db.t", tag="nope")
    del first


def test_a_frame_keeps_its_snapshot(lake, half_merged):
    before = lake.table("db.t")
    lake.write(half_merged.limit(10).selectExpr("k + 1000 AS k", "p", "v", "x"), "db.t")
    assert before.count() == 200
    assert lake.table("db.t").count() == 210


def test_an_empty_table_is_an_empty_frame(spark, lake):
    lake.create_table("db.t", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    frame = lake.table("db.t", columns=["v"])
    assert (frame.count(), frame.columns) == (0, ["v"])


def test_system_tables_are_frames(lake, half_merged):
    files = lake.table("db.t$files")
    assert files.count() == 5
    levels = [row.level for row in files.collect()]
    top = lake.table("db.t$files", columns=["level", "bucket"], where=f"level = {max(levels)}")
    assert top.columns == ["level", "bucket"]
    assert [row.level for row in top.collect()] == [max(levels)] * levels.count(max(levels))
    assert 0 < lake.table("db.t$files", snapshot_id=1).count() < 5
    first = lake.table("db.t$files", options={"scan.snapshot-id": 1})
    assert first.count() == lake.table("db.t$files", snapshot_id=1).count()
    with pytest.raises(NotFoundError, match="Did you mean 'bucket'"):
        lake.table("db.t$files", columns=["buckets"])
    keys = {row.key for row in lake.table("sys.all_table_options").collect()}
    assert "bucket" in keys


def test_unknown_names_are_refused_with_near_ones(lake, half_merged):
    with pytest.raises(NotFoundError, match=r"'db.t'|'t'"):
        lake.table("db.tt")
    with pytest.raises(NotFoundError, match=r"'v'|columns are"):
        lake.table("db.t", columns=["vv"])
    with pytest.raises(InvalidInputError, match="at least one"):
        lake.table("db.t", columns=[])


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["[a]", "_b", "c*", "{d}", "e f#%20"])
def test_directories_that_spark_would_take_for_patterns(spark, tmp_path, name):
    import tidelake.spark

    lake = tidelake.spark.attach(spark, tmp_path / name)
    frame = spark.range(20).selectExpr("id AS k", "id AS v")
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 2})
    lake.write(frame, "db.t")
    assert lake.table("db.t").count() == 20


TYPE_TEXTS = {
    "f_boolean": ("BOOLEAN", [True, False, None]),
    "f_tinyint": ("TINYINT", [-128, 127, None]),
    "f_smallint": ("SMALLINT", [-32768, 32767, None]),
    "f_int": ("INT", [-(2**31), 2**31 - 1, None]),
    "f_float": ("FLOAT", [1.5, -math.inf, None]),
    "f_double": ("DOUBLE", [1e300, math.inf, None]),
    "f_decimal": ("DECIMAL(9, 3)", [Decimal("1.234"), Decimal("-999999.999"), None]),
    "f_decimal18": ("DECIMAL(18, 2)", [Decimal("0.01"), Decimal("-1.00"), None]),
    "f_decimal38": ("DECIMAL(38, 10)", [Decimal("12345678901234567890.1234567891"), None, None]),
    "f_char": ("CHAR(5)", ["abc", "", None]),
    "f_varchar": ("VARCHAR(5)", ["日本", "é", None]),
    "f_string": ("STRING", ["x" * 100, "", None]),
    "f_binary": ("BINARY(3)", [b"\0\1\2", b"abc", None]),
    "f_bytes": ("BYTES", [b"\xff" * 20, b"", None]),
    "f_date": ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "f_time": ("TIME(3)", [dt.time(0, 0), dt.time(23, 59, 59, 999000), None]),
    "f_ts0": (
        "TIMESTAMP(0)",
        [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2026, 3, 8, 2, 30), None],
    ),
    "f_ts3": (
        "TIMESTAMP(3)",
        [dt.datetime(1600, 1, 1, 0, 0, 0, 1000), dt.datetime(2026, 3, 8, 2, 30), None],
    ),
    "f_ts6": (
        "TIMESTAMP(6)",
        [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(2026, 3, 8, 2, 30, 0, 7), None],
    ),
    "f_ltz3": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        [
            dt.datetime(2026, 3, 8, 7, 30, tzinfo=dt.UTC),
            dt.datetime(1883, 11, 18, tzinfo=dt.UTC),
            None,
        ],
    ),
    "f_ltz6": (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [
            dt.datetime(2026, 11, 1, 5, 30, 0, 1, tzinfo=dt.UTC),
            dt.datetime(1500, 1, 1, tzinfo=dt.UTC),
            None,
        ],
    ),
}


@pytest.fixture(params=["native", "merged"])
def typed(request, lake):
    """One column of each type; rows written without Spark."""
    fields = [DataField(0, "k", parse_type("INT NOT NULL"))]
    fields += [
        DataField(i, name, parse_type(text))
        for i, (name, (text, _)) in enumerate(TYPE_TEXTS.items(), start=1)
    ]
    table = lake.catalog.create_table("db.t", fields, primary_keys=["k"], options={"bucket": 1})
    data = {"k": [0, 1, 2]} | {name: values for name, (_, values) in TYPE_TEXTS.items()}
    rows = pa.table(
        {f.name: pa.array(data[f.name], table.schema.field(f.name).type) for f in fields}
    )
    table.write(rows)
    if request.param == "merged":
        table.write(rows.slice(0, 1))
    return table


def test_values_of_every_type_are_the_kernels(spark, lake, typed):
    expected = sorted(typed.to_arrow().to_pylist(), key=lambda r: r["k"])
    for name in TYPE_TEXTS:
        text = name.startswith("f_ltz")
        frame = lake.table("db.t", columns=["k", name]).orderBy("k")
        if text:
            # as micros: Python would show them in the zone of this machine
            found = [row[0] for row in frame.select(F.unix_micros(name)).collect()]
            epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
            micros = dt.timedelta(microseconds=1)
            wanted = [None if r[name] is None else (r[name] - epoch) // micros for r in expected]
        else:
            found = [row[1] for row in frame.collect()]
            wanted = [r[name] for r in expected]
        assert found == wanted, name


@pytest.mark.share(4)
@pytest.mark.parametrize("name", [n for n in TYPE_TEXTS if n != "f_time"])
def test_equality_with_a_value_finds_its_row(lake, typed, name):
    _, values = TYPE_TEXTS[name]
    found = lake.table("db.t", columns=["k"], where=col(name) == values[0]).collect()
    assert [row.k for row in found] == [0]


def test_types_of_all_columns_round_trip_through_a_frame(spark, lake, typed):
    frame = lake.table("db.t")
    lake.create_table("db.copy", frame, primary_keys=["k"], options={"bucket": 1})
    lake.write(frame, "db.copy")
    expected = typed.to_arrow().to_pylist()
    assert lake.catalog.table("db.copy").to_arrow().to_pylist() == expected


def test_nan_is_kept_alike_in_both_halves(spark, lake):
    frame = spark.sql(
        "SELECT id AS k, IF(id % 2 = 0, double('NaN'), double(id)) AS x FROM range(8)"
    )
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 2})
    lake.write(frame, "db.t")
    kernel = lake.catalog.table("db.t")
    for _ in range(2):
        for condition in (
            "x > 2",
            "x >= 3",
            "x < 5",
            "NOT (x > 2)",
            "x = 3",
            "x <> 3",
            "x IN (1, 3)",
        ):
            expected = sorted(kernel.to_arrow(columns=["k"], where=condition)["k"].to_pylist())
            found = lake.table("db.t", columns=["k"], where=condition).collect()
            assert sorted(row.k for row in found) == expected, condition
        lake.write(frame, "db.t")


def test_nanoseconds_are_refused_only_where_there_are_some(lake):
    fields = [
        DataField(0, "k", parse_type("INT NOT NULL")),
        DataField(1, "t", parse_type("TIMESTAMP(9)")),
    ]
    table = lake.catalog.create_table("db.t", fields, primary_keys=["k"], options={"bucket": 1})
    table.write(
        pa.table({"k": pa.array([1], pa.int32()), "t": pa.array([1000], pa.timestamp("ns"))})
    )
    assert lake.table("db.t").first().t == dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    table.write(
        pa.table({"k": pa.array([2], pa.int32()), "t": pa.array([1001], pa.timestamp("ns"))})
    )
    with pytest.raises(Exception, match="'t' of type TIMESTAMP"):
        lake.table("db.t").collect()
    assert lake.table("db.t", columns=["k"]).count() == 2


def test_ddl_and_structs_make_tables(lake):
    struct = st.StructType(
        [
            st.StructField("k", st.LongType(), nullable=False, metadata={"comment": "the key"}),
            st.StructField("c", st.VarcharType(3)),
            st.StructField("t", st.TimestampType()),
        ]
    )
    table = lake.create_table("db.t", struct, primary_keys=["k"], options={"bucket": 1})
    assert [str(f.type) for f in table.table_schema.fields] == [
        "BIGINT NOT NULL", "VARCHAR(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    ]  # fmt: skip
    assert table.table_schema.fields[0].description == "the key"
    again = lake.create_table("db.t", struct, primary_keys=["k"], if_exists="ignore")
    assert again.identifier == "db.t"


def test_a_type_without_counterpart_names_its_column():
    from tidelake.spark.expression.types import spark_schema

    field = DataField(3, "n", parse_type({"type": "ARRAY", "element": "TIME(9)"}))
    with pytest.raises(UnsupportedError, match=r"'n\.element'"):
        spark_schema([field], table="db.t")


def test_a_batch_reads_the_last_compaction_or_files_of_some_age_at_every_door(spark, lake):
    """Paimon's ``compacted-full`` and ``from-file-creation-time``."""
    options = {"bucket": "1", "write-only": "true"}
    table = lake.catalog.create_table(
        "default.c", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options=options
    )
    table.write([{"k": 1, "v": 1}])
    table.compact(full=True)
    table.write([{"k": 2, "v": 2}])
    clock, made = table.handle.env.clock, table.system_table("files").to_arrow()["creation_time"]
    first, last = sorted(made.cast(pa.int64()).to_pylist())
    since = {"scan.file-creation-time-millis": str(last - clock.local_offset_ms())}
    newest = {(2, 2)} if first < last else {(1, 1), (2, 2)}
    for own, rows in (({"scan.mode": "compacted-full"}, {(1, 1)}), (since, newest)):
        text = ", ".join(f"'{key}' = '{value}'" for key, value in own.items())
        doors = (
            lake.table("default.c", options=own),
            lake.sql(f"SELECT * FROM c /*+ OPTIONS({text}) */"),
            spark.sql(f"SELECT * FROM tidelake.default.c WITH ({text})"),
            spark.read.options(**own).table("tidelake.default.c"),
            spark.read.format("tidelake").options(**own).load(str(table.handle.uri)),
        )
        for door in doors:
            assert {tuple(row) for row in door.collect()} == rows
        assert doors[2].where("v = 1").count() == len(rows & {(1, 1)})  # by spark.sql
    lake.catalog.alter_table("default.c", [SetOption("scan.mode", "compacted-full")])
    assert lake.table("default.c").count() == 1
    lake.sql("UPDATE c SET v = 20 WHERE k = 2")
    newest = lake.table("default.c", options={"scan.mode": None})
    assert {tuple(row) for row in newest.collect()} == {(1, 1), (2, 20)}
