"""Statements of `tl.sql` by plain `spark.sql`: partitions, LIKE, defaults, ALTER TABLE, CALL."""

from __future__ import annotations

import pytest
from proving import doors
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
from pyspark.sql import functions as F

from tidelake.errors import TidelakeError
from tidelake.maintenance.procedure import ParameterType
from tidelake.maintenance.procedures import PROCEDURES

T = "tidelake.default.t"
ROWS = "(1, 'mon', 1), (2, 'mon', 2), (3, 'tue', 1), (4, NULL, 1), (5, '', 2)"


@pytest.fixture
def parted(lake):
    lake.sql("CREATE TABLE t (k INT, day STRING, hour INT) PARTITIONED BY (day, hour)")
    lake.sql(f"INSERT INTO t VALUES {ROWS}")
    return lake


def keys(lake, name="t"):
    return sorted(row["k"] for row in lake.catalog.table(f"default.{name}").to_arrow().to_pylist())


def shown(spark, text):
    return [row[0] for row in spark.sql(text).collect()]


# ---- partitions


def test_partitions_are_shown(spark, parted):
    assert shown(spark, f"SHOW PARTITIONS {T}") == [
        "day=/hour=2",
        "day=mon/hour=1",
        "day=mon/hour=2",
        "day=null/hour=1",
        "day=tue/hour=1",
    ]
    some = shown(spark, f"SHOW PARTITIONS {T} PARTITION (day = 'mon')")
    assert some == shown(spark, f"SHOW PARTITIONS {T}")[1:3]
    assert shown(spark, f"SHOW PARTITIONS {T} PARTITION (day = NULL)") == ["day=null/hour=1"]
    assert shown(spark, f"SHOW PARTITIONS {T} PARTITION (hour = 2, day = 'mon')") == some[1:]


REMOVES = {
    "TRUNCATE TABLE t": [],
    "TRUNCATE TABLE t PARTITION (day = 'mon', hour = 2)": [1, 3, 4, 5],
    "TRUNCATE TABLE t PARTITION (hour = 1)": [2, 5],
    "TRUNCATE TABLE t PARTITION (day = NULL, hour = 1)": [1, 2, 3, 5],
    "TRUNCATE TABLE t PARTITION (day = 'gone')": [1, 2, 3, 4, 5],
    "ALTER TABLE t DROP PARTITION (day = 'mon', hour = 1)": [2, 3, 4, 5],
    "ALTER TABLE t DROP PARTITION (day = '', hour = 2), PARTITION (day = 'tue', hour = 1)": [
        1,
        2,
        4,
    ],
    "ALTER TABLE t DROP PARTITION (day = 'mon', hour = 1) PURGE": [2, 3, 4, 5],
}


@pytest.mark.share(2)
@pytest.mark.parametrize("text", REMOVES)
def test_partitions_are_removed_by_one_commit_of_metadata(parted, text):
    table = parted.catalog.table("default.t")
    before = table.latest_snapshot_id
    doors.run(parted, text, "spark.sql")
    assert keys(parted) == REMOVES[text]
    assert table.latest_snapshot_id - before == (len(REMOVES[text]) < 5)


def test_partitions_of_all_types_are_found(spark, lake):
    columns = (
        "k INT, d DATE, i TIMESTAMP_LTZ, n TIMESTAMP_NTZ, b BOOLEAN, m DECIMAL(6, 2), f DOUBLE"
    )
    lake.sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (d, i, n, b, m, f)")
    spec = (
        "d = DATE '1582-10-10', i = TIMESTAMP_LTZ '2026-11-30 10:00:00.123456',"
        " n = TIMESTAMP_NTZ '1883-11-18 12:00:00', b = true, m = 1.5, f = -0.5"
    )
    spark.sql(f"INSERT INTO {T} PARTITION ({spec}) SELECT 1")
    spark.sql(f"INSERT INTO {T} SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL")
    assert len(shown(spark, f"SHOW PARTITIONS {T} PARTITION ({spec})")) == 1
    spark.sql(f"ALTER TABLE {T} DROP PARTITION ({spec})")
    assert keys(lake) == [2]


