"""Fields of structs, in arrays, maps and structs, by name where a statement goes by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import functions as F

from tidelake.errors import InvalidInputError, TidelakeError

ROW = "ROW<x INT, y STRING, deep ROW<a INT, b INT>>"
COLUMNS = {
    "l": f"ARRAY<{ROW}>",
    "ll": f"ARRAY<ARRAY<{ROW}>>",
    "m": f"MAP<STRING, {ROW}>",
    "mk": "MAP<ROW<x INT, y INT>, INT>",
    "r": f"ROW<inner {ROW}, z INT>",
    "s": ROW,
}
TURNED = "named_struct('deep', named_struct('b', 2, 'a', {n}), 'Y', 'y{n}', 'x', {n})"
EXPRESSIONS = {
    "l": f"array({TURNED}, NULL)",
    "ll": f"array(array({TURNED}), NULL)",
    "m": f"map('k', {TURNED})",
    "mk": "map(named_struct('y', 7, 'x', {n}), {n})",
    "r": f"named_struct('z', {{n}}, 'inner', {TURNED})",
    "s": TURNED,
}


def row(n):
    return {"x": n, "y": f"y{n}", "deep": {"a": n, "b": 2}}


def stored(n):
    return {
        "l": [row(n), None],
        "ll": [[row(n)], None],
        "m": [("k", row(n))],
        "mk": [({"x": n, "y": 7}, n)],
        "r": {"inner": row(n), "z": n},
        "s": row(n),
    }


def query(k, n):
    made = ", ".join(f"{text.format(n=n)} AS {name}" for name, text in EXPRESSIONS.items())
    return f"SELECT {made}, {k} AS k"


def exact(k, n):
    """DataFrames have the names of the columns to the letter."""
    return query(k, n).replace("'Y'", "'y'")


@pytest.fixture(params=["keyed", "append"])
def table(request, lake):
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    key = ", PRIMARY KEY (k) NOT ENFORCED" if request.param == "keyed" else ""
    options = "'bucket' = '1'" if key else "'bucket' = '-1', 'deletion-vectors.enabled' = 'true'"
    lake.sql(f"CREATE TABLE t (k INT, {columns}{key}) WITH ({options})")
    lake.sql(f"INSERT INTO t BY NAME {query(1, 10)}")
    return lake.catalog.table("default.t")


def rows_of(table):
    return {row.pop("k"): row for row in table.to_arrow().to_pylist()}


def test_insert_by_name_and_dataframes_match_fields_by_name(spark, lake, table):
    assert rows_of(table) == {1: stored(10)}
    lake.write(spark.sql(exact(2, 20)), "default.t")
    spark.sql(f"INSERT INTO tidelake.default.t BY NAME {query(3, 30)}")
    spark.sql(query(4, 40)).writeTo("tidelake.default.t").append()
    wider = {"write.merge-schema": "true"}
    lake.write(spark.sql(exact(5, 50)), "default.t", options=wider)
    hint = "/*+ OPTIONS('write.merge-schema'='true') */"
    lake.sql(f"INSERT INTO t {hint} BY NAME {query(6, 60)}")
    assert rows_of(table) == {k: stored(10 * k) for k in range(1, 7)}


def test_merges_match_fields_by_name(spark, lake, table):
    source = f"({query(1, 11)} UNION ALL {query(2, 22)}) AS s"
    lake.sql(
        f"MERGE INTO t USING {source} ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows_of(table) == {1: stored(11), 2: stored(22)}
    named = ", ".join(COLUMNS)
    lake.sql(
        f"MERGE INTO t USING ({query(1, 12)} UNION ALL {query(3, 33)}) AS s ON t.k = s.k"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{c} = s.{c}' for c in COLUMNS)}"
        f" WHEN NOT MATCHED THEN INSERT (k, {named})"
        f" VALUES (s.k, {', '.join(f's.{c}' for c in COLUMNS)})"
    )
    assert rows_of(table) == {1: stored(12), 2: stored(22), 3: stored(33)}
    frame = spark.sql(f"{query(1, 13)} UNION ALL {query(4, 44)}")
    merge = lake.merge("default.t", frame, on="k")
    merge.when_matched_update().when_not_matched_insert().execute()
    evolving = "MERGE WITH SCHEMA EVOLUTION INTO t USING"
    lake.sql(f"{evolving} ({query(2, 23)}) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *")
    assert rows_of(table) == {1: stored(13), 2: stored(23), 3: stored(33), 4: stored(44)}


def test_plain_sql_runs_a_merge_that_only_inserts(spark, table):
    spark.sql(
        f"MERGE INTO tidelake.default.t USING ({query(1, 11)} UNION ALL {query(2, 22)}) AS s"
        " ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows_of(table) == {1: stored(10), 2: stored(22)}


def test_updates_match_fields_by_name(lake, table):
    given = ", ".join(f"{name} = {text.format(n=5)}" for name, text in EXPRESSIONS.items())
    lake.sql(f"UPDATE t SET {given} WHERE k = 1")
    assert rows_of(table) == {1: stored(5)}
    lake.update("default.t", {n: F.expr(e.format(n=6)) for n, e in EXPRESSIONS.items()}, "k = 1")
    assert rows_of(table) == {1: stored(6)}
    lake.sql(f"UPDATE t SET r.inner = {TURNED.format(n=9)}")
    assert rows_of(table)[1]["r"] == {"inner": row(9), "z": 6}


def test_insert_by_position_matches_fields_by_position_as_spark_does(spark, lake, table):
    text = "array(named_struct('deep', {n}, 'x', 'y{n}', 'y', named_struct('b', 1, 'a', 2)))"
    wanted = {"x": 3, "y": "y3", "deep": {"a": 1, "b": 2}}
    lake.sql(f"INSERT INTO t (k, l) SELECT 3, {text.format(n=3)}")
    spark.sql(f"INSERT INTO tidelake.default.t (k, l) SELECT 4, {text.format(n=3)}")
    assert [rows_of(table)[k]["l"] for k in (3, 4)] == [[wanted], [wanted]]


BAD = {
    "l.element.x": "array(named_struct('y', 'a', 'deep', named_struct('a', 1, 'b', 2)))",
    "l.element.deep.a": "array(named_struct('x', 1, 'y', 'a', 'deep', named_struct('b', 2)))",
    "l.element.more": "array(named_struct('x', 1, 'y', 'a', 'deep', named_struct('a', 1, 'b', 2),"
    " 'more', 1))",
    "m.value.x": "map('k', named_struct('y', 'a', 'deep', named_struct('a', 1, 'b', 2)))",
    "mk.key.y": "map(named_struct('x', 1), 1)",
    "s.x": "struct(1, 'a', named_struct('a', 1, 'b', 2))",
}


@pytest.mark.share(3)
@pytest.mark.parametrize("path", BAD)
def test_a_missing_or_unknown_field_is_named_by_its_path(spark, lake, table, path):
    column, value = path.split(".")[0], BAD[path]
    before = rows_of(table)
    for text in (
        f"INSERT INTO t BY NAME SELECT 9 AS k, {value} AS {column}",
        f"UPDATE t SET {column} = {value}",
        f"MERGE INTO t USING (SELECT 1 AS k, {value} AS v) AS s ON t.k = s.k"
        f" WHEN MATCHED THEN UPDATE SET {column} = s.v",
    ):
        with pytest.raises(InvalidInputError, match=f"field '{path}'") as raised:
            lake.sql(text)
        assert raised.value.kind == "column_field"
        assert raised.value.context["column"] == column
    others = ", ".join(
        f"CAST(NULL AS {_spark(spark, lake, c)}) AS {c}" for c in COLUMNS if c != column
    )
    frame = spark.sql(f"SELECT 9 AS k, {value} AS {column}, {others}")
    with pytest.raises(InvalidInputError, match=f"field '{path}'"):
        lake.write(frame, "default.t")
    assert rows_of(table) == before


def _spark(spark, lake, column):
    return lake.table("default.t").schema[column].dataType.simpleString()


def test_arrow_structs_in_another_order_are_matched_by_name(table):
    turned = pa.struct(
        [
            ("deep", pa.struct([("b", pa.int32()), ("a", pa.int32())])),
            ("y", pa.string()),
            ("x", pa.int32()),
        ]
    )

    def arrow(k, n):
        made = {"x": n, "y": f"y{n}", "deep": {"a": n, "b": 2}}
        return pa.table(
            {
                "k": pa.array([k], pa.int32()),
                "l": pa.array([[made, None]], pa.list_(turned)),
                "ll": pa.array([[[made], None]], pa.list_(pa.list_(turned))),
                "m": pa.array([[("k", made)]], pa.map_(pa.string(), turned)),
                "mk": pa.array(
                    [[({"x": n, "y": 7}, n)]],
                    pa.map_(pa.struct([("y", pa.int32()), ("x", pa.int32())]), pa.int32()),
                ),
                "r": pa.array(
                    [{"z": n, "inner": made}], pa.struct([("z", pa.int32()), ("inner", turned)])
                ),
                "s": pa.array([made], turned),
            }
        )

    table.write(arrow(2, 20))
    assert rows_of(table) == {1: stored(10), 2: stored(20)}


def test_a_refused_column_leaves_no_new_column(spark, lake):
    lake.sql("CREATE TABLE w (k INT, s STRING, l ARRAY<ROW<x INT>>)")
    before = lake.catalog.table("default.w").table_schema.id
    hint = "/*+ OPTIONS('write.merge-schema'='true') */"
    wrong = "SELECT 1 AS fresh, 2 AS k, array(1) AS s, array(named_struct('x', 1)) AS l"
    frame = spark.sql(wrong)
    for write in (
        lambda: lake.write(frame, "default.w", options={"write.merge-schema": "true"}),
        lambda: lake.sql(f"INSERT INTO w {hint} BY NAME {wrong}"),
        lambda: lake.sql(f"INSERT INTO w {hint} SELECT 2, array(1), NULL, 1 AS fresh"),
        lambda: frame.writeTo("tidelake.default.w").option("mergeSchema", "true").append(),
        lambda: lake.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO w USING ({wrong}) AS v ON w.k = v.k"
            " WHEN NOT MATCHED THEN INSERT *"
        ),
    ):
        with pytest.raises((TidelakeError, IllegalArgumentException), match="'s'"):
            write()
        assert lake.catalog.table("default.w").table_schema.id == before
