"""Who hangs: by the reports, by the probe, and by what the one that asks did itself."""

from __future__ import annotations

import socket

import pytest
from unit.service.service_kit import made_table, running

import tidelake
from tidelake.service.address import liveness as module
from tidelake.service.address.liveness import HUNG_SECONDS, START_SECONDS, Liveness
from tidelake.service.address.registry import Registry
from tidelake.service.address.security import Security
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


class Watched:
    """A registry by a manual clock, and who asks about index 0."""

    def __init__(self):
        self.now = 100.0
        self.registry = Registry(1, 1, lambda: self.now)
        self.liveness = Liveness(self.registry, Security(), lambda: self.now)

    def report(self, address, attempt=0):
        self.registry.register(
            pb.ExecutorReport(index=0, attempt=attempt, instance=f"i{attempt}", address=address)
        )

    def asked(self, seconds, *, attempt=0, started=100.0):
        """Ask four times a second for so long; the first reason."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            why = self.liveness.hang(0, attempt=attempt, started=started)
            if why is not None:
                return why
        return None


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def deaf(monkeypatch):
    """The address of a process that was stopped: the system takes the connection."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_one_that_neither_reports_nor_answers_hangs(watched, deaf):
    watched.report(deaf)
    assert watched.asked(HUNG_SECONDS - 1) is None
    assert "has not reported for 5 s and does not answer" in watched.asked(2)
    watched.registry.forget(0)
    watched.report(deaf, attempt=1)
    began = watched.now
    assert watched.asked(60, attempt=1, started=began) is not None
    assert watched.now - began == 2 * HUNG_SECONDS  # so soon after another


def test_one_that_answers_is_only_slow(watched, tmp_path):
    catalog = tidelake.open(tmp_path)
    made_table(catalog, rows=1)
    with running(catalog, count=1) as service:
        watched.report(service.executors[0].address)
        assert watched.asked(60) is None


def test_one_that_never_registers_hangs_unless_it_may_wait_for_a_place(watched):
    assert watched.asked(4 * START_SECONDS, started=None) is None
    watched.now += 0.25
    assert watched.asked(START_SECONDS - 1, started=watched.now) is None
    assert "did not register" in watched.asked(2)


def test_what_was_not_heard_while_this_process_stood_still_is_no_silence(watched, deaf):
    watched.report(deaf)
    assert watched.asked(1) is None
    watched.now += 60
    assert watched.asked(HUNG_SECONDS - 1) is None
    assert watched.asked(2) is not None
