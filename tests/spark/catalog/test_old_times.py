"""Filters and partitions of old days and instants, in all zones: no row is lost.

Spark gives sources such values as ``java.sql.Date`` and ``java.sql.Timestamp``, after it has moved
them to the Julian calendar and to the zone of the JVM.
"""

from __future__ import annotations

import contextlib
import datetime as dt

import pyarrow as pa
import pytest
import quick_spark
from pyspark.sql import functions as F
from sizes import FULL, SIZE

import tidelake.spark

DAYS = [
    dt.date.fromisoformat(text)
    for text in (
        *("0001-01-02", "1000-01-01", "1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14"),
        *("1582-10-15", "1583-01-01", "1883-11-18", "1900-01-01", "1969-12-31", "2038-01-19"),
        "9999-12-30",
    )
]
FEW = (1, 4, 8, 11) if SIZE is FULL else (1, 8)
"""Days for what takes long: before and after the calendars part, in small."""
NOON = dt.time(17, 2, 3, 456789)
ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "Europe/Amsterdam")
SHAPES = {
    "equal": lambda value, _: f"{{}} = {value}",
    "null safe": lambda value, _: f"{{}} <=> {value}",
    "less": lambda value, _: f"{{}} < {value}",
    "at most": lambda value, _: f"{{}} <= {value}",
    "more": lambda value, _: f"{{}} > {value}",
    "at least": lambda value, _: f"{{}} >= {value}",
    "one of": lambda value, other: f"{{}} IN ({value}, {other})",
    "not": lambda value, _: f"NOT ({{}} = {value})",
    "or": lambda value, _: f"({{}} = {value} OR i < 0)",
}
KEEPS = {
    "equal": lambda a, b, _: a == b,
    "null safe": lambda a, b, _: a == b,
    "less": lambda a, b, _: a < b,
    "at most": lambda a, b, _: a <= b,
    "more": lambda a, b, _: a > b,
    "at least": lambda a, b, _: a >= b,
    "one of": lambda a, b, c: a in (b, c),
    "not": lambda a, b, _: a != b,
    "or": lambda a, b, _: a == b,
}
COLUMNS = {
    "d": (DAYS, lambda value: f"DATE '{value}'"),
    "l": (
        [dt.datetime.combine(day, NOON, dt.UTC) for day in DAYS],
        lambda value: f"TIMESTAMP_LTZ '{value.isoformat(' ')}'",
    ),
    "n": (
        [dt.datetime.combine(day, NOON) for day in DAYS],
        lambda value: f"TIMESTAMP_NTZ '{value.isoformat(' ')}'",
    ),
}


def rows_of(numbers):
    columns = {name: [values[i] for i in numbers] for name, (values, _) in COLUMNS.items()}
    columns["l"] = pa.array(columns["l"], pa.timestamp("us", "UTC"))
    return pa.table({"i": pa.array(numbers, pa.int32()), **columns})


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Tables with a file for each row: what a filter leaves out too much is seen."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("old"), catalog="old")
    columns = "i INT, d DATE, l TIMESTAMP_LTZ(6), n TIMESTAMP(6)"
    lake.sql(
        f"CREATE TABLE db.plain ({columns});"
        f"CREATE TABLE db.by_day ({columns}) PARTITIONED BY (d);"
        f"CREATE TABLE db.by_moment ({columns}) PARTITIONED BY (l);"
        f"CREATE TABLE db.keyed ({columns}, PRIMARY KEY (i) NOT ENFORCED)"
        " WITH ('bucket' = '1', 'write-only' = 'true')"
    )
    for name in ("plain", "by_day", "by_moment", "keyed"):
        table = lake.catalog.table(f"db.{name}")
        for number in range(len(DAYS)):
            table.write(rows_of([number]))
    return lake


@contextlib.contextmanager
def zones(spark, *, jvm, session):
    """The zones of the JVM, by which Spark moves old times, and of the session."""
    kind = spark._jvm.java.util.TimeZone
    before = kind.getDefault()
    kind.setDefault(kind.getTimeZone(jvm))
    try:
        with quick_spark.settings(spark, {"spark.sql.session.timeZone": session}):
            yield
    finally:
        kind.setDefault(before)


def found_by(frame):
    return sorted(row.i for row in frame.select("i").collect())


def kept(column, shape, number):
    values = COLUMNS[column][0]
    value, other = values[number], values[number - 1]
    return [i for i, own in enumerate(values) if KEEPS[shape](own, value, other)]


def condition(column, shape, number):
    values, literal = COLUMNS[column]
    text = SHAPES[shape](literal(values[number]), literal(values[number - 1]))
    return text.format(column)


