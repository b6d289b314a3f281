"""Kinds of changes go along with the rows of a query, or the query is refused."""

import pytest

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import parse_query
from tidelake.sql.query.row_kinds import kept_kinds
from tidelake.sql.syntax.ast import Query

CHANGING = {"t", "u", "a.b.t"}
STREAMING = {"q"}


def kept(text):
    parsed = parse_query(Query(text, 0, len(text)))
    changing = [r for r in parsed.references if str(r.name) in CHANGING]
    streaming = [r for r in parsed.references if str(r.name) in STREAMING]
    return kept_kinds(parsed, changing, streaming=streaming)


def added(text):
    texts = kept(text).insertions
    for at in sorted(texts, reverse=True):
        text = text[:at] + texts[at] + text[at:]
    return text.replace("`", "")


def hidden(text):
    return [str(r.name) for r in kept(text).hidden]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM d", "SELECT id FROM d"),
        ("SELECT id FROM t", "SELECT id, t._row_kind FROM t"),
        ("SELECT 1 FROM t", "SELECT 1, t._row_kind FROM t"),
        ("SELECT * FROM t", "SELECT * FROM t"),
        ("SELECT o.* FROM t o WHERE n > 1", "SELECT o.* FROM t o WHERE n > 1"),
        ("SELECT * EXCEPT (n) FROM t", "SELECT * EXCEPT (n) FROM t"),
        (
            "SELECT d.* EXCEPT (n), t.id FROM t JOIN d USING (k)",
            "SELECT /*+ BROADCAST(d) */ d.* EXCEPT (n), t.id, t._row_kind FROM t JOIN d USING (k)",
        ),
        ("SELECT (a + (b)) FROM t", "SELECT (a + (b)), t._row_kind FROM t"),
        ("SELECT upper(name) FROM t", "SELECT upper(name), t._row_kind FROM t"),
        (
            "SELECT extract(DAY FROM ts), trim(BOTH FROM x) FROM t",
            "SELECT extract(DAY FROM ts), trim(BOTH FROM x), t._row_kind FROM t",
        ),
        ("SELECT a.b.t.id FROM a.b.t", "SELECT a.b.t.id, t._row_kind FROM a.b.t"),
        (
            "SELECT x.id + 1 AS y FROM (SELECT id FROM t WHERE a) x",
            "SELECT x.id + 1 AS y, x._row_kind FROM (SELECT id, t._row_kind FROM t WHERE a) x",
        ),
        (
            "WITH c AS (SELECT id FROM t), e AS (SELECT id FROM d) SELECT id, 'a' FROM c",
            "WITH c AS (SELECT id, t._row_kind FROM t), e AS (SELECT id FROM d)"
            " SELECT id, 'a', c._row_kind FROM c",
        ),
        (
            "SELECT t.id, d.v FROM t LEFT JOIN d ON t.k = d.k",
            "SELECT /*+ BROADCAST(d) */ t.id, d.v, t._row_kind FROM t LEFT JOIN d ON t.k = d.k",
        ),
        (
            "SELECT t.id FROM d JOIN t ON t.k = d.k",
            "SELECT /*+ BROADCAST(d) */ t.id, t._row_kind FROM d JOIN t ON t.k = d.k",
        ),
        (
            "SELECT DISTINCT t.id FROM d x, e AS y JOIN q ON true",
            "SELECT DISTINCT t.id FROM d x, e AS y JOIN q ON true",
        ),
        (
            "SELECT ALL t.id FROM t JOIN (SELECT k FROM d) x USING (k) LEFT SEMI JOIN e ON e.a = 1",
            "SELECT /*+ BROADCAST(x, e) */ ALL t.id, t._row_kind FROM t"
            " JOIN (SELECT k FROM d) x USING (k) LEFT SEMI JOIN e ON e.a = 1",
        ),
        (
            "SELECT /*+ BROADCAST(d), COALESCE(2) */ t.id FROM t JOIN d ON t.k = d.k",
            "SELECT /*+ BROADCAST(d) */ /*+ BROADCAST(d), COALESCE(2) */ t.id, t._row_kind"
            " FROM t JOIN d ON t.k = d.k",
        ),
        (
            "SELECT id FROM t UNION ALL SELECT id FROM d",
            "SELECT id, t._row_kind FROM t UNION ALL SELECT id, '+I' AS _row_kind FROM d",
        ),
    ],
)
def test_a_query_of_one_row_for_each_change_keeps_its_kind(text, expected):
    assert added(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t",
        "SELECT id FROM t GROUP BY id",
        "SELECT DISTINCT id FROM t",
        "SELECT id FROM t ORDER BY id",
        "SELECT id FROM t LIMIT 3",
        "SELECT id, row_number() OVER (ORDER BY id) FROM t",
        "SELECT t.id FROM t JOIN u ON t.id = u.id",
        "SELECT t.id FROM d LEFT JOIN t ON t.k = d.k",
        "SELECT t.id FROM t RIGHT JOIN d ON t.k = d.k",
        "SELECT t.id FROM t FULL JOIN d ON t.k = d.k",
        "SELECT id FROM t UNION SELECT id FROM d",
        "SELECT id FROM t EXCEPT SELECT id FROM d",
        "SELECT id FROM d WHERE id IN (SELECT id FROM t)",
        "SELECT id FROM t UNION ALL SELECT id FROM d LIMIT 3",
        "(SELECT id FROM t) LIMIT 3",
        "SELECT id FROM t TABLESAMPLE (5 PERCENT)",
        "SELECT p FROM t AS x (p)",
        "SELECT *, n FROM t UNION ALL SELECT id, n, n FROM q",
        "SELECT * FROM t JOIN d UNION ALL SELECT id, n FROM q",
        "SELECT id, '+I' AS _row_kind FROM t",
        "SELECT *, _row_kind FROM (SELECT id FROM t) x",
        "SELECT count(*) FROM (SELECT id FROM t) x",
        "SELECT id FROM (SELECT * FROM t)",
        "WITH c (a) AS (SELECT id FROM t) SELECT a FROM c",
    ],
)
def test_a_query_that_loses_the_kinds_is_refused(text):
    with pytest.raises(UnsupportedError, match="Name _row_kind in the SELECT") as raised:
        added(text)
    assert raised.value.kind == "sql_row_kinds"


