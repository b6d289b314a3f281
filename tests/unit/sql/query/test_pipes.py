"""A chain of |> as nested queries: what sqlglot's tree says of tables, columns and filters."""

import pytest

from tidelake.errors import InvalidInputError
from tidelake.sql.query.pushdown import pushed_filter
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.types import DataField, parse_type

FIELDS = [DataField(number, name, parse_type("INT")) for number, name in enumerate("abz")]


def parsed(text):
    return parse_query(Query(text, 0, len(text)))


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        ("FROM t |> WHERE a > 1", "SELECT * FROM t WHERE a > 1"),
        ("FROM t |> WHERE a > 1 |> SELECT b", "SELECT b FROM t WHERE a > 1"),
        (
            "FROM t |> WHERE a > 1 |> WHERE b > 1",
            "SELECT * FROM (SELECT * FROM t WHERE a > 1) WHERE b > 1",
        ),
        (
            "FROM t |> JOIN u USING (a) |> WHERE b > 1",
            "SELECT * FROM t JOIN u USING (a) WHERE b > 1",
        ),
        ("FROM t |> EXTEND a + 1 AS c", "SELECT *, a + 1 AS c FROM t"),
        ("FROM t |> DROP a, b", "SELECT * EXCEPT (a, b) FROM t"),
        (
            "FROM t |> AS x |> LIMIT 3",
            "SELECT * FROM (SELECT * FROM (SELECT * FROM t) AS x) LIMIT 3",
        ),
        ("FROM t |> AGGREGATE count(*)", "SELECT COUNT(*) FROM t"),
        (
            "FROM t |> AGGREGATE sum(a) AS s GROUP BY b AS k",
            "SELECT DISTINCT SUM(a) AS s, b AS k FROM t",
        ),
        (
            "WITH w AS (FROM t |> LIMIT 1) FROM w |> UNION ALL TABLE w",
            "WITH w AS (SELECT * FROM (SELECT * FROM t) LIMIT 1) SELECT * FROM (SELECT * FROM w)"
            " UNION ALL SELECT * FROM w",
        ),
        ("SELECT '|>' AS x FROM t", "SELECT '|>' AS x FROM t"),
    ],
)
def test_each_step_nests_or_extends_what_came_before(text, nested):
    assert parsed(text).tree.sql("spark") == nested


def test_names_of_with_hide_tables_behind_a_pipe_too():
    found = parsed("WITH w AS (FROM t) FROM w |> JOIN u USING (a) |> JOIN w AS v USING (a)")
    assert [str(r.name) for r in found.references] == ["t", "u"]


def test_filters_prune_and_columns_are_few():
    found = parsed("FROM t |> WHERE a > 1 |> SELECT b")
    assert found.used_columns(found.references[0], ["a", "b", "z"]) == ["a", "b"]
    assert str(pushed_filter(found, found.references[0], FIELDS)) == "a > 1"


@pytest.mark.parametrize(
    "text",
    [
        "FROM t |> SET a = 7 |> AS x |> WHERE x.a = 7",
        "FROM t |> EXTEND 7 AS c |> SET a = c |> AS x |> WHERE x.a = 7",
        "FROM t |> AGGREGATE max(a) AS a GROUP BY b |> AS x |> WHERE x.a = 7",
        "FROM t |> LIMIT 3 |> AS x |> WHERE x.a = 7",
    ],
)
def test_a_filter_on_a_column_that_a_step_made_stays_above_it(text):
    found = parsed(text)
    assert pushed_filter(found, found.references[0], FIELDS) is None


def test_the_text_stays_as_it_is_written():
    found = parsed("FROM db.t |> WHERE a > 1 |> UNION ALL (FROM u |> SELECT a)")
    relations = {r: f"{{{r.alias}}}" for r in found.references}
    assert found.rewrite(relations) == (
        "FROM {t} AS `t` |> WHERE a > 1 |> UNION ALL (FROM {u} AS `u` |> SELECT a)"
    )


@pytest.mark.parametrize("text", ["FROM t |> WHERE (a > 1", "FROM t |> SELECT a b c"])
def test_a_wrong_step_is_shown(text):
    with pytest.raises(InvalidInputError, match="At line 1"):
        parsed(text)
