"""Lookups are at the time of processing."""

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.query.lookup import check_lookups, event_time_column
from tidelake.sql.query.query import parse_query
from tidelake.sql.syntax.ast import Query


def check(time):
    text = f"SELECT * FROM o JOIN d FOR SYSTEM_TIME AS OF {time} AS d ON d.k = o.k"
    query = Query(text, 0, len(text))
    o, d = parse_query(query).references
    check_lookups(query, {o: ("k", "ordered_at"), d: ("k", "v")})


@pytest.mark.parametrize("time", ["PROCTIME()", "CURRENT_TIMESTAMP", "o.proc_time", "o.PROCTIME"])
def test_the_time_of_processing_has_several_names(time):
    check(time)


def test_an_event_time_is_refused():
    with pytest.raises(UnsupportedError, match=r"'o\.ordered_at' is a column"):
        check("o.ordered_at")


def test_an_unknown_column_is_refused():
    with pytest.raises(InvalidInputError, match=r"no column 'o\.orderd_at'"):
        check("o.orderd_at")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [("window_start, window_end", "window_end"), ("window_start, WINDOW_TIME", "window_time")],
)
def test_the_event_time_of_windows_is_the_bound_that_the_query_names(columns, expected):
    text = (
        f"SELECT {columns} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
        f" GROUP BY {columns}"
    )
    (reference,) = parse_query(Query(text, 0, len(text))).references
    assert event_time_column(reference) == expected
