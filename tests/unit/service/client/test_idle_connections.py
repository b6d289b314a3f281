"""Connections that no call uses are closed after a while, and never two callers get the same."""

from __future__ import annotations

import threading

from tidelake.service.client.connection.idle_connections import IDLE_SECONDS, IdleConnections


class Connection:
    def __init__(self):
        self.is_closed = self.is_used = False

    def close(self):
        self.is_closed = True


def test_a_burst_of_calls_leaves_no_connections():
    now = [0.0]
    idle = IdleConnections(Connection.close, lambda: now[0])
    burst = [Connection() for _ in range(50)]
    for one in burst:
        idle.give_back(one)
    for _ in range(30):  # one caller goes on
        now[0] += 1
        one = idle.take()
        assert not one.is_closed
        idle.give_back(one)
    assert sum(not one.is_closed for one in burst) == 1
    idle.close()
    assert all(one.is_closed for one in burst)
    assert idle.take() is None


def test_what_is_in_use_is_closed_when_it_comes_back():
    idle = IdleConnections(Connection.close, lambda: 0.0)
    idle.give_back(Connection())
    one = idle.take()
    idle.close()
    assert not one.is_closed
    idle.give_back(one)
    assert one.is_closed


def test_no_two_threads_have_the_same_connection():
    now = [0.0]
    idle, wrong = IdleConnections(Connection.close, lambda: now[0]), []

    def work():
        for _ in range(2_000):
            one = idle.take() or Connection()
            if one.is_used or one.is_closed:
                wrong.append(one)
            one.is_used = True
            now[0] += IDLE_SECONDS / 4
            one.is_used = False
            idle.give_back(one)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
