"""Queries that the kernel answers alone: what they give, and which are left to Spark."""

import dataclasses
from datetime import date

import pytest

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError
from tidelake.metadata import SchemaLog
from tidelake.sql import SqlSession, execute, parse
from tidelake.sql.execution.kernel_query import kernel_answer, plain_aggregates
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Orders of two commits (to be merged), a view."""
    session = SqlSession(tidelake.open(tmp_path_factory.mktemp("lake")))
    for statement in parse(
        "CREATE TABLE orders (id INT, item STRING, price DOUBLE, day DATE,"
        " PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');"
        "CREATE TEMPORARY VIEW few AS SELECT id FROM orders;"
        "CREATE TABLE lower_upper (a INT, b INT);"
        "CREATE TABLE shop.items (item STRING)"
    ):
        execute(statement, session)
    # as another engine may have made it
    alike = session.catalog.table("default.lower_upper")
    first, second = alike.table_schema.fields
    fields = (first, dataclasses.replace(second, name="A"))
    schema = dataclasses.replace(alike.table_schema, id=1, fields=fields)
    assert SchemaLog(alike.fileio, alike.paths).create(schema)
    orders = session.catalog.table("default.orders")
    days = [date(2026, 1, 1), date(2026, 1, 2), None]
    orders.write(
        [
            {"id": 1, "item": "tea", "price": 3.5, "day": days[0]},
            {"id": 2, "item": "rye", "price": 4.0, "day": days[1]},
            {"id": 3, "item": None, "price": 5.0, "day": days[2]},
        ]
    )
    orders.tags.create("first")
    orders.write([{"id": 2, "item": "tea", "price": 9.0, "day": days[1]}])
    return session


def answer(session, text, conf=None):
    (query,) = parse(text)
    return kernel_answer(query, session, conf=conf or {})


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("SELECT id FROM orders", ["id"], [(1,), (2,), (3,)]),
        ("SELECT * FROM orders WHERE id = 1", ["id", "item", "price", "day"],
         [(1, "tea", 3.5, date(2026, 1, 1))]),
        ("SELECT price AS p, ID, id FROM orders AS o WHERE o.id IN (1, 2) LIMIT 5",
         ["p", "ID", "id"], [(3.5, 1, 1), (9.0, 2, 2)]),
        ("SELECT o.item FROM default.orders o WHERE day >= '2026-01-02' AND price > 8", ["item"],
         [("tea",)]),
        ("SELECT id FROM tidelake.default.orders WHERE item IS NULL", ["id"], [(3,)]),
        ("SELECT id FROM orders WHERE item LIKE 't%' OR id = 3 LIMIT 2", ["id"], [(1,), (2,)]),
        ("SELECT id FROM orders LIMIT 0", ["id"], []),
        ("SELECT count(*) FROM orders", ["count(1)"], [(3,)]),
        ("SELECT count(*) AS n FROM orders WHERE item = 'tea'", ["n"], [(2,)]),
        ("SELECT price FROM orders VERSION AS OF 1 WHERE id = 2", ["price"], [(4.0,)]),
        ("SELECT price FROM orders VERSION AS OF 'first' WHERE id = 2", ["price"], [(4.0,)]),
        ("SELECT price FROM orders /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE id = 2",
         ["price"], [(4.0,)]),
        ("SELECT count(*) FROM orders VERSION AS OF 1 WHERE item = 'tea'", ["count(1)"], [(1,)]),
        ("SELECT snapshot_id FROM orders$snapshots WHERE commit_kind = 'APPEND'",
         ["snapshot_id"], [(1,), (2,)]),
        ("SELECT snapshot_id AS s FROM orders$snapshots ORDER BY commit_kind, snapshot_id DESC"
         " LIMIT 1", ["s"], [(2,)]),
        ("SELECT count(*) FROM orders$files", ["count(1)"], [(2,)]),
        ("SELECT rowkind, id FROM orders$audit_log WHERE id = 3", ["rowkind", "id"], [("+I", 3)]),
    ],
)  # fmt: skip
def test_answers(session, text, names, rows):
    reader = answer(session, text)
    assert reader.schema.names == names
    columns = [column.to_pylist() for column in reader.read_all().columns]
    assert list(zip(*columns, strict=True)) == rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(id) FROM orders",
        "SELECT id + 1 FROM orders",
        "SELECT DISTINCT id FROM orders",
        "SELECT id FROM orders ORDER BY id",
        "SELECT id FROM orders GROUP BY id",
        "SELECT id FROM orders LIMIT 1 OFFSET 1",
        "SELECT id FROM orders LIMIT ALL",
        "SELECT id FROM orders WHERE upper(item) = 'TEA'",
        "SELECT id FROM orders WHERE id = 1 AND rand() < 1",
        "SELECT id FROM orders WHERE NOT id = 1",
        "SELECT id FROM orders TABLESAMPLE (10 PERCENT)",
        "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id",
        "SELECT id FROM orders, orders$files",
        "SELECT id FROM (SELECT id FROM orders)",
        "SELECT id FROM orders UNION ALL SELECT id FROM orders",
        "WITH o AS (SELECT id FROM orders) SELECT id FROM o",
        "SELECT x.i FROM orders AS x(i, t, p, d)",
        "SELECT count(id) FROM orders",
        "SELECT count(*), 1 FROM orders",
        "SELECT count(*) FROM orders LIMIT 0",
        "SELECT current_date FROM orders",
        "SELECT item.length FROM orders",
        "SELECT * EXCEPT (id) FROM orders",
        "SELECT a FROM lower_upper",
        "SELECT id FROM few",
        "SELECT 1",
        "VALUES (1)",
        "EXPLAIN SELECT id FROM orders",
        "SELECT id FROM orders /*+ OPTIONS('incremental-between'='1,2') */",
        "SELECT id FROM paimon_incremental_query('orders', 1, 2)",
        "SELECT snapshot_id FROM orders$snapshots ORDER BY snapshot_id NULLS LAST",
        "SELECT snapshot_id AS commit_kind FROM orders$snapshots ORDER BY commit_kind",
        "SELECT snapshot_id FROM orders$snapshots ORDER BY 1",
        "SELECT id FROM orders$binlog WHERE rowkind = '+I'",
        "SELECT * FROM parquet.`/no/such/place`",
    ],
)
def test_left_to_spark(session, text):
    assert answer(session, text) is None


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("SELECT ide FROM orders", InvalidInputError, "Did you mean 'id'? At line 1, column 8:"),
        ("SELECT id FROM ordres", NotFoundError, "Did you mean 'orders'? At line 1, column 16:"),
        ("SELECT 1 FROM orders JOIN x ON 1 = 1", NotFoundError, "view 'x' in database 'default'"),
        ("SELECT id FROM nowhere.orders", NotFoundError, "nowhere"),
        ("SELECT 1 FROM items", NotFoundError, "'shop' has one: write shop.items, or USE shop."),
        ("SELECT 1 FROM items$files", NotFoundError, "write shop.items$files, or"),
        ("SELECT id FROM orders VERSION AS OF 99", TidelakeError, "99"),
        ("SELECT id FROM orders WITH ('no-such-option' = '1')", InvalidInputError, "no-such"),
        ("SELECT id FROM orders$fils", NotFoundError, "'files'"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(session, text, error, words):
    with pytest.raises(error) as caught:
        answer(session, text)
    assert words in str(caught.value)


def test_settings_that_spark_would_have_count(session):
    text = "SELECT price FROM orders WHERE id = 2"
    conf = {"spark.tidelake.scan.snapshot-id": "1"}
    assert answer(session, text, conf).read_all().to_pylist() == [{"price": 4.0}]
    assert answer(session, "SELECT 1 FROM x.y.z", {"spark.sql.catalog.x": "c"}) is None


@pytest.mark.parametrize(
    "read",
    [
        "SELECT a FROM renamed VERSION AS OF 1 WHERE a = 1",
        "SELECT a FROM renamed /*+ OPTIONS('scan.snapshot-id' = '1') */ WHERE a = 1",
    ],
)
def test_a_read_of_a_moment_has_the_columns_of_that_moment(tmp_path, read):
    session = SqlSession(tidelake.open(tmp_path))
    for statement in parse("CREATE TABLE renamed (a INT)"):
        execute(statement, session)
    table = session.catalog.table("default.renamed")
    table.write([{"a": 1}])
    table.alter(tidelake.RenameColumn("a", "c"))
    assert answer(session, read).read_all().to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT count(*) FROM t", ["count(1)"]),
        ("SELECT COUNT(*) AS n, Min(A), max(x.`B c`) FROM t AS x", ["n", "min(A)", "max(B c)"]),
        ("SELECT count(a), max(a) m FROM db.t WHERE a = 1", ["count(a)", "m"]),
        ("SELECT max(a) - 1 FROM t", None),
        ("SELECT max(a + 1) FROM t", None),
        ("SELECT count(DISTINCT a) FROM t", None),
        ("SELECT count(a, `B c`) FROM t", None),
        ("SELECT DISTINCT max(a) FROM t", None),
        ("SELECT max(a) FILTER (WHERE a > 1) FROM t", None),
        ("SELECT max(a) OVER () FROM t", None),
        ("SELECT max(nope) FROM t", None),
        ("SELECT max(y.a) FROM t AS x", None),
        ("SELECT max(a), a FROM t GROUP BY a", None),
        ("SELECT max(a) FROM t HAVING max(a) > 1", None),
        ("SELECT max(q) FROM t AS x(q, r)", None),
        ("SELECT count(*) FROM t TABLESAMPLE (10 PERCENT)", None),
    ],
)
def test_aggregates_that_metadata_may_answer(text, names):
    parsed = parse_query(Query(text, 0, len(text)))
    (reference,) = parsed.references
    found = plain_aggregates(parsed, reference, ["a", "B c"])
    assert names == (None if found is None else [one.name for one in found])
