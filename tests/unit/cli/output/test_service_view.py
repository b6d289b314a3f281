"""The live table of a query service, and its lines."""

from __future__ import annotations

import json

from unit.service.observe.statuses import AT_MS, executor, report, status, table

from tidelake.cli.output.service_view import json_line, redrawn, table_lines, text_line
from tidelake.service.observe.figures import figures


def busy():
    before = status([executor(0, report()), executor(1, report(snapshot=2))])
    after = status(
        [executor(0, report(100_000, 98_000)), executor(1, report(snapshot=2, ready=False))],
        [table(), table("shop.items", problem="there is no snapshot")],
    )
    return figures(after, before, now_ms=AT_MS, seconds=2)


def test_the_table_shows_tables_executors_and_problems():
    head = "Query service at 127.0.0.1:4000: 2 of 2 executors ready, up 0:01:01"
    assert table_lines(busy()) == [
        head,
        "",
        "table       │ state   │ snapshot │ lag │ executors │ buckets │ gets/s │  hits │    p50"
        " │  p99 │ mapped │ disk",
        "────────────┼─────────┼──────────┼─────┼───────────┼─────────┼────────┼───────┼───────"
        "─┼──────┼────────┼─────",
        "shop.items  │ problem │        - │   - │       0/2 │       8 │      0 │     - │      -"
        " │    - │    0 B │  0 B",
        "shop.orders │ loading │        3 │   0 │       1/2 │       8 │ 50,000 │ 98.0% │ 0.4 ms"
        " │ 3 ms │   2 MB │ 6 MB",
        "",
        "executor │ address        │ process │ state │ heartbeat │ buckets │ gets/s │ mapped"
        " │ disk",
        "─────────┼────────────────┼─────────┼───────┼───────────┼─────────┼────────┼───────"
        "─┼─────",
        "       0 │ 127.0.0.1:5000 │     100 │ ready │    120 ms │       4 │ 50,000 │   1 MB"
        " │ 3 MB",
        "       1 │ 127.0.0.1:5001 │     101 │ ready │    120 ms │       4 │      0 │   1 MB"
        " │ 3 MB",
        "",
        "shop.items: there is no snapshot",
    ]


def test_a_terminal_gets_it_in_the_place_of_the_one_before():
    assert redrawn(["a", "b"], before_count=0, columns=80) == "a\nb\n"
    assert redrawn(["a─b─c"], before_count=3, columns=3) == "\x1b[3F\x1b[Ja─b\n"


def test_elsewhere_there_is_one_line_for_each_look():
    assert text_line(busy(), now_ms=AT_MS) == (
        "2023-11-14T22:13:20Z 2/2 executors; shop.items problem, snapshot 0, lag -,"
        " 0 gets/s, hits -, p50 -, p99 -; shop.orders loading, snapshot 3, lag 0,"
        " 50,000 gets/s, hits 98.0%, p50 0.4 ms, p99 3 ms"
    )


def test_as_json_figures_are_numbers():
    shown = json.loads(json_line(busy(), now_ms=AT_MS))
    assert (shown["service"], shown["executors"], shown["executors_ready"]) == ("s1", 2, 2)
    orders = shown["tables"][1]
    assert (orders["table"], orders["gets_per_second"], orders["hit_ratio"]) == (
        "shop.orders",
        50_000,
        0.98,
    )
    assert orders["problem"] is None
