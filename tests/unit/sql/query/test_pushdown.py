from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tidelake.sql.query.pushdown import pushed_filter
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import Compare

FIELDS = [
    DataField(n, name, parse_type(text))
    for n, (name, text) in enumerate(
        {
            "id": "BIGINT",
            "n": "INT",
            "day": "DATE",
            "item": "STRING",
            "code": "CHAR(3)",
            "price": "DOUBLE",
            "ratio": "FLOAT",
            "cost": "DECIMAL(10, 2)",
            "ok": "BOOLEAN",
            "at": "TIMESTAMP(3)",
            "seen": "TIMESTAMP_LTZ(3)",
        }.items()
    )
]
COLUMNS = [f.name for f in FIELDS]


def filter_of(text, name="t", fields=FIELDS, columns=None):
    parsed = parse_query(Query(text, 0, len(text)))
    reference = next(r for r in parsed.references if r.name.parts[-1] == name)
    known = {r: COLUMNS if columns is None else columns[str(r.name)] for r in parsed.references}
    found = pushed_filter(parsed, reference, fields, known)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("id = 1", "id == 1"),
        ("1 = id", "id == 1"),
        ("5 > id", "id < 5"),
        ("id <> -1", "id != -1"),
        ("id > 1.5", "id > Decimal('1.5')"),
        ("t.id >= 1 AND T.ID <= 2", "id >= 1 AND id <= 2"),
        ("(id = 1) AND (n = 2 AND (price < 3))", "id == 1 AND n == 2 AND price < 3.0"),
        ("id = 1 OR n = 2", "id == 1 OR n == 2"),
        ("id = 1 OR id = 2 OR 3 = id", "id IN (1, 2, 3)"),
        ("price = 0 OR price = 1 OR n = 2", "price == 0.0 OR price == 1.0 OR n == 2"),
        ("(id = 1 OR n = 2) AND ok = true", "(id == 1 OR n == 2) AND ok == True"),
        ("id BETWEEN 1 AND 5", "id >= 1 AND id <= 5"),
        ("id IN (1, 2)", "id IN (1, 2)"),
        ("id IS NULL", "id IS NULL"),
        ("id IS NOT NULL", "id IS NOT NULL"),
        ("NOT id IS NULL", "id IS NOT NULL"),
        ("day = DATE '2026-01-01'", "day == datetime.date(2026, 1, 1)"),
        ("day >= '2026-01-01'", "day >= datetime.date(2026, 1, 1)"),
        ("item = 'a'", "item == 'a'"),
        ("item LIKE 'a%'", "item STARTS WITH 'a'"),
        ("cost < 1.25", "cost < Decimal('1.25')"),
        ("price = 1", "price == 1.0"),
        ("ratio = 0.5", "ratio == 0.5"),
        # what is sure stays where something else is not
        ("id = 1 AND upper(item) = 'A'", "id == 1"),
    ],
)
def test_conditions_that_are_surely_the_same(condition, predicate):
    assert filter_of(f"SELECT * FROM t WHERE {condition}") == predicate


@pytest.mark.parametrize(
    "condition",
    [
        "id = n",
        "id + 1 = 2",
        "abs(id) = 1",
        "id = '1'",  # Spark makes a number of the text
        "item = 1",  # and here too
        "day = '2026-1-1'",  # a date to Spark
        "day = '2026-02-30'",
        "day = 'today'",
        "item LIKE 'a_'",
        "item LIKE '%a'",
        "item LIKE 'a%b%'",
        r"item LIKE 'a\\%'",
        "item NOT LIKE 'a%'",
        "item LIKE 'a%' ESCAPE 'a'",
        "item LIKE ANY ('a%')",
        "item ILIKE 'a%'",
        "id NOT BETWEEN 1 AND 2",
        "id BETWEEN SYMMETRIC 2 AND 1",
        "id IS DISTINCT FROM 1",
        "ok IS TRUE",
        "ok IS NOT TRUE",
        "NOT ok IS NOT NULL",
        "code = 'abc'",
        r"item = 'a\'b'",
        r"item = 'a' AND upper(item) = '\n'",  # what a backslash means is the session's
        'item = "a"',  # a name, where the session says so
        "item = 'it''s'",
        "ratio = 0.1",  # no float is that
        "price = 1e3",
        "price = 1D",
        "at = '2026-01-01 00:00:00'",
        "at = TIMESTAMP '2026-01-01 00:00:00'",
        "seen > '2026-01-01'",
        "id = NULL",
        "id IN (1, NULL)",
        "id IN (SELECT n FROM u)",
        "id <=> 1",
        "NOT id = 1",
        "id NOT IN (1)",
        "id = 1 OR upper(item) = 'A'",
        "s.id = 1",
        "id = ?",
        "id = :x",
        "rand() > 0.5",
        "true",
    ],
)
def test_conditions_that_might_mean_something_else_stay_with_spark(condition):
    assert filter_of(f"SELECT * FROM t WHERE {condition}") is None