def test_a_partition_that_is_not_there_is_said_unless_it_need_not_be(spark, parted):
    gone = f"ALTER TABLE {T} DROP {{}}PARTITION (day = 'gone', hour = 1)"
    with pytest.raises(AnalysisException, match="PARTITIONS_NOT_FOUND"):
        spark.sql(gone.format(""))
    spark.sql(gone.format("IF EXISTS "))
    assert keys(parted) == [1, 2, 3, 4, 5]


# ---- definitions


@pytest.fixture(params=doors.DOORS)
def door(request):
    return request.param


def schema_of(lake, name):
    schema = lake.catalog.table(f"default.{name}").table_schema
    fields = [(f.name, str(f.type), f.description, f.default_value) for f in schema.fields]
    keys = (schema.primary_keys, schema.partition_keys)
    return fields, keys, dict(schema.options), schema.comment


def test_a_table_is_made_like_another(spark, lake):
    lake.sql(
        "CREATE TABLE t (k INT, at TIMESTAMP(3), c CHAR(3) DEFAULT 'abc' COMMENT 'c', day DATE,"
        " PRIMARY KEY (k, day) NOT ENFORCED) COMMENT 'all' PARTITIONED BY (day)"
        " WITH ('bucket' = '1', 'merge-engine' = 'partial-update')"
    )
    spark.sql(f"CREATE TABLE tidelake.default.u LIKE {T}")
    spark.sql(f"CREATE TABLE IF NOT EXISTS tidelake.default.u LIKE {T}")
    lake.sql("CREATE TABLE by_us LIKE t TBLPROPERTIES ('bucket' = '2')")
    spark.sql(f"CREATE TABLE tidelake.default.v LIKE {T} TBLPROPERTIES ('bucket' = '2')")
    assert schema_of(lake, "u") == schema_of(lake, "t")
    assert schema_of(lake, "v") == schema_of(lake, "by_us")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE tidelake.default.u LIKE {T}")


DEFAULTS = (
    "a INT DEFAULT 7, b STRING DEFAULT 'it''s', c DATE DEFAULT DATE '2026-01-02',"
    " d DECIMAL(4, 1) NOT NULL DEFAULT 8, e BOOLEAN DEFAULT true, f DOUBLE DEFAULT -1.5, k INT"
)


def test_columns_have_the_defaults_that_a_statement_declares(lake, door):
    doors.run(lake, f"CREATE TABLE t ({DEFAULTS}) USING tidelake", door)
    defaults = [f.default_value for f in lake.catalog.table("default.t").table_schema.fields]
    assert defaults == ["7", "'it's'", "2026-01-02", "8", "true", "-1.5", None]


def test_a_default_is_of_later_rows_and_a_query_does_not_bring_it_along(spark, lake):
    spark.sql(f"CREATE TABLE {T} (k INT, n INT DEFAULT 7)")
    spark.sql(f"INSERT INTO {T} (k) VALUES (1)")
    spark.sql(f"INSERT INTO {T} VALUES (2, DEFAULT)")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN n SET DEFAULT 8")
    spark.sql(f"INSERT INTO {T} (k) VALUES (3)")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN n DROP DEFAULT")
    spark.sql(f"INSERT INTO {T} (k) VALUES (4)")
    spark.sql(f"ALTER TABLE {T} ADD COLUMN v STRING DEFAULT 'x'")
    spark.sql(f"INSERT INTO {T} (k) VALUES (5)")
    found = sorted(tuple(row) for row in spark.table(T).collect())
    assert found == [(1, 7, None), (2, 7, None), (3, 8, None), (4, None, None), (5, None, "x")]
    spark.sql(f"CREATE TABLE tidelake.default.a AS SELECT * FROM {T}")
    spark.table(T).writeTo("tidelake.default.b").createOrReplace()
    spark.sql("CREATE OR REPLACE TABLE tidelake.default.c (n INT DEFAULT 9)")
    spark.sql(f"CREATE TABLE tidelake.default.d LIKE {T}")
    made = {name: [one[3] for one in schema_of(lake, name)[0]] for name in "abcd"}
    assert made == {"a": [None] * 3, "b": [None] * 3, "c": ["9"], "d": [None, None, "'x'"]}