def test_a_query_without_select_in_front_is_refused():
    with pytest.raises(UnsupportedError, match="FROM without SELECT"):
        added("FROM t JOIN d USING (k)")
    with pytest.raises(UnsupportedError, match="begins each of its parts with SELECT"):
        added("SELECT id FROM t UNION ALL FROM d")
    assert added("FROM t") == "FROM t"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT sum(CASE WHEN t._ROW_KIND = '-D' THEN -1 ELSE 1 END) FROM t", ["t"]),
        ("SELECT * FROM a.b.t WHERE b.t._row_kind <> '-D'", ["a.b.t"]),
        ("SELECT t.id FROM t, u WHERE t._row_kind = '+I' AND u._row_kind = '+I'", ["t", "u"]),
        ("SELECT id FROM q WHERE id IN (SELECT id FROM t WHERE _row_kind = '+I')", ["t"]),
        ("SELECT t.id FROM t JOIN q USING (k) WHERE _row_kind IN ('+I', '+U')", ["t"]),
        ("SELECT count(*) FROM (SELECT id FROM t) x WHERE x._row_kind = '+I'", []),
    ],
)
def test_a_select_may_name_the_kinds_of_what_it_reads(text, names):
    assert hidden(text) == names


def test_a_select_that_shows_the_kinds_keeps_them():
    text = "SELECT _row_kind, id FROM t WHERE _row_kind <> '-D'"
    assert added(text) == text
    assert hidden(text) == ["t"]
    assert added("SELECT x.id FROM (SELECT *, t._row_kind FROM t) x").startswith(
        "SELECT x.id, x._row_kind FROM"
    )
    with pytest.raises(UnsupportedError, match="groups, sorts or limits"):
        added("SELECT _row_kind, count(*) FROM t GROUP BY _row_kind")
    assert added("SELECT _row_kind AS kind, count(*) FROM t GROUP BY _row_kind").startswith("SEL")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t WHERE id IN (SELECT id FROM u WHERE _row_kind = '+I')",
        "SELECT count(*) AS n FROM t UNION ALL SELECT n FROM u WHERE _row_kind = '+I'",
        "WITH c AS (SELECT id FROM t WHERE _row_kind = '+I') SELECT count(*) FROM c, t",
        "SELECT t.id FROM t JOIN u USING (k) WHERE t._row_kind = '+I'",
        "SELECT count(*) FROM t x WHERE EXISTS (SELECT 1 FROM t x WHERE x._row_kind = '+I')",
        "SELECT count(*) AS _row_kind FROM t",
    ],
)
def test_a_name_in_another_select_excuses_nothing(text):
    with pytest.raises(UnsupportedError, match="Name _row_kind in the SELECT that reads"):
        added(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT t.id FROM t JOIN q ON t.k = q.k", "another stream"),
        ("SELECT t.id FROM t JOIN (SELECT k FROM q) x ON t.k = x.k", "another stream"),
        ("WITH c AS (SELECT k FROM q) SELECT t.id FROM t JOIN c USING (k)", "another stream"),
        ("SELECT t.id FROM d JOIN e USING (k) JOIN t USING (k)", "joined before"),
        ("SELECT /*+ MERGE(d) */ t.id FROM t JOIN d USING (k)", "The hint MERGE"),
        ("SELECT /*+ REPARTITION(4) */ id FROM t", "The hint REPARTITION"),
        ("SELECT id FROM t WHERE k IN (SELECT k FROM d)", "LEFT SEMI JOIN"),
        ("SELECT id FROM t JOIN range(3)", "no name"),
        ("SELECT id FROM t JOIN LATERAL (SELECT 1) x", "LATERAL VIEW"),
        ("SELECT t.id, t._row_kind FROM t JOIN q ON t.k = q.k", "another stream"),
    ],
)
def test_a_query_that_loses_the_order_of_changes_is_refused(text, words):
    with pytest.raises(UnsupportedError, match="may change places") as raised:
        added(text)
    assert words in raised.value.message
    assert raised.value.kind == "sql_row_kinds"
