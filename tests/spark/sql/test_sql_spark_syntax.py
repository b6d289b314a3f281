"""Spellings of Spark that sqlglot does not parse: the rows of `spark.sql` on plain views."""

import pytest

import tidelake.spark
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query

T = [(1, "a", 10, [1, 2, 3]), (2, "b", 20, [4]), (3, "a", 30, []), (4, None, 40, None)]
U = [(1, "one"), (3, "three"), (9, "nine")]
T_SCHEMA, U_SCHEMA = "id int, g string, n int, l array<int>", "id int, name string"

QUERIES = [
    "SELECT corr(DISTINCT id, n), covar_pop(DISTINCT n, id), covar_samp(DISTINCT id, n) FROM t",
    "SELECT g, corr(DISTINCT id, n) FROM t GROUP BY g",
    "SELECT cast(v:path AS INT), v:path.deep[0]::INT, v:['path'] FROM"
    """ (SELECT parse_json(concat('{"path": ', n, '}')) AS v FROM t)""",
    "SELECT id >>> 1, n >> 1, -8 >>> id FROM t WHERE n >>> 1 > 5",
    "SELECT shuffle(l, 3) FROM t",
    "TABLE t",
    "TABLE t ORDER BY id DESC LIMIT 2",
    "SELECT id, name FROM u UNION ALL TABLE u",
    "SELECT * FROM (TABLE t) WHERE id IN (SELECT id FROM (TABLE u))",
    "WITH r AS (TABLE t) TABLE r",
    "WITH RECURSIVE r(k) MAX RECURSION LEVEL 8 AS (SELECT min(id) FROM t UNION ALL SELECT k + 1"
    " FROM r WHERE k < 5) SELECT * FROM r",
    "SELECT IDENTIFIER('id'), IDENTIFIER('t.' || 'n') FROM IDENTIFIER('t') WHERE"
    " IDENTIFIER('i' || 'd') > 1",
    "SELECT IDENTIFIER('coalesce')(g, 'none') FROM t",
    "FROM t |> WHERE id > 1",
    "FROM t |> WHERE t.id > 1 |> WHERE n < 40 |> SELECT id, n + 1 AS m |> ORDER BY m DESC"
    " |> LIMIT 1",
    "FROM t |> EXTEND n * 2 AS m |> SET n = id + 1 |> DROP l |> AS x |> WHERE x.n > 2",
    "FROM t |> SET id = 7 |> AS x |> WHERE x.id = 7",
    "FROM t |> DROP l, g",
    "TABLE t |> JOIN u USING (id) |> SELECT id, name",
    "FROM t |> WHERE id < 4 |> LEFT JOIN u ON t.id = u.id |> WHERE u.id IS NULL |> SELECT t.id",
    "FROM t |> AGGREGATE count(*), max(n) AS top",
    "FROM t |> AGGREGATE sum(n) AS s GROUP BY g AS k |> WHERE s > 20 |> SELECT k, s",
    "FROM t |> AGGREGATE GROUP BY g",
    "FROM t |> AGGREGATE GROUP BY g |> AS x |> WHERE x.g = 'a'",
    "SELECT id FROM t |> UNION ALL (FROM u |> SELECT id) |> WHERE id > 1",
    "WITH w AS (FROM t |> WHERE n > 10) FROM w |> JOIN w AS v USING (id) |> SELECT id, v.n",
    "FROM t |> PIVOT (sum(n) FOR g IN ('a', 'b'))",
    "VALUES (1), (2) AS v(x) |> WHERE x > 1",
    "SELECT id FROM t WHERE EXISTS (FROM u |> WHERE u.id = t.id)",
    "FROM t |> WHERE g = '|> WHERE' OR id = 2 |> SELECT struct(t.*) AS r",
]


def rows(frame):
    return sorted(map(str, frame.collect()))