COLUMNS = (
    "k INT, v STRING, s STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<a: INT>>,"
    " m MAP<STRING, STRUCT<b: INT>>"
)
ALTERED = [
    "ALTER TABLE t ADD COLUMN n INT COMMENT 'c' FIRST",
    "ALTER TABLE t ADD COLUMNS (n INT DEFAULT 5, o STRING DEFAULT 'q' AFTER k, s.z BIGINT)",
    "ALTER TABLE t ADD COLUMNS (l.element.c BIGINT, m.value.c BIGINT)",
    "ALTER TABLE t DROP COLUMNS (v, s.x)",
    "ALTER TABLE t DROP COLUMN IF EXISTS gone",
    "ALTER TABLE t RENAME COLUMN s.x TO w",
    "ALTER TABLE t ALTER COLUMN l.element.a TYPE BIGINT",
    "ALTER TABLE t ALTER k TYPE BIGINT",
    "ALTER TABLE t ALTER COLUMN k COMMENT 'c'",
    "ALTER TABLE t ALTER COLUMN k AFTER v",
    "ALTER TABLE t CHANGE COLUMN k k BIGINT COMMENT 'c' AFTER v",
    "ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '64 mb', 'comment' = 'x')",
    "ALTER TABLE t UNSET TBLPROPERTIES ('write-only')",
    "COMMENT ON TABLE t IS NULL",
    "ALTER TABLE t DROP CONSTRAINT positive",
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS gone",
]


@pytest.mark.share(2)
@pytest.mark.parametrize("text", ALTERED)
def test_alter_table_does_the_same_by_both_doors(lake, text):
    made = []
    for door in doors.DOORS:
        lake.sql(f"CREATE TABLE t ({COLUMNS}) COMMENT 'old' WITH ('write-only' = 'true')")
        lake.sql("ALTER TABLE t ADD CONSTRAINT positive CHECK (k > 0)")
        before = schema_of(lake, "t")
        doors.run(lake, text, door)
        made.append(schema_of(lake, "t"))
        lake.sql("DROP TABLE t")
    assert made[0] == made[1]
    assert (made[0] == before) == ("gone" in text)


