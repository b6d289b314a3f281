"""Expressions over the rows of tables: their subqueries, and what they ask of the rows."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.query.expression import RowSource, parse_condition, parse_expression
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.types import DataField, parse_type

FIELDS = [DataField(0, "id", parse_type("INT")), DataField(1, "n", parse_type("STRING"))]
ROWS = RowSource(TableName(("lake", "shop", "t")))


def words(text, before="DELETE FROM t WHERE "):
    return Query(before + text, len(before), len(before) + len(text))


@pytest.mark.parametrize(
    ("text", "predicate", "is_whole"),
    [
        ("id = 1 AND t.n = 'x'", "id == 1 AND n == 'x'", True),
        ("shop.t.id = 1", "None", False),
        ("id = 1 AND abs(id) = 1", "id == 1", False),
        ("id = 1 OR abs(id) = 1", "None", False),
        ("id > 1 AND id IN (SELECT id FROM u)", "id > 1", False),
        ("EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.n = 'x')", "None", False),
        ("id = (SELECT max(id) FROM u WHERE id = 3)", "None", False),
    ],
)
def test_what_of_a_condition_is_a_filter_of_the_table_itself(text, predicate, is_whole):
    _, found, whole = parse_condition(words(text), ROWS, FIELDS)
    assert (str(found), whole) == (predicate, is_whole)


def test_tables_of_subqueries_are_cut_out_and_the_rows_keep_their_alias():
    text = (
        "lake.shop.t.id IN (SELECT u.id FROM shop.u AS u JOIN t USING (id)) AND shop.t.n > `x`"
        " AND EXISTS (WITH c AS (SELECT 1) SELECT * FROM c)"
    )
    found = parse_expression(words(text), ROWS)
    assert [str(r.name) for r in found.tables] == ["shop.u", "t"]
    relations = {reference: f"v{number}" for number, reference in enumerate(found.tables)}
    assert found.parsed.rewrite(relations) == (
        "t.id IN (SELECT u.id FROM v0 AS u JOIN v1 AS `t` USING (id)) AND t.n > `x`"
        " AND EXISTS (WITH c AS (SELECT 1) SELECT * FROM c)"
    )
    first, second = found.tables
    assert found.parsed.used_columns(first, ["id", "n", "m"]) == ["id"]
    assert found.parsed.used_columns(second, ["id", "m"]) == ["id"]


def test_an_alias_that_is_given_hides_the_name():
    found = parse_expression(words("o.id = shop.t.id"), RowSource(ROWS.name, "o"))
    assert found.outer(RowSource(ROWS.name, "o")).alias == "o"
    assert found.parsed.rewrite({}) == "o.id = shop.t.id"


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("id = = 3", InvalidInputError, "column 26:"),
        ("id = 3 GROUP BY id", UnsupportedError, "column 21:"),
        ("id IN (SELECT id FROM u WHERE)", InvalidInputError, "column 50:"),
    ],
)
def test_what_is_no_expression_is_shown_where_it_stands(text, error, place):
    with pytest.raises(error, match=place):
        parse_expression(words(text), ROWS)
