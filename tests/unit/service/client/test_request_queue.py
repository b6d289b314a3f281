"""Single gets that are joined, against a sender that does as told."""

import asyncio
import threading

import pytest

from tidelake.errors import StorageError
from tidelake.service.client.connection.coroutine_caller import CoroutineCaller
from tidelake.service.client.connection.thread_caller import ThreadCaller, finished
from tidelake.service.client.request_queue import RequestQueue
from tidelake.telemetry import SystemClock


class Now:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


class Sender:
    """Answers a key by its text once it may; a request whose end has come is an error."""

    def __init__(self, now, held=None):
        self.now = now
        self.held = held
        self.sent = []

    async def send(self, keys, columns, end):
        self.sent.append((tuple(keys), end))
        await self.held()
        if self.now() >= end:
            raise StorageError(f"over at {end}", kind="service_unavailable")
        return [{"k": key} for key in keys]


def test_a_joined_get_has_its_own_deadline():
    now = Now()
    sender = Sender(now)

    async def act():
        held = asyncio.Event()
        sender.held = held.wait
        queue = RequestQueue(sender, None, CoroutineCaller(), 10, now)
        gets = []
        for key, end in [("a", 50), ("b", 50), ("c", 10), ("d", 20), ("e", 21)]:
            gets.append(asyncio.ensure_future(queue.get(key, end)))
            for _ in range(3):
                await asyncio.sleep(0)
        assert [keys for keys, _ in sender.sent] == [("a",), ("b",)], "two are in flight"
        now.seconds = 10
        held.set()
        return await asyncio.wait_for(asyncio.gather(*gets, return_exceptions=True), 5)

    found = asyncio.run(act())
    assert [type(one) for one in found] == [dict, dict, StorageError, dict, dict]
    assert found[3:] == [{"k": "d"}, {"k": "e"}]
    assert sender.sent[2:] == [(("c", "d", "e"), 10), (("d", "e"), 20)]


def test_a_thread_that_joined_has_its_own_deadline():
    now = Now()
    held = threading.Event()

    async def hold():
        held.wait(5)

    sender = Sender(now, hold)
    queue = RequestQueue(sender, None, ThreadCaller(SystemClock()), 10, now)
    found = {}

    def get(key, end):
        try:
            found[key] = finished(queue.get(key, end))
        except StorageError as error:
            found[key] = error.message

    threads = []
    for count, (key, end) in enumerate([("a", 50), ("b", 50), ("c", 10), ("d", 20)], start=1):
        threads.append(threading.Thread(target=get, args=(key, end)))
        threads[-1].start()
        while len(sender.sent) + len(queue._waiting) < count:
            threads[-1].join(0.001)
    now.seconds = 10
    held.set()
    for thread in threads:
        thread.join(5)
    assert found == {"a": {"k": "a"}, "b": {"k": "b"}, "c": "over at 10", "d": {"k": "d"}}


@pytest.mark.parametrize("others", [0, 3])
def test_an_interrupt_leaves_the_others_their_answers(others):
    now = Now()
    sender = Sender(now)

    async def act():
        held = asyncio.Event()
        sender.held = held.wait
        queue = RequestQueue(sender, None, CoroutineCaller(), 10, now)
        first = asyncio.ensure_future(queue.get("first", 50))
        gets = [asyncio.ensure_future(queue.get(number, 50)) for number in range(others)]
        await asyncio.sleep(0.01)
        first.cancel()
        held.set()
        found = await asyncio.wait_for(asyncio.gather(*gets), 5)
        assert found == [{"k": number} for number in range(others)]
        assert await asyncio.wait_for(queue.get("last", 50), 5) == {"k": "last"}

    asyncio.run(act())
