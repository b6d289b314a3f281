"""WHERE over changes without old rows becomes a computed kind, where it stands."""

from __future__ import annotations

import pytest

from tidelake.sql.execution.leaving_rows import leaving_edits
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query


def rewritten(text, keys=("id",)):
    parsed = parse_query(Query(text, 0, len(text)))
    reference = parsed.references[0]
    edits = leaving_edits(parsed, reference, keys, ["id", "n"])
    found = parsed.rewrite({reference: "{t}"}, replacements=edits).replace("`", "")
    kind = "CASE WHEN _row_kind IN ('+I', '+U') AND NOT coalesce(("
    end = "), false) THEN '-D' ELSE _row_kind END AS _row_kind)"
    return found.replace(f"SELECT id, n, {kind}", "KEEP[").replace(end, "]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM t WHERE n > 1", "SELECT id FROM (FROM {t} AS t KEEP[ n > 1] AS t"),
        ("SELECT * FROM t x WHERE x.n = ?", "SELECT * FROM (FROM {t} x KEEP[ x.n = ?] AS x"),
        (
            "SELECT id FROM (SELECT * FROM t AS y WHERE (n > 1) OR id < 3) z LEFT JOIN d ON TRUE",
            "SELECT id FROM (SELECT * FROM (FROM {t} AS y KEEP[ (n > 1) OR id < 3] AS y) z"
            " LEFT JOIN d ON TRUE",
        ),
        (
            "SELECT id FROM t WHERE n > 1 AND id = 2 UNION ALL SELECT 1 FROM u WHERE x",
            "SELECT id FROM (FROM {t} AS t KEEP[ n > 1 AND id = 2] AS t UNION ALL"
            " SELECT 1 FROM u WHERE x",
        ),
        (
            "SELECT id FROM t WHERE n > CAST(x AS TIMESTAMP(3)) -- late\n",
            "SELECT id FROM (FROM {t} AS t KEEP[ n > CAST(x AS TIMESTAMP_NTZ)] AS t -- late\n",
        ),
    ],
)
def test_a_condition_on_values_is_computed_where_it_stands(text, expected):
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t",
        "SELECT id FROM t WHERE id > 1 AND t.id < 9",
        "SELECT id FROM t JOIN d ON t.n = d.n WHERE t.n > 1",
    ],
)
def test_a_condition_on_the_key_and_one_of_a_join_stay(text):
    assert "KEEP" not in rewritten(text)
    assert "(FROM" not in rewritten(text)
