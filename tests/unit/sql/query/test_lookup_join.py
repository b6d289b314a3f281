"""Which lookups go by the primary key."""

import pytest

from tidelake.sql.query.lookup_join import keyed_lookups
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query

COLUMNS = {"o": ("id", "k", "at", "proc_time"), "d": ("id", "v"), "e": ("day", "no", "v")}
KEYS = {"d": ("id",), "e": ("day", "no")}
NOW = "FOR SYSTEM_TIME AS OF o.proc_time"


def found(text):
    parsed = parse_query(Query(text, 0, len(text)))
    columns = {r: COLUMNS[r.name.parts[-1]] for r in parsed.references if r.name.parts[-1] != "x"}
    keys = {r: KEYS[r.name.parts[-1]] for r in parsed.references if r.clause.lookup}
    return [
        (
            text[one.start : one.end],
            one.is_outer,
            {k: f"{c.source.alias}.{c.name}" for k, c in one.keys.items()},
        )
        for one in keyed_lookups(parsed, keys, columns).values()
    ]


@pytest.mark.parametrize(
    ("join", "is_outer"),
    [
        (f"JOIN d {NOW} AS d ON o.id = d.id", False),
        (f"inner join db.d {NOW} ON (d.id = (o.id))", False),
        (f"LEFT JOIN d /*+ OPTIONS('a'='b') */ {NOW} AS z ON ((o.id = z.id))", True),
        (f"LEFT OUTER JOIN d {NOW} d ON db.o.id = d.ID", True),
    ],
)
def test_a_join_on_the_whole_key_is_looked_up(join, is_outer):
    expected = [(join, is_outer, {"id": "o.id"})]
    assert found(f"SELECT * FROM db.o {join} WHERE o.k > (1)") == expected
    assert found(f"SELECT count(*) FROM (SELECT 1 FROM db.o {join})") == expected


def test_columns_without_a_table_are_found_if_they_are_of_one():
    assert found(f"SELECT * FROM o JOIN e {NOW} AS e ON at = day AND no = k") == [
        (f"JOIN e {NOW} AS e ON at = day AND no = k", False, {"day": "o.at", "no": "o.k"})
    ]


def test_a_lookup_may_go_on_from_another():
    first, second = f"JOIN d {NOW} AS d ON o.k = d.id", f"LEFT JOIN d {NOW} AS z ON z.id = d.v"
    assert found(f"SELECT * FROM o, e {first} {second}") == [
        (first, False, {"id": "o.k"}),
        (second, True, {"id": "d.v"}),
    ]


@pytest.mark.parametrize(
    "join",
    [
        f"JOIN e {NOW} AS e ON o.at = e.day",  # a part of the key
        f"JOIN d {NOW} AS d ON o.id = d.id AND d.v > 1",
        f"JOIN d {NOW} AS d ON o.id = d.id OR o.k = d.id",
        f"JOIN d {NOW} AS d ON o.id = d.id AND o.k = d.id",
        f"JOIN d {NOW} AS d ON o.id + 1 = d.id",
        f"JOIN d {NOW} AS d ON d.id = d.v",
        f"JOIN d {NOW} AS d ON o.id <=> d.id",
        f"JOIN d {NOW} AS d ON o.id = d.v",
        f"JOIN d {NOW} AS d ON id = d.id",  # of which table?
        f"JOIN d {NOW} AS d USING (id)",
        f"NATURAL JOIN d {NOW} AS d",
        f"CROSS JOIN d {NOW} AS d",
        f"RIGHT JOIN d {NOW} AS d ON o.id = d.id",
        f"FULL JOIN d {NOW} AS d ON o.id = d.id",
        f"LEFT SEMI JOIN d {NOW} AS d ON o.id = d.id",
        f"LEFT ANTI JOIN d {NOW} AS d ON o.id = d.id",
        f"JOIN d {NOW} AS d(a, b) ON o.id = d.a",
        f", d {NOW} AS d",
        f"JOIN d {NOW} AS d ON o.id = d.id JOIN e ON e.no = d.v",  # a join follows
        f"JOIN x ON x.id = o.id JOIN d {NOW} AS d ON o.id = d.id",  # a table that nobody knows
        f"JOIN (SELECT 1 AS id) AS s JOIN d {NOW} AS d ON s.id = d.id",
    ],
)
def test_any_other_lookup_stays_a_join(join):
    assert found(f"SELECT * FROM o {join}") == []