@pytest.fixture(scope="module")
def syntax(spark, tmp_path_factory):
    """Tables t (two runs that must be merged) and u."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("syntax"))
    lake.sql(
        "CREATE TABLE t (id INT, g STRING, n INT, l ARRAY<INT>, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('bucket' = '1'); CREATE TABLE u (id INT, name STRING)"
    )
    lake.write([{"id": 2, "g": "z", "n": 0, "l": []}], "default.t")
    names = ("id", "g", "n", "l")
    lake.write([dict(zip(names, row, strict=True)) for row in T], "default.t")
    lake.write([{"id": key, "name": name} for key, name in U], "default.u")
    return lake


@pytest.fixture(scope="module")
def plain(spark):
    """A session of Spark alone, with views of the same rows."""
    other = spark.newSession()
    other.createDataFrame(T, T_SCHEMA).createOrReplaceTempView("t")
    other.createDataFrame(U, U_SCHEMA).createOrReplaceTempView("u")
    return other


@pytest.mark.share(2)
@pytest.mark.parametrize("text", QUERIES)
def test_a_query_in_a_spelling_of_spark_gives_sparks_rows(syntax, plain, text):
    found, expected = syntax.sql(text), plain.sql(text)
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("text", ["TABLE u", "FROM u |> WHERE id > 1 |> SELECT name AS called"])
def test_views_and_explain_take_them(syntax, plain, text):
    syntax.sql(f"CREATE OR REPLACE TEMPORARY VIEW tl_view AS {text}")
    assert rows(syntax.sql("TABLE tl_view |> WHERE true")) == rows(plain.sql(text))
    assert "Plan" in syntax.sql(f"EXPLAIN {text}").collect()[0][0]


def test_a_name_may_be_a_parameter(syntax):
    text = "SELECT id FROM IDENTIFIER(:table) WHERE IDENTIFIER(:column) > :least"
    given = {"table": "default.t", "column": "n", "least": 20}
    assert rows(syntax.sql(text, given)) == ["Row(id=3)", "Row(id=4)"]
    text = "SELECT id FROM IDENTIFIER(?) WHERE n > ? AND IDENTIFIER(?) < ?"
    assert rows(syntax.sql(text, ["t", 20, "n", 40])) == ["Row(id=3)"]


def test_statements_take_names_as_text(lake):
    lake.sql("CREATE TABLE IDENTIFIER('made' || '_1') (id INT, v INT)")
    lake.sql("INSERT INTO IDENTIFIER(:t) VALUES (1, 8), (2, 9)", {"t": "made_1"})
    lake.sql("UPDATE IDENTIFIER(:t) SET v = v >>> :by WHERE id = 1", {"t": "made_1", "by": 1})
    lake.sql("DELETE FROM made_1 WHERE id IN (TABLE made_1 |> WHERE v = 9 |> SELECT id)")
    assert rows(lake.sql("TABLE made_1")) == ["Row(id=1, v=4)"]


def test_with_may_stand_before_insert(lake):
    lake.sql("CREATE TABLE t (id INT, v STRING); CREATE TABLE s (id INT)")
    lake.sql("INSERT INTO s VALUES (1), (2)")
    lake.sql("WITH a AS (SELECT id FROM s) INSERT INTO t SELECT id, 'a' FROM a")
    lake.sql(
        "WITH a (k) AS (SELECT id FROM s) INSERT INTO t (v, id)"
        " WITH b AS (SELECT k + 2 AS k FROM a) SELECT 'b', k FROM b"
    )
    lake.sql(
        "WITH RECURSIVE r(n) AS (SELECT 5 UNION ALL SELECT n + 1 FROM r WHERE n < 6)"
        " INSERT INTO t SELECT n, 'r' FROM r"
    )
    lake.sql("INSERT INTO t TABLE t |> WHERE id = 1 |> EXTEND 'p' AS p |> SELECT id + 6, p")
    assert [(r.id, r.v) for r in lake.sql("SELECT * FROM t ORDER BY id").collect()] == [
        (1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "r"), (6, "r"), (7, "p"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT IDENTIFIER(lower('ID')) FROM t", UnsupportedError, "takes a string, a parameter"),
        ("SELECT IDENTIFIER(:p) FROM t", InvalidInputError, ":p has no value in args="),
        ("SELECT * FROM IDENTIFIER('a b')", InvalidInputError, "'a b' is not a name"),
        ("FROM t |> EXTEND __paimon_bucket AS b", UnsupportedError, "write SELECT"),
    ],
)
def test_what_is_not_covered_says_what_to_write(syntax, text, error, message):
    with pytest.raises(error, match=message):
        syntax.sql(text)


HANDED_OVER = [
    "SELECT id AS select, n AS from FROM t",
    "SELECT t.order, t.select FROM (SELECT id AS order, n AS select FROM t) t",
    "SELECT values FROM (SELECT id AS values FROM t WHERE n > 10)",
    "SELECT is, in, like FROM (SELECT id AS is, g AS in, n AS like FROM t)",
    "SELECT id, cast(null AS void) AS nothing FROM default.t",
    "SELECT id !> 2 AS a, id !< 3 AS b, g FROM t WHERE n !< 10",
    "SELECT x.id FROM default.t AS x, default.u, t WHERE x.id = u.id AND x.id !> 1",
    "FROM t |> WHERE n !> 20 |> AGGREGATE sum(n) AS select GROUP BY g",
    "SELECT g AS select FROM t PIVOT (sum(n) FOR id IN (1, 2)) WHERE `1` !> 9 OR true",
    "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n !> 3) FROM r SELECT n",
    "SELECT id AS select, y FROM t LATERAL VIEW explode(l) x AS y",
    "SELECT * FROM t TABLESAMPLE (100 PERCENT) WHERE id !> 2",
    "SELECT x.id, u.name FROM t AS x JOIN u ON x.id = u.id WHERE x.id !> 3",
    "SELECT all, any FROM (SELECT id AS all, n AS any FROM t)",
    "SELECT fetch, not FROM (SELECT max(id) AS fetch, 1 AS not FROM t)",
    "WITH u AS (SELECT id AS select FROM t) SELECT u.select FROM u",
    "SELECT id FROM u WHERE id !> 2 AND EXISTS (SELECT 1 AS select FROM t WHERE t.id = u.id)",
    "SELECT (SELECT max(n) AS select FROM t) AS where, name FROM u",
    "TABLE t UNION ALL SELECT id, g, n, l FROM t WHERE n !> 20",
    "SELECT '\U0001f30a' AS select, id FROM /* \U0001f30a */ t",
]
"""What sqlglot does not parse, and Spark does."""


@pytest.mark.share(2)
@pytest.mark.parametrize("text", HANDED_OVER)
def test_a_query_that_only_spark_can_parse_runs_as_it_stands(syntax, plain, text):
    with pytest.raises(InvalidInputError, match="cannot be parsed here"):
        parse_query(Query(text, 0, len(text)))
    found, expected = syntax.sql(text), plain.sql(text.replace("default.", ""))
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)


def test_what_is_handed_over_may_be_explained_written_and_viewed(lake):
    lake.sql("CREATE TABLE t (id INT, v STRING); CREATE TABLE s (id INT, v STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert "Plan" in lake.sql("EXPLAIN SELECT id AS select FROM t").collect()[0][0]
    lake.sql("INSERT INTO s SELECT id, v AS select FROM t WHERE id !> :most", {"most": 2})
    lake.sql("CREATE TEMPORARY VIEW w AS SELECT id AS select FROM s")
    assert rows(lake.sql("SELECT w.select FROM w WHERE w.select !< 2")) == ["Row(select=2)"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id AS select FROM t VERSION AS OF 1",
        "SELECT id AS select FROM t TIMESTAMP AS OF '2030-01-01'",
        "SELECT id AS select FROM t /*+ OPTIONS('scan.snapshot-id'='1') */",
        "SELECT id AS select FROM t WITH ('scan.snapshot-id' = '1')",
        "SELECT id AS select FROM STREAM t",
        "SELECT id AS select FROM paimon_incremental_query('t', 1, 2)",
        "SELECT id AS select FROM t$files",
        "SELECT schema_id AS select FROM `t$files`",
        # a name of WITH in one place and of a table in another
        "SELECT (WITH t AS (SELECT 7 AS id) SELECT id AS select FROM t) AS x, id FROM t",
        # a qualifier that the DataFrame in the place of the table would not have
        "SELECT default.t.id AS select FROM default.t",
        # TABLE is a name here, and begins a query elsewhere
        "SELECT table FROM (SELECT id AS table FROM t)",
        # no query
        "FROM t INSERT INTO u SELECT id, g INSERT INTO u SELECT id !> 2, g",
        "SELECT id AS select FROM t WHERE",  # which Spark takes for the table's alias
        "SELECT id AS select, n where FROM t",
        "SELECT id AS select FROM t JOIN",
    ],
)
def test_a_text_with_something_of_ours_is_not_handed_over(syntax, text):
    with pytest.raises(InvalidInputError, match=r"parsed here(.|\n)*\^"):
        syntax.sql(text)
    assert len(syntax.sql("SELECT * FROM u").collect()) == len(U)


def test_an_unknown_table_of_what_is_handed_over_is_shown(lake):
    lake.sql("CREATE TABLE t (id INT)")
    with pytest.raises(NotFoundError, match=r"tt.*At line 1, column 27:\n.*\n +\^"):
        lake.sql("SELECT id AS select FROM  tt")
