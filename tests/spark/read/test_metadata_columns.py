"""Metadata columns: where a row lies, by ``tl.sql``, ``tl.table`` and plain ``spark.sql``."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

import tidelake.spark
from tidelake import InvalidInputError, UnsupportedError

PATH, INDEX = "__paimon_file_path", "__paimon_row_index"
PARTITION, BUCKET = "__paimon_partition", "__paimon_bucket"


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A partitioned append table in two commits, an append table that lost rows, keyed ones."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("meta"), catalog="meta")
    lake.sql(
        "CREATE TABLE d.parts (id INT, v STRING, day STRING, h INT) PARTITIONED BY (day, h)"
        " WITH ('bucket' = '-1', 'file-index.bloom-filter.columns' = 'v');"
        "INSERT INTO d.parts VALUES (1,'a','d1',1),(2,'b','d1',1),(3,'c','d2',2),(4,'d',NULL,3);"
        "INSERT INTO d.parts VALUES (5,'e','d1',1);"
        "CREATE TABLE d.vectors (id INT, v STRING)"
        " WITH ('bucket' = '-1', 'deletion-vectors.enabled' = 'true')"
    )
    lake.write(spark.range(100, numPartitions=1).selectExpr("int(id) id", "'x' v"), "d.vectors")
    lake.sql("DELETE FROM d.vectors WHERE id % 10 < 3")
    lake.sql(
        "CREATE TABLE d.keyed (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('bucket' = '1');"
        "INSERT INTO d.keyed VALUES (1,'a'),(2,'b')"
    )
    return lake


@pytest.fixture(params=["tl.sql", "spark.sql"])
def run(request, lake):
    """Runs a query by either way; ``@`` is the database."""

    def rows(text):
        if request.param == "tl.sql":
            return lake.sql(text.replace("@", "d.")).collect()
        return lake.spark.sql(text.replace("@", "meta.d.")).collect()

    return rows


def test_they_are_as_java_gives_them(lake, run):
    found = run(f"SELECT *, {PATH}, {PARTITION}, {BUCKET}, {INDEX} FROM @parts ORDER BY id")
    assert found[0].asDict().keys() == {"id", "v", "day", "h", PATH, PARTITION, BUCKET, INDEX}
    assert [(r.id, r[PARTITION], r[BUCKET], r[INDEX]) for r in found] == [
        (1, Row(day="d1", h=1), 0, 0),
        (2, Row(day="d1", h=1), 0, 1),
        (3, Row(day="d2", h=2), 0, 0),
        (4, Row(day=None, h=3), 0, 0),
        (5, Row(day="d1", h=1), 0, 0),
    ]
    for row in found:  # the file has the row there
        assert pq.read_table(row[PATH]).to_pylist()[row[INDEX]]["id"] == row.id
    files = lake.sql("SELECT file_path FROM d.parts$files").collect()
    assert {row[PATH] for row in found} == {row.file_path for row in files}


def test_types(lake):
    text = f"SELECT {PATH}, {INDEX}, {PARTITION}, {BUCKET} FROM "
    wanted = f"{PATH} string, {INDEX} bigint, {PARTITION} struct<day:string,h:int>, {BUCKET} int"
    for frame in (lake.sql(f"{text} d.parts"), lake.spark.sql(f"{text} meta.d.parts")):
        assert (
            frame.schema.simpleString() == f"struct<{wanted.replace(', ', ',').replace(' ', ':')}>"
        )


def test_a_star_never_shows_them(run):
    assert run("SELECT * FROM @parts")[0].asDict().keys() == {"id", "v", "day", "h"}
    both = run(f"SELECT * FROM @parts WHERE {INDEX} = 1")
    assert [r.asDict() for r in both] == [{"id": 2, "v": "b", "day": "d1", "h": 1}]
    found = run(
        f"SELECT a.*, b.v AS w FROM @parts a JOIN @parts b ON a.{PATH} = b.{PATH} AND a.id < b.id"
    )
    assert [tuple(r) for r in found] == [(1, "a", "d1", 1, "b")]


def test_a_query_around_sees_what_is_named(run):
    found = run(f"SELECT * FROM (SELECT id, {BUCKET} FROM @parts) x WHERE id = 1")
    assert [r.asDict() for r in found] == [{"id": 1, BUCKET: 0}]


def test_a_query_around_does_not_see_what_is_not_named(lake):
    with pytest.raises(InvalidInputError, match=BUCKET):
        lake.sql(f"SELECT {BUCKET} FROM (SELECT * FROM d.parts) x")


def test_they_may_stand_alone_and_in_every_clause(run):
    assert [tuple(r) for r in run(f"SELECT {INDEX} FROM @parts WHERE id = 2")] == [(1,)]
    grouped = run(f"SELECT {PARTITION}.day, count(*) FROM @parts GROUP BY {PARTITION} ORDER BY 1")
    assert [tuple(r) for r in grouped] == [(None, 1), ("d1", 3), ("d2", 1)]
    kept = run(f"SELECT id FROM @parts WHERE {PARTITION}.day = 'd1' ORDER BY {INDEX} DESC, id")
    assert [r.id for r in kept] == [2, 1, 5]
    assert run(f"SELECT max({INDEX}) FROM @parts")[0][0] == 1


def test_deleted_rows_are_counted(run):
    found = run(f"SELECT id, {INDEX} FROM @vectors ORDER BY id")
    assert [tuple(r) for r in found] == [(i, i) for i in range(100) if i % 10 >= 3]
    found = run(f"SELECT id, {INDEX} FROM @vectors WHERE id > 55 AND id < 65 ORDER BY id")
    assert [tuple(r) for r in found] == [(i, i) for i in (56, 57, 58, 59, 63, 64)]


def test_an_unpartitioned_table_has_an_empty_partition(run):
    assert run(f"SELECT {PARTITION}, id FROM @vectors WHERE id = 3") == [
        Row(**{PARTITION: Row(), "id": 3})
    ]


def test_filters_on_other_columns_prune(lake, run):
    for text in ("day = 'd2'", "v = 'c'", "id = 3"):
        found = run(f"SELECT {PATH} FROM @parts WHERE {text}")
        assert ["day=d2" in r[PATH] for r in found] == [True]
    scans = lake.catalog.table("d.parts").plan(where="id = 3")
    frame = lake.table("d.parts", columns=[PATH, "id"], where="id = 3")
    assert scans.files_read == 1 < lake.catalog.table("d.parts").plan().files_read
    assert len(frame.collect()) == 1
    assert frame.rdd.getNumPartitions() == 1  # a task a split, and one split is left


def test_rows_that_a_merge_makes_lie_in_no_file(lake, run):
    text = f"SELECT id, {PATH}, {INDEX} FROM @keyed ORDER BY id"
    assert [r[INDEX] for r in run(text)] == [0, 1]  # one run: nothing is merged
    lake.sql("INSERT INTO d.keyed VALUES (1,'A')")
    try:
        with pytest.raises(
            Exception, match=f"{PATH} and {INDEX} of table .*keyed.* cannot be read"
        ):
            run(text)
        found = run(f"SELECT id, v, {BUCKET} FROM @keyed ORDER BY id")
        assert [tuple(r) for r in found] == [(1, "A", 0), (2, "b", 0)]
    finally:
        lake.compact("d.keyed", full=True)
    found = run(f"SELECT id, v, {INDEX} FROM @keyed ORDER BY id")
    assert [tuple(r) for r in found] == [(1, "A", 0), (2, "b", 1)]


def test_moments_have_their_own_files(lake, run):
    found = run(f"SELECT count(DISTINCT {PATH}) FROM @parts VERSION AS OF 1")
    assert found[0][0] == 3


def test_dataframes(lake):
    frame = lake.table("d.parts", columns=[INDEX, "id", PARTITION], where="day = 'd1'")
    assert frame.columns == [INDEX, "id", PARTITION]
    assert sorted((r.id, r[INDEX]) for r in frame.collect()) == [(1, 0), (2, 1), (5, 0)]
    named = lake.spark.table("meta.d.parts").select("id", BUCKET).where("id = 1")
    assert [tuple(r) for r in named.collect()] == [(1, 0)]
    assert INDEX not in lake.table("d.parts").columns


def test_what_would_show_them_by_accident_is_refused(lake):
    with pytest.raises(UnsupportedError, match="NATURAL JOIN"):
        lake.sql(f"SELECT a.{BUCKET} FROM d.parts a NATURAL JOIN d.parts b")
    with pytest.raises(UnsupportedError, match="EXCEPT"):
        lake.sql(f"SELECT * EXCEPT (v), {BUCKET} FROM d.parts")


def test_a_column_of_the_table_hides_them(lake, run):
    lake.sql(
        f"CREATE TABLE IF NOT EXISTS d.own (id INT, {BUCKET} STRING) WITH ('bucket' = '-1');"
        "TRUNCATE TABLE d.own; INSERT INTO d.own VALUES (1, 'mine')"
    )
    assert [tuple(r) for r in run(f"SELECT *, {INDEX} FROM @own")] == [(1, "mine", 0)]
