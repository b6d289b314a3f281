"""What a service's log says, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging

import pytest
from unit.service.observe.statuses import executor, report, status, table

from tidelake.service.observe.events import EventLog, events
from tidelake.service.observe.json_logs import log_to


def messages(before, after):
    return [event.message for event in events(before, after)]


def test_the_first_status_names_all_that_is_there():
    assert messages(None, status([executor(0, report())])) == [
        "Executor 0 has begun at 127.0.0.1:5000.",
        "Executor 0 is ready.",
        "Table shop.orders is served, from snapshot 3.",
    ]


def test_only_what_changed_is_said():
    before = status([executor(0, report()), executor(1, report())], [table(), table("a.gone")])
    after = status(
        [executor(1, report(), instance="b", ready=False)], [table(snapshot=4), table("a.new")]
    )
    assert messages(before, before) == []
    assert messages(before, after) == [
        "Executor 0 is gone.",
        "Executor 1 has begun again at 127.0.0.1:5001.",
        "Table a.gone is no longer served.",
        "Table a.new is served, from snapshot 3.",
        "Table shop.orders has snapshot 4.",
    ]


def test_a_table_made_anew_and_a_problem_are_warnings():
    before = status([executor(0, report())])
    after = status(
        [executor(0, report(), ready=False)], [table(generation=2, problem="it was dropped")]
    )
    found = list(events(before, after))
    assert [event.message for event in found] == [
        "Executor 0 is not ready.",
        "Table shop.orders was rolled back or made anew.",
        "Table shop.orders: it was dropped",
    ]
    assert {event.level for event in found} == {logging.WARNING}


@pytest.fixture
def log():
    """Begin to write the service's log to a text; ends with the test."""
    logger, level = logging.getLogger("tidelake.service"), logging.NOTSET
    handlers = []

    def begin(*, as_json):
        out = io.StringIO()
        handlers.append(log_to(out, as_json=as_json))
        return out

    yield begin
    for handler in handlers:
        logger.removeHandler(handler)
    logger.setLevel(level)


def test_lines_of_json_have_their_fields(log):
    out = log(as_json=True)
    kept = EventLog()
    kept.take(status([executor(0, report())]))
    kept.take(status([executor(0, report())]))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["message"] for line in lines] == [
        "Executor 0 has begun at 127.0.0.1:5000.",
        "Executor 0 is ready.",
        "Table shop.orders is served, from snapshot 3.",
    ]
    assert lines[0] | {"at": ""} == {
        "at": "",
        "level": "info",
        "logger": "tidelake.service",
        "message": "Executor 0 has begun at 127.0.0.1:5000.",
        "executor": 0,
        "address": "127.0.0.1:5000",
        "process": 100,
    }
    assert lines[2]["snapshot"] == 3


def test_an_error_is_part_of_its_line(log):
    out = log(as_json=True)
    try:
        raise ValueError("no such thing")
    except ValueError:
        logging.getLogger("tidelake.service").exception("Failed.")
    (line,) = out.getvalue().splitlines()
    assert "ValueError: no such thing" in json.loads(line)["error"]


def test_lines_of_text_name_time_and_level(log):
    out = log(as_json=False)
    EventLog().take(status([], []))
    assert out.getvalue() == ""
    EventLog().take(status([], [table()]))
    assert out.getvalue().endswith(" INFO Table shop.orders is served, from snapshot 3.\n")