def drawn():
    """Each time with each shape; columns, tables and zones go round, so that all pairs meet."""
    turn = 0
    for number in range(len(DAYS)):
        for shape in SHAPES:
            turn += 1
            if turn % SIZE.old_times_step:
                continue
            yield pytest.param(
                ("d", "l", "n")[turn % 3 if turn % 7 else 1],
                shape,
                number,
                ("plain", "by_day", "by_moment", "keyed")[(turn // 2) % 4],
                (ZONES[turn % 4], ZONES[(turn // 4) % 4]),
                id=f"{DAYS[number]}-{shape}",
            )


@pytest.mark.parametrize(("column", "shape", "number", "table", "zone"), list(drawn()))
def test_a_filter_on_an_old_time_keeps_its_rows(spark, lake, column, shape, number, table, zone):
    wanted, where = kept(column, shape, number), condition(column, shape, number)
    with zones(spark, jvm=zone[0], session=zone[1]):
        plain = spark.sql(f"SELECT i FROM old.db.{table} WHERE {where}")
        assert found_by(plain) == wanted
        assert found_by(lake.table(f"db.{table}").where(where)) == wanted
        assert found_by(lake.sql(f"SELECT i FROM db.{table} WHERE {where}")) == wanted


@pytest.mark.share(2)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("java8", ["true", "false"])
def test_java_times_of_both_kinds_keep_the_rows(spark, lake, zone, java8):
    with (
        zones(spark, jvm=zone, session=zone),
        quick_spark.settings(spark, {"spark.sql.datetime.java8API.enabled": java8}),
    ):
        for column in COLUMNS:
            for number in FEW:
                where = condition(column, "equal", number)
                rows = spark.sql(f"SELECT i FROM old.db.by_day WHERE {where}")
                assert found_by(rows) == [number], where


@pytest.mark.share(2)
@pytest.mark.parametrize("zone", ZONES[:2])
def test_the_data_source_keeps_the_rows_of_old_times(spark, lake, zone):
    place = lake.catalog.table("db.plain").handle.uri
    with zones(spark, jvm=zone, session=zone):
        for column in COLUMNS:
            for number in FEW:
                where = condition(column, "at least", number)
                rows = spark.read.format("tidelake").load(place).where(where)
                assert found_by(rows) == kept(column, "at least", number), where


@pytest.mark.share(2)
@pytest.mark.parametrize("zone", ZONES[1:3])
def test_streams_keep_the_rows_of_old_times(spark, lake, tmp_path, zone):
    wheres = [condition(c, "at least", n) for c in ("d", "l") for n in FEW]
    wanted = [kept(c, "at least", n) for c in ("d", "l") for n in FEW]
    with zones(spark, jvm=zone, session=zone):
        for number, where in enumerate(wheres):
            name = f"old_times_{number}"
            query = (
                spark.readStream.table("old.db.plain")
                .where(where)
                .writeStream.format("memory")
                .queryName(name)
                .option("checkpointLocation", str(tmp_path / name))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            assert found_by(spark.table(name)) == wanted[number], where
            spark.catalog.dropTempView(name)


@pytest.mark.share(2)
@pytest.mark.parametrize("zone", ZONES[:2])
def test_an_overwrite_replaces_the_partition_of_an_old_time(spark, lake, zone):
    replaced = (1, 4, 9) if SIZE is FULL else (4,)
    for column, table in (("d", "by_day"), ("l", "by_moment")):
        copy = f"db.copy_{table}"
        lake.sql(f"DROP TABLE IF EXISTS {copy}")
        columns = "i INT, d DATE, l TIMESTAMP_LTZ(6), n TIMESTAMP(6)"
        lake.sql(f"CREATE TABLE {copy} ({columns}) PARTITIONED BY ({column})")
        lake.catalog.table(copy).write(rows_of(list(range(len(DAYS)))))
        values, literal = COLUMNS[column]
        others = [name for name in COLUMNS if name != column]
        with zones(spark, jvm=zone, session=zone):
            for number in replaced:
                value = literal(values[number])
                made = ", ".join(COLUMNS[o][1](COLUMNS[o][0][number]) for o in others)
                spark.sql(
                    f"INSERT OVERWRITE old.{copy} PARTITION ({column} = {value})"
                    f" SELECT {100 + number}, {made}"
                )
                spark.sql(f"SELECT {200 + number} AS i, {value} AS {column}, {made}").toDF(
                    "i", column, *others
                ).writeTo(f"old.{copy}").overwrite(F.col(column) == F.expr(value))
        found = lake.catalog.table(copy).to_arrow().sort_by("i").to_pylist()
        wanted = {i: i for i in range(len(DAYS))} | {n: 200 + n for n in replaced}
        assert {row["i"] for row in found} == set(wanted.values())
        for row in found:
            number = row["i"] % 100 if row["i"] >= 100 else row["i"]
            assert row[column] == values[number]


def test_python_times_are_written_as_they_are(spark, lake):
    lake.sql("CREATE TABLE db.set_here (i INT, d DATE, l TIMESTAMP_LTZ(6), n TIMESTAMP(6))")
    lake.catalog.table("db.set_here").write(rows_of(list(range(len(DAYS)))))
    set_ = range(0, len(DAYS), 1 if SIZE is FULL else 5)
    for zone in ZONES[:2]:
        with zones(spark, jvm=zone, session=zone):
            for number in set_:
                new = {name: values[number - 1] for name, (values, _) in COLUMNS.items()}
                lake.update("db.set_here", new, where=f"i = {number}")
        found = lake.catalog.table("db.set_here").to_arrow().sort_by("i").to_pylist()
        for row in found:
            for name, (values, _) in COLUMNS.items():
                assert row[name] == values[row["i"] - (row["i"] in set_)], (name, row)