JOINED = "id == 1"


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("SELECT * FROM t JOIN u ON t.k = u.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM u JOIN t ON t.k = u.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM u JOIN t ON t.k = u.k AND t.id = 1", JOINED),
        ("SELECT * FROM u CROSS JOIN t WHERE t.id = 1", JOINED),
        ("SELECT * FROM u, t WHERE t.id = 1", JOINED),
        ("SELECT * FROM t LEFT JOIN u ON t.k = u.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM t LEFT JOIN u ON t.k = u.k AND t.id = 1", None),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k AND t.id = 1", JOINED),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k WHERE t.id = 1", None),
        ("SELECT * FROM u LEFT JOIN t ON t.k = u.k WHERE t.id IS NULL", None),
        ("SELECT * FROM t RIGHT JOIN u ON t.k = u.k WHERE t.id = 1", None),
        ("SELECT * FROM u RIGHT JOIN t ON t.k = u.k WHERE t.id = 1", None),
        ("SELECT * FROM t FULL JOIN u ON t.k = u.k WHERE t.id = 1", None),
        ("SELECT * FROM u FULL JOIN t ON t.k = u.k WHERE t.id = 1", None),
        ("SELECT * FROM t JOIN u ON t.k = u.k RIGHT JOIN v ON v.k = t.k WHERE t.id = 1", None),
        ("SELECT * FROM u JOIN t ON t.k = u.k FULL JOIN v ON v.k = t.k AND t.id = 1", None),
        ("SELECT * FROM u JOIN t ON t.id = 1 FULL JOIN v ON v.k = t.k", None),
        ("SELECT * FROM u JOIN t ON t.k = u.k LEFT JOIN v ON v.k = t.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.k = u.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM t LEFT ANTI JOIN u ON t.k = u.k WHERE t.id = 1", JOINED),
        ("SELECT * FROM t LEFT ANTI JOIN u ON t.k = u.k AND t.id = 1", None),
        ("SELECT * FROM u LEFT ANTI JOIN t ON t.k = u.k AND t.id = 1", None),
        ("SELECT * FROM u LEFT SEMI JOIN t ON t.k = u.k AND t.id = 1", None),
        ("SELECT * FROM t NATURAL JOIN u WHERE t.id = 1", None),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) WHERE t.id = 1", None),
        ("SELECT * FROM t AS t(a,b,c,d,e,f,g,h,i,j,k) WHERE t.id = 1", None),
        ("SELECT * FROM (SELECT * FROM t) x WHERE x.id = 1", JOINED),
        ("SELECT * FROM (SELECT * FROM t WHERE id = 1) x", JOINED),
        ("SELECT * FROM t HAVING t.id = 1", None),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.id = 1 AND t.k = u.k)", JOINED),
        ("SELECT * FROM t WHERE t.id = 1 UNION SELECT * FROM u WHERE u.id = 2", JOINED),
    ],
)
def test_filters_pass_joins_that_let_them(text, predicate):
    assert filter_of(text) == predicate


def test_a_column_without_qualifier_is_pushed_where_no_other_table_has_it():
    text = "SELECT * FROM t JOIN u ON t.k = u.k WHERE id = 1"
    assert filter_of(text, columns={"t": COLUMNS, "u": ["k"]}) == JOINED
    assert filter_of(text, columns={"t": COLUMNS, "u": ["k", "ID"]}) is None
    lateral = "SELECT * FROM t LATERAL VIEW explode(item) e AS id WHERE id = 1"
    assert filter_of(lateral) is None
    derived = "SELECT * FROM t JOIN (SELECT 1 AS id) u WHERE id = 1"
    assert filter_of(derived) is None


def test_names_that_differ_by_case_alone_push_nothing():
    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "ID", parse_type("INT"))]
    assert filter_of("SELECT * FROM t WHERE t.id = 1", fields=fields) is None


def test_an_alias_that_is_also_a_column_pushes_nothing():
    # item.id may be a field of the struct "item"
    assert filter_of("SELECT * FROM t AS item WHERE item.id = 1") is None


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_more_digits_than_a_product_keeps_is_whole(sign):
    digits = "12345678901234567890123456789012345678"
    fields = [DataField(0, "wide", parse_type("DECIMAL(38, 0)"))]
    found = filter_of(f"SELECT * FROM t WHERE wide = {sign}{digits}", fields=fields)
    assert found == f"wide == {sign}{digits}"


