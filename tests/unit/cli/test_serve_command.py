"""``tidelake serve``: what it takes, what it shows, how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from unit.service.observe.statuses import executor, report, status

import tidelake
from tidelake.cli import serve_command
from tidelake.cli.arguments import UsageError, read_arguments
from tidelake.cli.main import main
from tidelake.errors import InvalidInputError
from tidelake.service.observe.metrics import MetricsServer


class FakeService:
    """A service of given statuses; does something at each look."""

    address = "127.0.0.1:4000"

    def __init__(self, statuses, *actions):
        self._statuses, self._actions = list(statuses), list(actions)
        self.is_running, self.stops, self.asked = True, 0, False

    def status(self):
        if self._actions:
            self._actions.pop(0)()
        return self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]

    def wait(self, timeout_seconds):
        return self.asked

    def stop(self):
        self.stops += 1
        self.is_running = False


LOOKS = (
    status([executor(0, report())], count=1),
    status([executor(0, report(1000, 750))], count=1),
)


def press(number=signal.SIGINT):
    return lambda: signal.raise_signal(number)


def nothing():
    pass


@pytest.fixture
def serve(monkeypatch, capsys):
    """Run the command over a fake service; its exit code, its lines, its errors."""
    level = logging.getLogger("tidelake.service").level

    def run(service, *argv):
        @contextlib.contextmanager
        def started(_):
            try:
                yield service
            finally:
                service.stop()

        monkeypatch.setattr(serve_command, "_started", started)
        code = main(["serve", "-w", "lake", "shop.orders", "--interval", "0.01", *argv])
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), shown.err.splitlines()

    yield run
    logging.getLogger("tidelake.service").setLevel(level)


def test_all_options_are_read(tmp_path):
    files = {name: tmp_path / name for name in ("cert", "key", "ca", "tokens")}
    for file in files.values():
        file.touch()
    given = read_arguments(
        ["serve", "-w", "lake", "a", "db.b", "default.a", "--on", "spark", "--parallelism", "3",
         "--bind", "0.0.0.0:99", "--tls-cert", str(files["cert"]), "--tls-key", str(files["key"]),
         "--tls-ca", str(files["ca"]), "--tokens", str(files["tokens"]), "--insecure",
         "--metrics-port", "9100", "--interval", "0.5", "--log-format", "json",
         "--master", "local[4]", "--conf", "a=b"],
        {},
    )  # fmt: skip
    assert given.tables == ("default.a", "db.b")
    assert (given.on, given.parallelism, given.bind) == ("spark", 3, "0.0.0.0:99")
    assert (given.tls_cert, given.tls_key, given.tls_ca, given.tokens) == tuple(
        map(str, files.values())
    )
    assert (given.insecure, given.metrics_port, given.interval) == (True, 9100, 0.5)
    assert (given.log_format, given.master, given.conf) == ("json", "local[4]", {"a": "b"})


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "TABLE"),
        (("t", "--parallelism", "0"), "--parallelism takes a whole number from 1 on, not '0'"),
        (("t", "--metrics-port", "70000"), "a port up to 65535, not '70000'"),
        (("t", "--interval", "0"), "above 0"),
        (("t", "--tokens", "no-such-file"), "--tokens: there is no file no-such-file"),
        (("t", "--tls-cert", __file__), "--tls-cert and --tls-key need each other"),
        (("t", "--tls-ca", __file__), "--tls-ca needs --tls-cert"),
        (("t", "--master", "local[3]"), "--master is of Spark: give --on spark too"),
        (("t", "--on", "flink"), "'local', 'spark'"),
    ],
)
def test_what_is_wrong_is_said(argv, words):
    with pytest.raises(UsageError) as caught:
        read_arguments(["serve", "-w", "lake", *argv], {})
    assert words in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_and_handlers_are_as_before(serve, number):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    service = FakeService(LOOKS, nothing, press(number))
    code, lines, errors = serve(service)
    assert code == 0
    assert service.stops
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert len(lines) == 2
    assert " 1/1 executors; shop.orders ready, snapshot 3, lag 0, 0 gets/s" in lines[0]
    assert "hits 75.0%" in lines[1]
    assert errors[0] == "Query service at 127.0.0.1:4000. Ctrl-C stops it."
    assert [line.partition(" INFO ")[2] for line in errors[1:4]] == [
        "executor 0 has begun at 127.0.0.1:5000",
        "executor 0 is ready",
        "table shop.orders has snapshot 3",
    ]
    assert errors[-2:] == ["Stopping ...", "Stopped."]


def test_json_is_one_object_per_line_on_both_outputs(serve):
    code, lines, errors = serve(FakeService(LOOKS, nothing, press()), "--log-format", "json")
    assert code == 0
    assert [json.loads(line)["tables"][0]["hit_ratio"] for line in lines] == [None, 0.75]
    said = [json.loads(line) for line in errors]
    assert said[1]["executor"] == 0
    assert said[-1]["message"] == "Stopped."


def test_a_service_that_ends_by_itself_is_a_failure(serve):
    service = FakeService(LOOKS)
    service._actions = [nothing, service.stop]
    code, _, errors = serve(service)
    assert (code, errors[-1]) == (1, "The service has ended: see the log.")


def test_an_operator_may_stop_it(serve):
    service = FakeService(LOOKS)
    service.asked = True
    assert serve(service)[0] == 0


def test_metrics_are_answered_while_it_runs(serve, monkeypatch):
    servers, found = [], []

    def known(*given, **named):
        servers.append(MetricsServer(*given, **named))
        return servers[0]

    def scrape():
        address = f"http://127.0.0.1:{servers[0].port}/metrics"
        with urllib.request.urlopen(address, timeout=60) as answer:
            found.append(answer.read().decode())

    monkeypatch.setattr(serve_command, "MetricsServer", known)
    # a scrape asks for the status too
    code, _, errors = serve(FakeService(LOOKS, scrape, nothing, press()), "--metrics-port", "0")
    assert code == 0
    assert errors[0] == f"Metrics: http://127.0.0.1:{servers[0].port}/metrics"
    assert 'tidelake_query_keys_total{executor="0",table="shop.orders"}' in found[0]


def test_what_cannot_start_is_said(monkeypatch, capsys):
    @contextlib.contextmanager
    def refused(_):
        raise InvalidInputError("No slot is free.", kind="no_free_slot")
        yield

    monkeypatch.setattr(serve_command, "_started", refused)
    assert main(["serve", "-w", "lake", "t"]) == 1
    assert capsys.readouterr().err == "error: No slot is free.\n"


def test_a_terminal_gets_a_table_that_is_drawn_again(serve, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 1

    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((60, 12)))
    code, _, _ = serve(FakeService(LOOKS, nothing, press()))
    assert code == 0
    first, second = out.getvalue().split("\x1b[11F\x1b[J")
    assert first.startswith("Query service at 127.0.0.1:4000: 1 of 1 executors ready")
    lines = first.splitlines()
    assert len(lines) == 11  # the last line of the terminal is the cursor's
    assert max(map(len, lines)) <= 60
    assert lines[9] == ""
    assert lines[10].endswith(" executor 0 has begun at 127.0.0.1:5000")
    assert "│ 75" not in second  # what is too wide is cut
    assert err.getvalue() == "Stopping ...\nStopped.\n"


def test_a_service_is_started_asked_and_interrupted(tmp_path, capsys):
    orders = tidelake.open(tmp_path).create_table(
        "shop.orders", {"id": "INT", "item": "STRING"}, primary_keys=["id"], options={"bucket": 2}
    )
    orders.write([{"id": 1, "item": "tea"}])
    place = ["-w", str(tmp_path), "shop.orders"]
    argv = [sys.executable, "-W", "ignore", "-m", "tidelake", "serve", *place]
    with subprocess.Popen(
        [*argv, "--parallelism", "1", "--interval", "0.2", "--log-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as child:
        try:
            lines = map(json.loads, child.stdout)
            assert next((t["ready"] for line in lines for t in line["tables"] if t["ready"]), False)
            assert main(["get", *place, "1", "--json"]) == 0
            assert next((t["gets_per_second"] for line in lines for t in line["tables"]), 0) >= 0
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=120)
        finally:
            child.kill()
    shown = capsys.readouterr()
    assert shown.out == '{"id":1,"item":"tea"}\n'
    assert shown.err.startswith("From the service at 127.0.0.1:")
    assert child.returncode == 0
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert messages[-1] == "Stopped."
    assert any(message.startswith("executor 0 listens at") for message in messages)
    assert all(json.loads(line)["service"] for line in out.splitlines())
    assert main(["get", *place, "1"]) == 0
    assert capsys.readouterr().err == "From the table's files, snapshot 1.\n"
