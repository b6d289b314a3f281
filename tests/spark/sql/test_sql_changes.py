"""UPDATE and MERGE of tl.sql: fields of structs, parameters, values that do not fit."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import Row

import tidelake.spark
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError

TABLES = {
    "keyed": ", PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')",
    "marked": ") WITH ('deletion-vectors.enabled' = 'true')",
    "rewritten": ") WITH ('bucket' = '-1')",
}


def rows(lake, text):
    return [tuple(row) for row in lake.sql(text).collect()]


def s(a, b):
    return Row(a=a, b=None if b is None else Row(c=b[0], d=b[1]))


# ---- fields inside columns


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", TABLES)
def test_fields_of_structs_are_set_as_java_does(lake, kind):
    """The rows are those of Java Paimon 2.1 on Spark 4.1 after the same statements."""
    lake.sql(f"CREATE TABLE st (id INT, s ROW<a INT, b ROW<c STRING, d INT>>{TABLES[kind]}")
    lake.sql(
        "INSERT INTO st VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2))),"
        " (2, NULL), (3, named_struct('a', 1, 'b', NULL))"
    )
    lake.sql("UPDATE st SET s.a = 7 WHERE id < 9")
    ordered = "SELECT * FROM st ORDER BY id"
    assert rows(lake, ordered) == [(1, s(7, ("x", 2))), (2, s(7, None)), (3, s(7, None))]
    lake.sql("UPDATE st AS o SET o.s.B.c = 'q', s.a = s.a + 1")  # each sees the old row
    wanted = [(1, s(8, ("q", 2))), (2, s(8, ("q", None))), (3, s(8, ("q", None)))]
    assert rows(lake, ordered) == wanted
    lake.sql(
        "MERGE INTO st t USING (SELECT 1 AS id, 'm' AS c, 5L AS n) x ON t.id = x.id"
        " WHEN MATCHED THEN UPDATE SET t.s.b.c = x.c, t.s.a = x.n"
        " WHEN NOT MATCHED BY SOURCE AND id = 3 THEN UPDATE SET s.b.d = id"
    )
    wanted = [(1, s(5, ("m", 2))), (2, s(8, ("q", None))), (3, s(8, ("q", 3)))]
    assert rows(lake, ordered) == wanted


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "UPDATE st SET s.nosuch = 1",
            InvalidInputError,
            "no field 'nosuch'.* Its fields are: a, b",
        ),
        ("UPDATE st SET s.a = 'xx'", InvalidInputError, r"Column 's\.a' .*is INT, .*CAST"),
        ("UPDATE st SET id.x = 1", UnsupportedError, "no fields: set the whole"),
        ("UPDATE st SET x.y.z = 1", InvalidInputError, "no column 'x'"),
        ("UPDATE st SET s.a = 1, s = NULL", InvalidInputError, "overlap: set one"),
        (
            "MERGE INTO st t USING st x ON t.id = x.id WHEN MATCHED THEN UPDATE SET t.s.q = 1",
            InvalidInputError,
            "no field 'q'",
        ),
        (
            "MERGE INTO st t USING st x ON t.id = x.id WHEN NOT MATCHED"
            " THEN INSERT (s.a) VALUES (1)",
            UnsupportedError,
            "needs whole columns",
        ),
    ],
)
def test_fields_that_cannot_be_set_are_shown_in_the_text(lake, text, error, message):
    lake.sql("CREATE TABLE IF NOT EXISTS st (id INT, s ROW<a INT, b ROW<c STRING, d INT>>)")
    with pytest.raises(error, match=message) as caught:
        lake.sql(text)
    assert "At line 1, column" in str(caught.value)
    assert lake.catalog.table("default.st").latest_snapshot_id is None


# ---- parameters


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", TABLES)
def test_parameters_reach_statements_that_change_rows(lake, kind):
    lake.sql(f"CREATE TABLE t (id INT, v STRING, day DATE, n DECIMAL(9, 2){TABLES[kind]}")
    lake.sql("INSERT INTO t SELECT id, 'a', DATE '2026-01-01', id FROM range(1, 7)")
    lake.sql(
        "UPDATE t SET v = :v, day = :day, n = n + :more WHERE id IN (:one, 2)",
        args={"v": "it's", "day": date(2026, 2, 3), "more": Decimal("0.50"), "one": 1},
    )
    lake.sql("DELETE FROM t WHERE id = ? OR v = ?", args=[6, "nobody"])
    lake.sql(
        "MERGE INTO t USING (SELECT :k AS id, :v AS v) x ON t.id = x.id"
        " WHEN MATCHED AND t.n > :least THEN UPDATE SET v = x.v WHEN NOT MATCHED THEN"
        " INSERT (id, v) VALUES (x.id, concat(x.v, :tail))",
        args={"k": 3, "v": "m", "least": 1.5, "tail": "!"},
    )
    lake.sql(
        "MERGE INTO t USING (SELECT ? AS id) x ON t.id = x.id WHEN NOT MATCHED THEN"
        " INSERT (id, v) VALUES (x.id, ?)",
        args=[9, None],
    )
    assert rows(lake, "SELECT id, v, day, n FROM t ORDER BY id") == [
        (1, "it's", date(2026, 2, 3), Decimal("1.50")),
        (2, "it's", date(2026, 2, 3), Decimal("2.50")),
        (3, "m", date(2026, 1, 1), Decimal("3.00")),
        (4, "a", date(2026, 1, 1), Decimal("4.00")),
        (5, "a", date(2026, 1, 1), Decimal("5.00")),
        (9, None, None, None),
    ]


def test_a_parameter_without_a_value_is_shown(lake):
    lake.sql("CREATE TABLE t (id INT)")
    with pytest.raises(InvalidInputError, match=r":lo has no value.*Did you mean 'low'") as caught:
        lake.sql("DELETE FROM t WHERE id > :lo", args={"low": 1})
    assert "At line 1, column 26" in str(caught.value)


# ---- values that do not fit


FAULTS = {
    "overflow": ("v = v, n = n * 2000000000", "Column 'n'", "overflow"),
    "narrowed": ("v = v, n = CAST(n AS BIGINT) * 3000000000", "column 'n'", "which is INT"),
    "decimal": ("v = v, m = m * 1000", "column 'm'", "which is DECIMAL(4, 1)"),
    "cast": ("m = m, n = CAST(v AS INT)", "Column 'n'", "x1"),
    "divided": ("v = v, n = CAST(n / (n - n) AS INT)", "Column 'n'", "Division by zero"),
    "condition": ("v = 'a', n = 1", "An expression", "Division by zero"),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_value_that_does_not_fit_names_table_and_column(lake, kind, fault, capfd):
    said, column, word = FAULTS[fault]
    lake.sql(f"CREATE TABLE t (id INT, n INT, m DECIMAL(4, 1), v STRING{TABLES[kind]}")
    lake.sql("INSERT INTO t VALUES (1, 5, 100.5, 'x1'), (2, 3, 1, 'x1')")
    before = lake.catalog.table("default.t").latest_snapshot_id
    where, also = "", ""
    if fault == "condition":
        where, also = " WHERE 10 / (n - n) > 2", " AND 10 / (t.n - t.n) > 2"
    for text in (
        f"UPDATE t SET {said}{where}",
        "MERGE INTO t USING (SELECT 1 AS id) x ON t.id = x.id"
        f" WHEN MATCHED{also} THEN UPDATE SET {said}",
    ):
        with pytest.raises(TidelakeError) as caught:
            lake.sql(text)
        shown = str(caught.value)
        assert "'default.t'" in shown or "'t'" in shown, shown
        assert column in shown, shown
        assert word in shown, shown
        assert "org.apache" not in shown
        assert "\tat " not in shown
    assert lake.catalog.table("default.t").latest_snapshot_id == before


# ---- what filters read


def test_instants_prune_files_in_the_sessions_zone(lake):
    lake.sql("CREATE TABLE t (id INT, at TIMESTAMP_LTZ(6)) WITH ('bucket' = '-1')")
    for day in (1, 2, 3):  # noon in New York
        lake.sql(f"INSERT INTO t VALUES ({day}, TIMESTAMP '2026-06-0{day} 12:00:00')")
    table = lake.catalog.table("default.t")
    for condition in (
        "at >= TIMESTAMP '2026-06-02 12:00:00'",
        "at >= TIMESTAMP_LTZ '2026-06-02 16:00:00Z'",
        "at >= CAST('2026-06-02 12:00:00' AS TIMESTAMP)",
    ):
        frame = lake.sql(f"SELECT id FROM t WHERE {condition}")
        assert sorted(r.id for r in frame.collect()) == [2, 3], condition
        assert len(frame.inputFiles()) == 2, condition
    assert table.plan().files_read == 3
    assert rows(lake, "SELECT id FROM t WHERE at = TIMESTAMP '2026-06-03 12:00:00'") == [(3,)]
    lake.sql("DELETE FROM t WHERE at < TIMESTAMP '2026-06-02 12:00:00'")
    assert rows(lake, "SELECT id FROM t ORDER BY id") == [(2,), (3,)]


@pytest.mark.parametrize("how", ["tl.sql", "spark.sql"])
def test_chars_are_one_value_however_they_are_written_and_compared_as_stored(spark, tmp_path, how):
    lake = tidelake.spark.attach(spark, tmp_path / "w", catalog="chars")
    lake.sql(
        "CREATE TABLE d.ch (c CHAR(5), n INT, PRIMARY KEY (c) NOT ENFORCED) WITH ('bucket' = '1')"
    )
    run = lake.sql if how == "tl.sql" else spark.sql
    lake.sql("INSERT INTO d.ch VALUES ('ab', 1)")
    run(f"INSERT INTO {'d.ch' if how == 'tl.sql' else 'chars.d.ch'} VALUES ('ab', 2)")
    assert rows(lake, "SELECT * FROM d.ch") == [("ab", 2)]
    lake.catalog.table("d.ch").write([{"c": "ab   ", "n": 3}])  # as Java stores it
    name = "d.ch" if how == "tl.sql" else "chars.d.ch"
    for condition, found in (("c = 'ab'", [2]), ("c = 'ab   '", [3]), ("rtrim(c) = 'ab'", [2, 3])):
        shown = run(f"SELECT n FROM {name} WHERE {condition}").collect()
        assert sorted(r.n for r in shown) == found, condition


# ---- the largest partition


def test_max_pt_is_the_largest_partition_with_data(lake):
    lake.sql("CREATE TABLE p (id INT, day STRING, h INT) PARTITIONED BY (day, h)")
    lake.sql("INSERT INTO p VALUES (1, 'd1', 1), (2, 'd2', 9), (3, 'd2', 10), (4, NULL, 1)")
    assert rows(lake, "SELECT sys.max_pt('p')") == [("d2",)]
    frame = lake.sql("SELECT id FROM p WHERE day = tidelake.sys.max_pt('default.p') AND h = 10")
    assert [r.id for r in frame.collect()] == [3]
    assert len(frame.inputFiles()) == 1
    lake.sql("CREATE TEMPORARY VIEW newest AS SELECT id FROM p WHERE day = sys.max_pt('p')")
    lake.sql("INSERT INTO p VALUES (5, 'd3', 1)")
    assert rows(lake, "SELECT * FROM newest") == [(5,)]
    lake.sql("DELETE FROM p WHERE day = sys.max_pt('p')")
    assert rows(lake, "SELECT * FROM newest ORDER BY id") == [(2,), (3,)]
    # each statement of several sees what those before it left
    lake.sql(
        "INSERT INTO p VALUES (6, 'd6', 1); DELETE FROM p WHERE day = sys.max_pt('p');"
        "WITH x AS (SELECT 2 AS id) DELETE FROM p WHERE day = sys.max_pt('p')"
        " AND id IN (SELECT id FROM x)"
    )
    assert rows(lake, "SELECT * FROM newest") == [(3,)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("'plain'", "is not partitioned"),
        ("'empty'", "no partition with data"),
        ("'emtpy'", "Did you mean 'empty'"),
        ("concat('a')", "takes the name of a table as text"),
    ],
)
def test_max_pt_of_what_has_none_is_refused_at_its_place(lake, name, message):
    lake.sql("CREATE TABLE plain (id INT); CREATE TABLE empty (id INT, n INT) PARTITIONED BY (n)")
    with pytest.raises(TidelakeError, match=message) as caught:
        lake.sql(f"SELECT * FROM empty WHERE n = sys.max_pt({name})")
    assert "At line 1, column" in str(caught.value)
    lake.sql("INSERT INTO empty VALUES (1, 9), (2, 10)")
    assert rows(lake, "SELECT id FROM empty WHERE n = sys.max_pt('empty')") == [(2,)]