@pytest.mark.parametrize("word", ["OR", "AND"])
def test_a_chain_is_read_however_long_it_is(word):
    chain = f" {word} ".join(f"id <> {n}" for n in range(3000))
    found = filter_of(f"SELECT * FROM t WHERE {chain}")
    assert found.count(f" {word} ") == 2999
    assert filter_of(f"SELECT * FROM t WHERE {chain} {word} abs(id) = 1") == (
        found if word == "AND" else None
    )


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("SELECT * FROM (SELECT id AS k, n FROM t WHERE n = 2) x WHERE k = 1",
         "n == 2 AND id == 1"),
        ("SELECT * FROM (SELECT t.* FROM t) AS x WHERE X.ID = 1", "id == 1"),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a WHERE id = 1", "id == 1"),
        ("WITH a AS (SELECT * FROM t), b AS (SELECT id AS k FROM a y) SELECT 1 FROM b z JOIN u"
         " WHERE z.k = 1", "id == 1"),
        ("WITH a AS (SELECT id, 7 AS n FROM t) SELECT * FROM a WHERE n = 7 AND id = 1", "id == 1"),
        ("SELECT 1 FROM u JOIN (SELECT * FROM t) x ON x.id = 1 WHERE x.n = 2",
         "n == 2 AND id == 1"),
        ("SELECT 1 FROM u LEFT JOIN (SELECT * FROM t) x ON x.id = 1 WHERE x.n = 2", "id == 1"),
        # another meaning, another set of rows, another reader
        ("SELECT * FROM (SELECT n AS id FROM t) x WHERE x.id = 1", "n == 1"),
        ("SELECT * FROM (SELECT id + 1 AS id FROM t) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT *, 1 AS id FROM t) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT * EXCEPT (n) FROM t) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT DISTINCT id FROM t) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT id FROM t LIMIT 5) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT id FROM t GROUP BY id) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT max(n) AS n FROM t) x WHERE x.n = 1", None),
        ("SELECT * FROM (SELECT id, row_number() OVER (ORDER BY n) r FROM t) x WHERE x.id = 1",
         None),
        ("SELECT * FROM (SELECT id, explode(item) AS e FROM t) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT t.id FROM t JOIN u USING (k)) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT id FROM t UNION ALL SELECT id FROM u) x WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT * FROM t) x(a, b, c, d, e, f, g, h, i, j, k) WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT * FROM t) x TABLESAMPLE (5 ROWS) WHERE x.id = 1", None),
        ("SELECT * FROM (SELECT id AS x FROM t) x WHERE x.x = 1", None),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a WHERE id = 1 UNION SELECT * FROM a", None),
        ("WITH a (k) AS (SELECT id FROM t) SELECT * FROM a WHERE k = 1", None),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM s.a WHERE id = 1", None),
        ("SELECT * FROM u WHERE id IN (SELECT id FROM t) AND id = 1", None),
        ("SELECT * FROM u LEFT JOIN (SELECT * FROM t) x ON x.k = u.k WHERE x.id = 1", None),
    ],
)  # fmt: skip
def test_filters_of_the_query_around_reach_the_table(text, predicate):
    columns = {"t": COLUMNS, "u": ["k"], "s.a": ["k"]}
    assert filter_of(text, columns=columns) == predicate


def test_times_are_compared_with_timestamps_of_the_same_kind():
    def found(condition, zone=None):
        parsed = parse_query(Query(text := f"SELECT * FROM t WHERE {condition}", 0, len(text)))
        (reference,) = parsed.references
        return pushed_filter(parsed, reference, FIELDS, {reference: COLUMNS}, zone=zone)

    new_york = ZoneInfo("America/New_York")
    local = datetime(2026, 3, 1, 10)
    for literal in (
        "TIMESTAMP_NTZ '2026-03-01 10:00:00'",
        "TIMESTAMP_NTZ'2026-03-01 10:00:00.000'",
    ):
        assert found(f"at >= {literal}") == Compare(">=", "at", local)
    for literal in ("TIMESTAMP '2026-03-01 10:00:00'", "TIMESTAMP_LTZ '2026-03-01 10:00:00'"):
        aware = local.replace(tzinfo=new_york)
        assert found(f"seen < {literal}", new_york) == Compare("<", "seen", aware)
        assert found(f"seen < {literal}") is None
    of_utc = Compare("<", "seen", datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert found("seen < TIMESTAMP_LTZ '2026-03-01 10:00:00Z'", new_york) == of_utc
    day = found("at = TIMESTAMP_NTZ '2026-03-01'")
    assert day == Compare("==", "at", datetime(2026, 3, 1))
    for other in (
        "at = TIMESTAMP '2026-03-01 10:00:00'",  # an instant
        "seen = TIMESTAMP_NTZ '2026-03-01 10:00:00'",
        "at = TIMESTAMP_NTZ '2026-03-01 10:00:00Z'",
        "at = TIMESTAMP_NTZ '2026-03-01 10:00:00+01:00'",
        "seen = '2026-03-01 10:00:00'",  # settings decide what text is cast to
        "at = TIMESTAMP_NTZ '2026-03-01 10:00:00.123456'",  # finer than the column
        "at = DATE '2026-03-01'",
        "at = TIMESTAMP_NTZ '2026-02-30 10:00:00'",
        "at = CAST(item AS TIMESTAMP_NTZ)",
        "seen = TIMESTAMP '0026-03-01 10:00:00'",
    ):
        assert found(other, new_york) is None, other