REFUSED = [
    ("ALTER TABLE {t} ADD PARTITION (day = 'a', hour = 1)", "exists once it has rows"),
    (
        "ALTER TABLE {t} PARTITION (day = 'mon', hour = 1) RENAME TO PARTITION (day = 'a', hour=1)",
        "UPDATE its partition column",
    ),
    ("CREATE TABLE {t}_x (a INT) CLUSTER BY (a)", "TBLPROPERTIES ('clustering.columns' = 'a')"),
    ("CREATE TABLE {t}_x CLUSTER BY (a) AS SELECT 1 AS a", "('clustering.columns' = 'a')"),
    ("ALTER TABLE {t} CLUSTER BY (k)", "('clustering.columns' = 'k')"),
    ("ALTER TABLE {t} CLUSTER BY NONE", "UNSET the option"),
    ("CREATE TABLE {t}_x (a INT DEFAULT 1 + 2)", "A default must be one literal"),
    ("CREATE TABLE {t}_x (a DATE DEFAULT current_date())", "A default must be one literal"),
    ("ALTER TABLE {t} ALTER COLUMN k SET DEFAULT 1 + 2", "A default must be one literal"),
    ("CREATE TABLE {t}_x LIKE {t} USING parquet", "cannot be created USING parquet"),
    # `parquet` is Spark's default, too
    ("CREATE TABLE {t}_x (a INT) USING parquet", "cannot be created USING parquet"),
    ("CREATE TABLE {t}_x USING parquet AS SELECT 1 AS a", "cannot be created USING parquet"),
    ("CREATE OR REPLACE TABLE {t} (a INT) USING Parquet", "cannot be created USING Parquet"),
    ("CREATE OR REPLACE TABLE {t} USING parquet AS SELECT 1 AS a", "created USING parquet"),
    ("REPLACE TABLE {t} USING parquet AS SELECT 1 AS a", "Write USING tidelake, or omit it"),
    ("CREATE TABLE {t}_x (a INT) USING orc", "the option 'file.format' sets the file format"),
    ("CREATE TABLE {t}_x (a INT) USING delta", "cannot be created USING delta"),
    ("ALTER TABLE {t} SET LOCATION '/tmp/x'", "cannot move"),
    ("ALTER TABLE {t} ADD CONSTRAINT p PRIMARY KEY (k) NOT ENFORCED", "only CHECK can be added"),
    ("ALTER TABLE {t} ADD CONSTRAINT c CHECK (k > 0)", "the same statement, with tl.sql"),
    ("INSERT INTO {t} REPLACE WHERE k > 1 SELECT 9, 'mon', 1", "no condition on partition columns"),
    ("INSERT INTO {t} REPLACE WHERE hour > 1 SELECT 9, 'mon', 1", "Rows of partition day=mon"),
]


def test_what_is_refused_says_what_to_write_instead(spark, parted):
    before = schema_of(parted, "t")
    for text, message in REFUSED:
        with pytest.raises((UnsupportedOperationException, IllegalArgumentException)) as caught:
            spark.sql(text.format(t=T))
        assert message in str(caught.value), text
        assert "\tat " not in str(caught.value), text
    assert schema_of(parted, "t") == before
    assert parted.catalog.list_tables("default") == ["t"]
    assert keys(parted) == [1, 2, 3, 4, 5]


# ---- frames

NEW = "SELECT 9 AS k, 'mon' AS day, 1 AS hour"
OVERWRITES = {
    "day = 'mon'": [3, 4, 5, 9],
    "day = 'mon' AND hour = 1": [2, 3, 4, 5, 9],
    "day IN ('mon', 'tue')": [4, 5, 9],
    "day = 'mon' OR day IS NULL": [3, 5, 9],
    "day > 'a' AND hour < 2": [2, 4, 5, 9],
    "NOT (day = 'tue')": [3, 4, 9],
    "true": [9],
}


@pytest.mark.share(2)
@pytest.mark.parametrize("condition", OVERWRITES)
def test_an_overwrite_replaces_the_partitions_that_meet_a_condition(spark, parted, condition):
    spark.sql(NEW).writeTo(T).overwrite(F.expr(condition))
    assert keys(parted) == OVERWRITES[condition]
    assert parted.catalog.table("default.t").latest_snapshot_id == 2


def test_frames_go_into_a_table_by_every_method(spark, parted):
    new = spark.sql(NEW)
    new.writeTo(T).overwritePartitions()
    assert keys(parted) == [2, 3, 4, 5, 9]
    new.write.insertInto(T)
    assert keys(parted) == [2, 3, 4, 5, 9, 9]
    new.write.insertInto(T, overwrite=True)
    assert keys(parted) == [9]
    new.writeTo(T).partitionedBy("day").createOrReplace()
    assert schema_of(parted, "t")[1] == ((), ("day",))
    new.write.saveAsTable(f"{T}_x")  # Spark passes `parquet` where nobody names a format
    new.writeTo(f"{T}_y").create()
    spark.catalog.createTable(f"{T}_z", schema=new.schema)
    assert [keys(parted, f"t_{one}") for one in "xyz"] == [[9], [9], []]


