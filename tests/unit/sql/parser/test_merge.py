"""MERGE read from its text: its parts, what can be told of them, and what is wrong with them."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError, TidelakeError
from tidelake.sql.parser.parse import parse
from tidelake.sql.query.expression import RowSource
from tidelake.sql.query.merge_terms import MergeTerms, source_rows
from tidelake.sql.syntax.ast import Query
from tidelake.sql.syntax.name import TableName
from tidelake.types import DataField, parse_type

FIELDS = [DataField(n, name, parse_type("INT")) for n, name in enumerate(["id", "n", "Day", "own"])]
TARGET, SOURCE = RowSource(TableName(("shop", "t"))), RowSource(TableName(("s",)), "s")
TERMS = MergeTerms(TARGET, SOURCE, FIELDS, ["id", "n", "day", "theirs"])


def whole(text):
    return Query(text, 0, len(text))


def test_all_parts_of_a_merge():
    [found] = parse(
        "MERGE WITH SCHEMA EVOLUTION INTO shop.t WITH ('a' = 'b') x"
        " USING (SELECT * FROM u JOIN v USING (id)) AS s ON x.id = s.id AND x.n > 3"
        " WHEN MATCHED AND CASE WHEN s.op = 'D' THEN true END THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET x.n = CASE WHEN s.n > 3 THEN 1 END, day = f(1, (SELECT 2))"
        " WHEN NOT MATCHED BY TARGET AND s.n IN (1, 2) THEN INSERT (id, x.n) VALUES (s.id, f(1, 2))"
        " WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE AND n > 3 THEN UPDATE SET n = n + 1"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert (found.name.parts, found.alias, found.options) == (("shop", "t"), "x", {"a": "b"})
    assert found.source.sql == "(SELECT * FROM u JOIN v USING (id)) AS s"
    assert (found.on.sql, found.evolves) == ("x.id = s.id AND x.n > 3", True)
    assert [
        (
            c.when,
            c.action,
            c.condition and c.condition.sql,
            None if c.values is None else {name: value.sql for name, value in c.values.items()},
        )
        for c in found.clauses
    ] == [
        ("matched", "delete", "CASE WHEN s.op = 'D' THEN true END", None),
        (
            "matched",
            "update",
            None,
            {"n": "CASE WHEN s.n > 3 THEN 1 END", "day": "f(1, (SELECT 2))"},
        ),
        ("not_matched", "insert", "s.n IN (1, 2)", {"id": "s.id", "n": "f(1, 2)"}),
        ("not_matched", "insert", None, None),
        ("not_matched_by_source", "update", "n > 3", {"n": "n + 1"}),
        ("not_matched_by_source", "delete", None, None),
    ]


@pytest.mark.parametrize(
    ("rest", "message", "shown"),
    [
        ("u WHEN MATCHED THEN DELETE", "'ON' is expected here", "WHEN MATCHED"),
        ("ON id WHEN MATCHED THEN DELETE", "source is missing", "ON id"),
        ("u ON t.a = u.a", "needs a clause", ""),
        ("u JOIN v ON a = b WHEN MATCHED THEN DELETE", "query in parentheses", "JOIN v"),
        ("u, v ON a = b WHEN MATCHED THEN DELETE", "query in parentheses", ", v"),
        ("u ON a LIMIT 1 WHEN MATCHED THEN DELETE", "nothing after", "LIMIT"),
        ("u ON a WHEN MATCHED DELETE", "'THEN' is expected here", "DELETE"),
        ("u ON a WHEN MATCHED THEN INSERT *", "takes UPDATE SET or DELETE", "INSERT"),
        ("u ON a WHEN MATCHED THEN DELETE x", "'WHEN' is expected here", "x"),
        ("u ON a WHEN NOT MATCHED THEN DELETE", "takes INSERT", "DELETE"),
        ("u ON a WHEN NOT MATCHED BY SOURCES THEN DELETE", "Did you mean 'SOURCE'", "SOURCES"),
        ("u ON a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "write columns", "*"),
        ("u ON a WHEN MATCHED THEN UPDATE SET n = 1, t.N = 2", "set twice", "t.N"),
        ("u ON a WHEN MATCHED THEN UPDATE SET n.f = 1, t.n = 2", "overlap: set one", "t.n"),
        ("u ON a WHEN NOT MATCHED THEN INSERT (n.f) VALUES (1)", "needs whole columns", "n.f"),
        ("u ON a WHEN NOT MATCHED THEN INSERT VALUES (1)", "Name the columns", "VALUES"),
        ("u ON a WHEN NOT MATCHED THEN INSERT (a, A) VALUES (1, 2)", "listed twice", "A)"),
        ("u ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "1 value for 2 columns", "(1)"),
        (
            "u ON a WHEN MATCHED THEN DELETE WHEN MATCHED AND b THEN DELETE",
            "would never apply",
            "WHEN MATCHED AND",
        ),
    ],
)
def test_what_is_wrong_is_shown_where_it_stands(rest, message, shown):
    text = f"MERGE INTO t USING {rest}"
    with pytest.raises(TidelakeError, match=message) as raised:
        parse(text)
    place = text.rindex(shown) if shown else len(text)
    assert f"column {place + 1}:" in str(raised.value)


@pytest.mark.parametrize(
    ("on", "equal"),
    [
        ("t.id = s.id AND shop.t.n = (s.theirs)", [("id", "id"), ("n", "theirs")]),
        ("own = theirs AND s.DAY = t.day", [("own", "theirs"), ("Day", "day")]),
        ("id = id AND n = s.n", []),  # which of the two is not said
        ("t.id = s.id OR t.n = s.n", []),
        ("NOT (t.id = s.id) AND t.n <=> s.n AND t.id = s.id + 1", []),
        ("t.id = t.own AND s.id = s.n", []),
    ],
)
def test_columns_that_a_condition_equates(on, equal):
    assert TERMS.equal(TERMS.read(whole(on))) == equal


def test_what_a_condition_says_of_the_target_alone():
    on = TERMS.read(whole("t.id = s.id AND t.n > 3 AND own = 4 AND n = 5 AND (t.n = 6 OR s.n = 1)"))
    assert str(TERMS.predicate(on)) == "n > 3 AND own == 4"


def test_values_that_are_a_column_of_the_source():
    texts = {"id": "s.id", "n": "s.n + 1", "day": "theirs", "own": "t.n"}
    values = {name: TERMS.read(whole(text)) for name, text in texts.items()}
    assert TERMS.plain(values) == {"id": "id", "day": "theirs"}


def test_names_that_both_sides_have_are_the_targets_where_the_source_has_no_row():
    found = TERMS.read(
        whole("n + own > 3 AND s.n = `DAY` AND exists(own, n -> n > id) AND n IN (SELECT n FROM u)")
    )
    assert found.rewrite({}, qualified=TERMS.target_qualifier()) == (
        "`t`.n + own > 3 AND s.n = `t`.`DAY` AND exists(own, n -> n > `t`.id)"
        " AND `t`.n IN (SELECT n FROM u)"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("u", "u"),
        ("a.b.u VERSION AS OF 3", "u"),
        ("u AS `v`", "v"),
        ("(SELECT 1 AS id) x", "x"),
        ("(VALUES (1, 2)) AS s (a, b)", "s"),
    ],
)
def test_what_qualifies_the_columns_of_a_source(text, shown):
    assert source_rows(whole(text)).shown == shown


@pytest.mark.parametrize("text", ["u WHERE a > 3", "u UNION SELECT 1", "(SELECT 1"])
def test_what_is_no_source(text):
    with pytest.raises(TidelakeError, match=r"column 1:|cannot be parsed"):
        source_rows(whole(text))
    with pytest.raises(InvalidInputError):
        parse(f"MERGE INTO t USING {text}")
