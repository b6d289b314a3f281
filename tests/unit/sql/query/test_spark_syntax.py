"""Spellings of Spark: what sqlglot gets, while the text stays."""

import pytest

from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.sqlglot_dialect import exp


def parsed(text):
    return parse_query(Query(text, 0, len(text)))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT corr(DISTINCT a, b) FROM t", ["a", "b"]),
        ("SELECT covar_samp(DISTINCT a, a) FROM t", ["a"]),
        ("SELECT shuffle(a, 3) FROM t", ["a"]),
        ("SELECT coalesce(), a FROM t", ["a"]),  # Spark knows how many
        ("SELECT array_contains(a, b, z), upper(a, 'x') FROM t", ["a", "b", "z"]),
        ("SELECT cast(a:path AS INT), b:x.select[0]['y'].z::INT FROM t", ["a", "b"]),
        ("SELECT a:['x'] FROM t WHERE b = :z", ["a", "b"]),
        ("SELECT cast(a AS STRUCT<b:ARRAY<STRUCT<x:INT,y:MAP<STRING,INT>>>>) FROM t", ["a"]),
        ("SELECT a >>> b FROM t WHERE a < b AND z > 1", ["a", "b", "z"]),
        ("SELECT a >> b FROM t", ["a", "b"]),
        ("WITH RECURSIVE r MAX RECURSION LEVEL 3 AS (SELECT a FROM t) TABLE r", ["a"]),
        ("TABLE t", ["a", "b", "z"]),
        ("SELECT a FROM t WHERE EXISTS (TABLE u)", ["a"]),
    ],
)
def test_columns_are_found_and_the_text_stays(text, columns):
    found = parsed(text)
    first = next(r for r in found.references if str(r.name) == "t")
    assert found.used_columns(first, ["a", "b", "z"]) == columns
    kept = text.replace("TABLE", "SELECT * FROM")
    assert found.rewrite({}) == kept


def test_an_aggregate_stays_one():
    found = parsed("SELECT corr(DISTINCT a, b), upper(a, 'x'), sum(DISTINCT z) FROM t")
    assert len(list(found.tree.find_all(exp.AggFunc))) == 2


def test_a_table_stands_wherever_a_query_may():
    found = parsed("SELECT a FROM t UNION TABLE u INTERSECT (TABLE db.v) ORDER BY a")
    assert [str(r.name) for r in found.references] == ["t", "u", "db.v"]
    relations = dict.fromkeys(found.references, "{x}")
    assert found.rewrite(relations) == (
        "SELECT a FROM {x} AS `t` UNION SELECT * FROM {x} AS `u` INTERSECT"
        " (SELECT * FROM {x} AS `v`) ORDER BY a"
    )


def test_the_argument_of_a_table_function_is_no_query():
    text = "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR))"
    assert parsed(text).references[0].function is not None
