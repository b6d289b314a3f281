"""A query service is killed while clients ask: no answer is wrong, or older than one before."""

from __future__ import annotations

import pytest
from proving import service_kills as kills
from proving.service_kills import FIRST, LIFE, Answer, History, service_kills, steps_of, violations
from sizes import SIZE

import tidelake

pytest.importorskip("grpc")


def test_clients_go_on_while_a_service_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "CLIENTS", SIZE.service_clients)
    figures = service_kills(tmp_path, steps_of(SIZE.service_steps))
    print(figures)
    assert figures["calls"] > SIZE.service_clients
    assert all(seconds < 30 for times in figures["recovery_s"].values() for seconds in times)


@pytest.fixture
def history(tmp_path):
    """Two lives of a table: three snapshots, then one."""
    found = History(tidelake.open(tmp_path), None, life=2)
    found.states = {
        (1, 0): {},
        (1, 1): {0: LIFE + 1, 5: LIFE + 1},
        (1, 2): {0: LIFE + 2},
        (2, 1): {0: 2 * LIFE + 3},
    }
    found.gone = [(10.0, 11.0)]
    found.down = [(100.0, 140.0)]
    return found


def answer(rows, snapshot, *, at=1.0, waited=0.1, error=""):
    keys = tuple(rows)
    found = tuple(None if v is None else {"k": k, "v": v} for k, v in rows.items())
    return Answer(at, at + waited, keys, found, snapshot, error)


@pytest.mark.parametrize(
    ("answers", "count"),
    [
        ([answer({0: LIFE + 1, 5: LIFE + 1}, 1), answer({0: LIFE + 2, 5: None}, 2)], 0),
        ([answer({0: LIFE + 2, 5: None}, 2), answer({0: LIFE + 1}, 1)], 1),  # older
        ([answer({5: None}, 2)], 0),
        ([answer({5: None}, 1)], 0),  # of the second life
        ([answer({0: LIFE + 1, 5: None}, 1)], 1),  # a row is lost
        ([answer({0: LIFE + 2, 5: LIFE + 1}, 2)], 1),  # two snapshots in one
        ([answer({0: 2 * LIFE + 3}, 1), answer({0: LIFE + 2}, 2)], 1),  # of the life before
        ([answer({}, 0, error="gone")], 1),
        ([answer({}, 0, at=10.5, error="gone")], 0),  # there was no table
        ([answer({}, 0, at=99.0, waited=30.1, error="down")], 0),  # until the deadline
        ([answer({}, 0, at=101.0, error="down")], 1),  # long before it
        ([answer({}, 0, at=112.0, waited=30.1, error="down")], 1),  # another served again
    ],
)
def test_the_check_sees_what_is_wrong(history, answers, count):
    assert len(violations(history, answers)) == count


def test_a_short_run_kills_and_a_long_one_does_everything():
    assert {"pair", "stop", "clean", "server"} <= set(steps_of(6))
    assert len(steps_of(60)) == 60
    assert set(steps_of(60)) == set(steps_of(len(FIRST)))
