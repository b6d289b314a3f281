"""Store assignment: what values go into which columns, alike in INSERT, UPDATE and MERGE."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import tidelake.spark
from tidelake import InvalidInputError

WRITES = {
    "insert": "INSERT INTO {t} (k, {c}) SELECT 1, {v}",
    "literals": "INSERT INTO {t} (k, {c}) VALUES (1, {v})",
    "update": "UPDATE {t} SET {set} WHERE k = 1",
    "matched": "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.k = s.k"
    " WHEN MATCHED THEN UPDATE SET {set}",
    "not matched": "MERGE INTO {t} t USING (SELECT 7 AS k) s ON t.k = s.k"
    " WHEN NOT MATCHED THEN INSERT (k, {c}) VALUES (1, {v})",
}
KEPT = {
    "i": ("1.9", 1),
    "b": ("-1.9D", -1),
    "y": ("CAST(100.7 AS FLOAT)", 100),
    "d": ("1.25", Decimal("1.3")),
    "s": ("1.9", "1.9"),
    "n": ("NULL", None),
    "f": ("1e300D", float("inf")),
}
REFUSED = [
    ("i", "3000000000", "3000000000", "INT"),
    ("i", "3000000000.5", "3000000000.5", "INT"),
    ("y", "300.5D", "300.5", "TINYINT"),
    ("i", "double('NaN')", "NaN", "INT"),
    ("d", "99.95", "99.95", r"DECIMAL\(3, 1\)"),
]


def said(text, table, values):
    """A write of these values, by columns."""
    columns, given = ", ".join(values), ", ".join(values.values())
    pairs = ", ".join(f"{column} = {value}" for column, value in values.items())
    return text.format(t=table, c=columns, v=given, set=pairs)


TABLE = (
    "CREATE TABLE {t} (k INT, i INT, b BIGINT, n INT, s STRING, y TINYINT, d DECIMAL(3, 1),"
    " f FLOAT, `st.r` STRUCT<`n.m`: INT, w: STRING>{key})"
)


@pytest.fixture(scope="module")
def here(spark, tmp_path_factory):
    """A table with a primary key and one without, each with the row 1."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("assigned"), catalog="assigned")
    lake.sql(TABLE.format(t="keyed", key=", PRIMARY KEY (k) NOT ENFORCED"))
    lake.sql(TABLE.format(t="plain", key=""))
    return lake


@pytest.mark.parametrize("table", ["keyed", "plain"])
def test_one_rule_holds_for_every_statement(here, table):
    values = {column: value for column, (value, _) in KEPT.items()}
    for name, text in WRITES.items():
        here.sql(f"DELETE FROM {table}")
        if name in {"update", "matched"}:
            here.sql(f"INSERT INTO {table} (k) VALUES (1)")
        here.sql(said(text, table, values))
        found = here.table(f"default.{table}", columns=list(KEPT)).collect()
        assert [tuple(row) for row in found] == [tuple(kept for _, kept in KEPT.values())], name


def test_a_value_beyond_the_range_is_named_with_its_column_and_table(here):
    here.sql("DELETE FROM keyed; INSERT INTO keyed (k) VALUES (1)")
    before = here.table("default.keyed").collect()
    tries = [(name, *REFUSED[0]) for name in WRITES] + [("update", *one) for one in REFUSED]
    for name, column, value, shown, kind in tries:
        words = rf"The value {shown} does not fit column '{column}' of table .*, which is {kind}"
        with pytest.raises(InvalidInputError, match=words) as raised:
            here.sql(said(WRITES[name], "keyed", {column: value}))
        assert raised.value.kind == "value_range", name
        assert raised.value.context["column"] == column
    for text in WRITES.values():
        with pytest.raises(InvalidInputError, match=r"the value is string: write CAST") as raised:
            here.sql(said(text, "keyed", {"i": "'7'"}))
        assert raised.value.kind == "column_type"
    assert here.table("default.keyed").collect() == before


def test_fields_inside_and_values_of_the_builders_follow_the_same_rule(spark, here):
    here.sql("DELETE FROM keyed")
    here.sql("INSERT INTO keyed (k, `st.r`) SELECT 1, named_struct('n.m', 2, 'w', 'x')")
    here.sql("UPDATE keyed SET `st.r`.`n.m` = 3.9 WHERE k = 1")
    # fields by their names, whatever their order
    here.sql(
        "UPDATE keyed SET `st.r` = named_struct('w', concat(`st.r`.w, '!'), 'N.M', `st.r`.`n.m`)"
    )
    assert [tuple(r[0]) for r in here.sql("SELECT `st.r` FROM keyed").collect()] == [(3, "x!")]
    with pytest.raises(InvalidInputError, match=r"3000000000 does not fit column 'st\.r\.n\.m'"):
        here.sql("UPDATE keyed SET `st.r`.`n.m` = 3000000000")
    with pytest.raises(InvalidInputError, match=r"300 does not fit column 'y' .*'default\.keyed'"):
        here.update("default.keyed", {"y": F.col("k") * 300}, where="k = 1")
    source = spark.createDataFrame([(1, 2.5, 4e9)], "k int, i double, big double")
    merge = here.merge("default.keyed", source, "k")
    with pytest.raises(InvalidInputError, match=r"4\.0E9 does not fit column 'i'"):
        merge.when_matched_update({"i": "s.big"}).execute()
    merge.when_matched_update({"i": "s.i"}).execute()
    assert here.sql("SELECT i FROM keyed").collect()[0][0] == 2


def test_default_and_parameters_stand_in_values(here):
    here.sql(
        "CREATE TABLE d (k INT, n INT DEFAULT 7, s STRING DEFAULT 'x', at TIMESTAMP_NTZ DEFAULT"
        " '2026-01-02 03:04:05', PRIMARY KEY (k) NOT ENFORCED)"
    )
    here.sql(
        "INSERT INTO d VALUES (?, DEFAULT, :s, DEFAULT)".replace("?", ":k"), {"k": 1, "s": "y"}
    )
    here.sql("INSERT INTO d VALUES (?, ?, DEFAULT, NULL)", [2, 3])
    here.sql("INSERT INTO d (s, k) SELECT DEFAULT, abs(-3)")
    here.sql("INSERT INTO d VALUES (4, 1, 'a', NULL), (5, 1, 'b', NULL)")
    here.sql("UPDATE d SET n = DEFAULT, s = 'z' WHERE k = 4")
    here.sql(
        "MERGE INTO d USING (SELECT explode(array(5, 6)) AS k) s ON d.k = s.k WHEN MATCHED THEN"
        " UPDATE SET s = DEFAULT WHEN NOT MATCHED THEN INSERT (k, n, s) VALUES (s.k, DEFAULT, 'w')"
    )
    found = here.sql("SELECT k, n, s, CAST(at AS STRING) FROM d ORDER BY k").collect()
    at = "2026-01-02 03:04:05"
    assert [tuple(row) for row in found] == [
        (1, 7, "y", at),
        (2, 3, "x", at),
        (3, 7, "x", at),
        (4, 7, "z", at),
        (5, 1, "x", at),
        (6, 7, "w", at),
    ]
