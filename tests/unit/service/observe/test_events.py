"""What a service's log says, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging

import pytest
from unit.service.observe.statuses import executor, report, status, table

from tidelake.service.observe.events import EventLog, events
from tidelake.service.observe.json_logs import log_of_process, log_to


def messages(before, after):
    return [event.message for event in events(before, after)]


def test_the_first_status_names_all_that_is_there():
    assert messages(None, status([executor(0, report())])) == [
        "executor 0 has begun at 127.0.0.1:5000",
        "executor 0 is ready",
        "table shop.orders has snapshot 3",
    ]


def test_only_what_changed_is_said():
    before = status([executor(0, report()), executor(1, report())], [table(), table("a.gone")])
    after = status(
        [executor(1, report(), instance="b", ready=False)], [table(snapshot=4), table("a.new")]
    )
    assert messages(before, before) == []
    assert messages(before, after) == [
        "executor 0 has left",
        "executor 1 has begun again at 127.0.0.1:5001",
        "table a.new has snapshot 3",
        "table shop.orders has snapshot 4",
    ]


def test_a_table_made_anew_and_a_problem_are_warnings():
    before = status([executor(0, report())])
    after = status(
        [executor(0, report(), ready=False)], [table(generation=2, problem="it was dropped")]
    )
    found = list(events(before, after))
    assert [event.message for event in found] == [
        "executor 0 is not ready",
        "table shop.orders was rolled back or recreated",
        "table shop.orders: it was dropped",
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
        "executor 0 has begun at 127.0.0.1:5000",
        "executor 0 is ready",
        "table shop.orders has snapshot 3",
    ]
    assert lines[0] | {"at": ""} == {
        "at": "",
        "level": "info",
        "logger": "tidelake.service",
        "message": "executor 0 has begun at 127.0.0.1:5000",
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
    assert out.getvalue().endswith(" INFO table shop.orders has snapshot 3\n")


@pytest.mark.parametrize(
    ("form", "begins"), [(None, "2"), ("text", "2"), ("json", '{"at": "'), ("off", "")]
)
def test_a_process_logs_as_its_service_chose(form, begins):
    root, logger = logging.getLogger(), logging.getLogger("tidelake.service")
    before, level = (root.handlers[:], logger.handlers[:]), logger.level
    out = io.StringIO()
    try:
        log_of_process({} if form is None else {"TIDELAKE_SERVICE_LOG": form}, out)
        logger.info("executor begins")
    finally:
        root.handlers[:], logger.handlers[:] = before
        logger.setLevel(level)
    assert out.getvalue()[: len(begins)] == begins
    assert bool(out.getvalue()) == bool(begins)
