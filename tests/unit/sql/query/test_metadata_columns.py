"""Metadata columns in the text of queries: what is named, and what stars leave out."""

from __future__ import annotations

import pytest

from tidelake.errors import UnsupportedError
from tidelake.sql.query.metadata_columns import metadata_column_exclusions, named_metadata_columns
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query

HIDDEN = ("__paimon_file_path", "__paimon_partition", "__paimon_bucket")


def looked_into(text):
    parsed = parse_query(Query(text, 0, len(text)))
    hidden = {r: named_metadata_columns(parsed, r, HIDDEN) for r in parsed.references}
    return parsed, hidden


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM t", [()]),
        ("SELECT __PAIMON_BUCKET FROM t", [("__paimon_bucket",)]),
        ("SELECT id FROM t WHERE __paimon_partition.day = 'x'", [("__paimon_partition",)]),
        ("SELECT id FROM d.t ORDER BY d.t.__paimon_partition.day", [("__paimon_partition",)]),
        ("SELECT a.__paimon_bucket FROM t a JOIN u b ON a.k = b.k", [("__paimon_bucket",), ()]),
        ("SELECT __paimon_bucket FROM (SELECT * FROM t) x", [()]),
        ("SELECT x.__paimon_bucket FROM t", [()]),
        (
            "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.__paimon_bucket)",
            [("__paimon_bucket",), ()],
        ),
    ],
)
def test_what_a_select_names_of_its_own_tables(text, wanted):
    _, hidden = looked_into(text)
    assert list(hidden.values()) == wanted


LEFT_OUT = "EXCEPT (`t`.`__paimon_bucket`)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT *, __paimon_bucket FROM t", f"SELECT * {LEFT_OUT}, __paimon_bucket FROM t"),
        (
            "SELECT t.*, b.* FROM t JOIN u b ON t.__paimon_bucket = b.k",
            f"SELECT t.* {LEFT_OUT}, b.* FROM t JOIN u b ON t.__paimon_bucket = b.k",
        ),
        ("SELECT count(*), __paimon_bucket FROM t", None),
        (
            "SELECT * FROM (SELECT *, __paimon_bucket FROM t) x",
            f"SELECT * FROM (SELECT * {LEFT_OUT}, __paimon_bucket FROM t) x",
        ),
        ("SELECT k * 2, __paimon_bucket FROM t", None),
        (
            "SELECT t.*, __paimon_bucket FROM t UNION ALL SELECT t.*, 1 FROM t",
            f"SELECT t.* {LEFT_OUT}, __paimon_bucket FROM t UNION ALL SELECT t.*, 1 FROM t",
        ),
    ],
)
def test_stars_leave_them_out(text, wanted):
    parsed, hidden = looked_into(text)
    assert parsed.rewrite({}, before=metadata_column_exclusions(parsed, hidden)) == (wanted or text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a.__paimon_bucket FROM t a NATURAL JOIN u b", "NATURAL JOIN"),
        ("SELECT * EXCEPT (k), __paimon_bucket FROM t", "EXCEPT"),
    ],
)
def test_what_would_show_them_is_refused(text, message):
    with pytest.raises(UnsupportedError, match=message) as caught:
        metadata_column_exclusions(*looked_into(text))
    assert "At line 1, column" in str(caught.value)
