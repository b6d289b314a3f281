"""The session windows of a stream group by the row's session."""

import pytest

from tidelake.errors import UnsupportedError
from tidelake.sql.query.query import parse_query
from tidelake.sql.query.session_windows import session_replacements
from tidelake.sql.syntax.ast import Query

SESSION = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"


def rewritten(text):
    parsed = parse_query(Query(text, 0, len(text)))
    (reference,) = parsed.references
    pieces = session_replacements(parsed, reference, "s")
    return parsed.rewrite({reference: "R"}, replacements=pieces).replace("`", "")


def test_bounds_are_fields_of_the_session():
    text = (
        f"SELECT window_start, k, date_format(window_end, 'HH:mm') AS e, window_time FROM {SESSION}"
        " GROUP BY window_start, window_end, window_time, k HAVING window_end > x"
    )
    assert rewritten(text) == (
        "SELECT s.start AS window_start, k, date_format(s.end, 'HH:mm') AS e,"
        " (s.end - INTERVAL 1 MILLISECOND) AS window_time FROM R AS t"
        " GROUP BY s, s, s, k HAVING s.end > x"
    )


def test_issue_36_sessions_of_a_stream_need_a_key():
    window = SESSION.replace(" PARTITION BY k", "")
    with pytest.raises(UnsupportedError, match=r"PARTITION BY k, \.\.\.") as raised:
        rewritten(f"SELECT count(*) FROM {window} GROUP BY window_start, window_end")
    assert raised.value.kind == "sql_streaming"


def test_qualifiers_stay():
    text = f"SELECT w.window_end FROM {SESSION} w GROUP BY w.window_start, w.window_end, w.k"
    assert rewritten(text) == "SELECT w.s.end AS window_end FROM R w GROUP BY w.s, w.s, w.k"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM {SESSION}",
        f"SELECT window_start FROM {SESSION} GROUP BY window_start, k",
        f"SELECT window_start FROM {SESSION} GROUP BY window_start, window_end",
        f"SELECT window_start FROM {SESSION} GROUP BY window_start, window_end, k, n",
        f"SELECT window_start FROM {SESSION} GROUP BY window_start, window_end, k, n + 1",
    ],
)
def test_other_groups_than_sessions_and_their_keys_are_refused(text):
    with pytest.raises(UnsupportedError, match="write GROUP BY window_start, window_end, k"):
        rewritten(text)
