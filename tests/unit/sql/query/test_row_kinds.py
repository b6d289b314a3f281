"""Kinds of changes go along with the rows of a query, or the query is refused."""

import pytest

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import parse_query
from tidelake.sql.query.row_kinds import names_row_kind, row_kind_columns
from tidelake.sql.syntax.ast import Query

CHANGING = {"t", "u", "a.b.t"}


def added(text):
    parsed = parse_query(Query(text, 0, len(text)))
    changing = [r for r in parsed.references if str(r.name) in CHANGING]
    columns = row_kind_columns(parsed, changing)
    for at in sorted(columns, reverse=True):
        text = text[:at] + columns[at] + text[at:]
    return text.replace("`", "")


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
            "SELECT d.* EXCEPT (n), t.id, t._row_kind FROM t JOIN d USING (k)",
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
            "SELECT t.id, d.v, t._row_kind FROM t LEFT JOIN d ON t.k = d.k",
        ),
        (
            "SELECT t.id FROM d JOIN t ON t.k = d.k",
            "SELECT t.id, t._row_kind FROM d JOIN t ON t.k = d.k",
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
        "SELECT count(*) FROM (SELECT id FROM t) x",
        "SELECT id FROM (SELECT * FROM t)",
        "WITH c (a) AS (SELECT id FROM t) SELECT a FROM c",
    ],
)
def test_a_query_that_loses_the_kinds_is_refused(text):
    with pytest.raises(UnsupportedError, match="Name _row_kind in the query") as raised:
        added(text)
    assert raised.value.kind == "sql_row_kinds"


def test_a_query_without_select_in_front_is_refused():
    with pytest.raises(UnsupportedError, match="begins each of its parts with SELECT"):
        added("FROM t")


def test_a_query_may_name_the_kinds_itself():
    text = "SELECT sum(CASE WHEN t._ROW_KIND = '-D' THEN -1 ELSE 1 END) FROM t"
    assert names_row_kind(parse_query(Query(text, 0, len(text))))
    text = "SELECT '_row_kind' FROM t"
    assert not names_row_kind(parse_query(Query(text, 0, len(text))))
