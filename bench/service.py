"""W5: rows by key from the query service, beside Redis on the same machine.

- service-single: 64 coroutines that each get one key at a time, against redis-py pipelines of 64,
  and against 64 coroutines of redis-py.
- service-batch: batches of 1,000 keys, against MGET of 1,000.
- service-lone: one caller that gets one key at a time, against redis-py; medians of single calls.

Client, servers and Redis share two cores, so wall time decides, and the column with CPU ratios has
those of wall times here. Rows are a BIGINT, a DOUBLE and two texts, 72 bytes; in Redis they are one
value of 88 bytes. Redis comes with `apt-get install -y redis-server`; without it the lines say what
the service does alone. Run by `python bench/run.py service [--size full]`.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from kernel import Line, scratch
from measure import Ratio, ratio

import tidelake

TABLE = "db.t"
VALUE = b"x" * 88
CALLERS = 64
BATCH = 1_000


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    single_gets: int
    batches: int
    lone_gets: int
    rounds: int


SIZES = {
    "small": Size(5_000, 640, 3, 50, 1),
    "full": Size(2_000_000, 64_000, 100, 3_000, 5),
}


@contextmanager
def service(size: Size) -> Iterator[Path]:
    """A warehouse with a table of rows with even keys, and its service of one process."""
    with scratch() as place:
        table = tidelake.open(place).create_table(
            TABLE,
            pa.schema({"k": pa.int64(), "d": pa.float64(), "v": pa.string(), "w": pa.string()}),
            primary_keys=["k"],
            options={"bucket": 4},
        )
        numbers = np.arange(size.rows)
        names = pa.array(numbers).cast(pa.string())
        rows = {
            "k": numbers * 2,
            "d": numbers / 3,
            "v": pa.compute.utf8_lpad(names, 40, "0"),
            "w": pa.compute.utf8_lpad(names, 16, "0"),
        }
        table.write(pa.table(rows))
        with tidelake.serve(place, [TABLE], parallelism=1):
            yield place


@contextmanager
def redis(size: Size) -> Iterator[Any]:
    """A Redis with as many values of 88 bytes, by keys of 8 bytes; None where it is missing."""
    if shutil.which("redis-server") is None:
        yield None
        return
    import redis as client

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", str(port), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        connected = client.Redis(port=port)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                connected.ping()
                break
            except client.ConnectionError:
                time.sleep(0.05)
        for begin in range(0, size.rows, 10_000):
            pipe = connected.pipeline(transaction=False)
            for number in range(begin, min(begin + 10_000, size.rows)):
                pipe.set((2 * number).to_bytes(8, "little"), VALUE)
            pipe.execute()
        yield connected
    finally:
        server.kill()
        server.wait()


def drawn(size: Size, count: int) -> list[int]:
    """Random keys, a half of them missing."""
    return np.random.default_rng(7).integers(0, 2 * size.rows, count).tolist()


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compared(
    ours: Callable[[], float], theirs: Callable[[], float] | None, rounds: int
) -> tuple[Ratio | None, float, float]:
    """Wall times in turn: their ratio, and the medians of both."""
    ours()
    own, other = [], []
    if theirs is not None:
        theirs()
    for _ in range(rounds):
        own.append(ours())
        if theirs is not None:
            other.append(theirs())
    median = statistics.median(own)
    if theirs is None:
        return None, median, 0.0
    walls = [a / b for a, b in zip(own, other, strict=True)]
    return ratio(own, other, walls), median, statistics.median(other)


def line(what: str, against: str, found: Any, target: str, shown: Callable[[float], str]) -> Line:
    """A line; without Redis it says what the service does alone."""
    ratios, own, other = found
    if ratios is None:
        return Line("W5", f"{what}: {shown(own)}", "no Redis here", None, target, note=shown(own))
    return Line("W5", f"{what}: {shown(own)}", f"{against}: {shown(other)}", ratios, target)


def single_lines(size_name: str) -> Iterator[Line]:
    """64 callers of single keys."""
    size = SIZES[size_name]
    keys = drawn(size, size.single_gets)
    with service(size) as place, redis(size) as store:
        ours = asyncio.run(checked_async(place, keys[:BATCH]))
        assert ours, "the right rows"

        def coroutines() -> float:
            return asyncio.run(timed_async(place, keys))

        def pipelines() -> float:
            packed = [k.to_bytes(8, "little") for k in keys]

            def work() -> None:
                for begin in range(0, len(packed), CALLERS):
                    pipe = store.pipeline(transaction=False)
                    for key in packed[begin : begin + CALLERS]:
                        pipe.get(key)
                    pipe.execute()

            return seconds(work)

        def same_callers() -> float:
            return asyncio.run(timed_redis(store, keys))

        theirs = (pipelines, same_callers) if store is not None else (None, None)
        found = [compared(coroutines, other, size.rounds) for other in theirs]

    def shown(wall: float) -> str:
        return f"{len(keys) / wall:,.0f} gets/s"

    what = f"service, {CALLERS} callers of single keys, {size.rows:,} rows, wall time"
    yield line(what, f"redis-py, pipelines of {CALLERS}", found[0], "<= 0.5", shown)
    if found[1][0] is not None:
        yield line(what, f"redis-py, {CALLERS} callers of single keys", found[1], "<= 0.5", shown)


async def timed_redis(store: Any, keys: list[int]) -> float:
    """Wall time of all gets from Redis by 64 coroutines."""
    from redis import asyncio as client

    port = store.connection_pool.connection_kwargs["port"]
    async with client.Redis(port=port, max_connections=CALLERS) as connected:
        await connected.get(b"warm")

        async def caller(number: int) -> None:
            for key in keys[number::CALLERS]:
                await connected.get(key.to_bytes(8, "little"))

        began = time.perf_counter()
        await asyncio.gather(*map(caller, range(CALLERS)))
        return time.perf_counter() - began


async def checked_async(place: Path, keys: list[int]) -> bool:
    """Whether single gets of coroutines are right."""
    async with tidelake.lookup_client_async(place, TABLE) as query:
        rows = await asyncio.gather(*map(query.get, keys))
    return all(
        (row is None) == (key % 2 == 1) and (row is None or row["w"] == f"{key // 2:016d}")
        for key, row in zip(keys, rows, strict=True)
    )


async def timed_async(place: Path, keys: list[int]) -> float:
    """Wall time of all gets by 64 coroutines."""
    async with tidelake.lookup_client_async(place, TABLE) as query:
        await query.get(keys[0])

        async def caller(number: int) -> None:
            get: Callable[[int], Awaitable[object]] = query.get
            for key in keys[number::CALLERS]:
                await get(key)

        began = time.perf_counter()
        await asyncio.gather(*map(caller, range(CALLERS)))
        return time.perf_counter() - began


def batch_lines(size_name: str) -> Iterator[Line]:
    """Batches of 1,000 keys, as Arrow and as lists of dicts."""
    size = SIZES[size_name]
    keys = drawn(size, BATCH * size.batches)
    lists = [keys[at : at + BATCH] for at in range(0, len(keys), BATCH)]
    arrays = list(map(pa.array, lists))
    packed = [[k.to_bytes(8, "little") for k in one] for one in lists]
    with (
        service(size) as place,
        redis(size) as store,
        tidelake.lookup_client(place, TABLE) as query,
    ):
        table = query.get_many(arrays[0])
        wanted = [None if k % 2 else f"{k // 2:016d}" for k in lists[0]]
        assert table.column("w").to_pylist() == wanted, "the right rows"
        rows = [row if row["k"] is not None else None for row in table.to_pylist()]
        assert query.get_many(lists[0]) == rows, "the same rows"

        def mget() -> float:
            return seconds(lambda: [store.mget(one) for one in packed])

        theirs = mget if store is not None else None
        for name, given in (("Arrow", arrays), ("dicts", lists)):

            def ours(given: list[Any] = given) -> float:
                return seconds(lambda: [query.get_many(one) for one in given])

            found = compared(ours, theirs, size.rounds)

            def shown(wall: float) -> str:
                return f"{len(keys) / wall:,.0f} keys/s"

            what = f"service, batches of {BATCH:,} as {name}, wall time"
            yield line(what, "redis-py, MGET", found, "<= 0.2", shown)


def lone_lines(size_name: str) -> Iterator[Line]:
    """One caller of single keys: medians of single calls."""
    size = SIZES[size_name]
    keys = drawn(size, size.lone_gets)
    with (
        service(size) as place,
        redis(size) as store,
        tidelake.lookup_client(place, TABLE) as query,
    ):
        assert query.get(4)["w"] == f"{2:016d}"
        assert query.get(5) is None

        def ours() -> float:
            return statistics.median(seconds(lambda k=k: query.get(k)) for k in keys)

        def theirs() -> float:
            packed = [k.to_bytes(8, "little") for k in keys]
            return statistics.median(seconds(lambda k=k: store.get(k)) for k in packed)

        found = compared(ours, theirs if store is not None else None, size.rounds)

    def shown(wall: float) -> str:
        return f"p50 {1e6 * wall:,.0f} us"

    what = "service, one caller of single keys, median wall time"
    yield line(what, "redis-py", found, "<= 3", shown)