def test_a_frame_with_the_format_of_another_system_makes_no_table(spark, parted):
    new = spark.sql(NEW)
    for make, provider in (
        (lambda: new.writeTo(f"{T}_x").using("parquet").create(), "parquet"),
        (lambda: new.writeTo(T).using("parquet").createOrReplace(), "parquet"),
        (lambda: new.write.saveAsTable(f"{T}_x", format="orc"), "orc"),
        (lambda: spark.catalog.createTable(f"{T}_x", source="csv", schema=new.schema), "csv"),
    ):
        with pytest.raises(UnsupportedOperationException, match=f"created USING {provider}"):
            make()
    assert keys(parted) == [1, 2, 3, 4, 5]
    new.writeTo(f"{T}_x").using("tidelake").create()
    new.writeTo(f"{T}_y").using("paimon").create()
    assert parted.catalog.list_tables("default") == ["t", "t_x", "t_y"]


# ---- what changed


def test_options_of_a_read_say_which_changes_it_shows(spark, lake):
    lake.sql("CREATE TABLE t (k INT PRIMARY KEY, v STRING) TBLPROPERTIES ('bucket' = '1')")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    lake.sql("CALL sys.create_tag('default.t', 'first')")
    lake.sql("UPDATE t SET v = 'c' WHERE k = 2")
    lake.sql("DELETE FROM t WHERE k = 1")
    options = "WITH ('incremental-between' = 'first,3')"
    for name, columns in (("t", "k, v"), ("`t$audit_log`", "v, rowkind, k"), ("t", "v")):
        text = f"SELECT {columns} FROM {name} {options} ORDER BY ALL"
        by_us, by_spark = (
            [tuple(row) for row in doors.run(lake, text, door).collect()] for door in doors.DOORS
        )
        assert by_spark == by_us
    assert by_us == [("c",)]
    read = spark.read.option("incremental-between", "1,2")
    assert [tuple(row) for row in read.table(T).collect()] == [(2, "c")]
    for name, given, message in (
        ("t", "'incremental-between-timestamp' = '2026-01-01,2026-01-02'", "05:00.*lies before"),
        ("`t$audit_log`", "'incremental-between' = '3'", "must be two snapshots or tags"),
        ("`t$audit_log`", "'incremental-betwen' = '1,3'", "Did you mean 'incremental-between'"),
        ("`t$files`", "'bukcet' = '1'", "Did you mean 'bucket'"),
    ):
        with pytest.raises(IllegalArgumentException, match=message):
            spark.sql(f"SELECT * FROM tidelake.default.{name} WITH ({given})").collect()
    with pytest.raises(IllegalArgumentException, match="takes no options"):
        spark.sql("SELECT * FROM tidelake.sys.catalog_options WITH ('bucket' = '1')").collect()


# ---- procedures

VALUES = {
    ParameterType.TABLE: "'default.gone'",
    ParameterType.STRING: "'x'",
    ParameterType.LONG: "1",
    ParameterType.INTEGER: "1",
    ParameterType.BOOLEAN: "true",
    ParameterType.TIME: "'2026-11-30 10:00:00'",
}


def outcome(lake, text, door):
    """The rows, or the kind and the words of the error."""
    try:
        return [tuple(row) for row in doors.run(lake, text, door).collect()]
    except TidelakeError as error:
        return error.kind, error.message


@pytest.mark.share(2)
@pytest.mark.parametrize("by", ["name", "place"])
def test_every_procedure_is_called(lake, by):
    for name, procedure in PROCEDURES.items():
        heads = [f"`{one.name}` => " if by == "name" else "" for one in procedure.parameters]
        values = [VALUES[one.type] for one in procedure.parameters]
        arguments = ", ".join(map("".join, zip(heads, values, strict=True)))
        text = f"CALL sys.{name}({arguments})"
        assert outcome(lake, text, "spark.sql") == outcome(lake, text, "tl.sql"), text
