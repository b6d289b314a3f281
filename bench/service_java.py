"""W5: the query service beside Java Paimon 1.3.1's own, on the same table.

Java's service is its netty server over a `LocalTableQuery`, with a thread for the network and one
for queries, as its Flink job starts it: here it runs without Flink, and its client beside it in
the same process (`java/QueryService.java`). A call of it asks one bucket, so a batch is a call for
each bucket. Its answers are checked, and so are ours.

Client and server share two cores, so wall time decides, as in `service.py`. Java and the jars of
its service come by Maven on first use; without them the lines are left out. Run by
`python bench/run.py service-java [--size full]`.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import service
from kernel import Line
from measure import Ratio
from service import BATCH, CALLERS, SIZES, TABLE, Size

import tidelake

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from interop.readers import AbsentError, JavaCore

PROGRAM = Path(__file__).parent / "java" / "QueryService.java"
JAVA = "Java Paimon's query service"
SHORT = 10
"""Its single keys are so many times fewer, as it takes so much longer for them."""
Compared = tuple[Ratio | None, float, float]


class JavaService:
    """The program, asked by lines; see `QueryService.java`."""

    def __init__(self, core: JavaCore, place: Path, size: Size) -> None:
        path = os.pathsep.join([core.class_path, *map(str, core.service_jars())])
        arguments = map(str, [place / "db.db" / "t", place / "spill", size.rows, 7])
        self._process = subprocess.Popen(
            ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", path, str(PROGRAM), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, command: str) -> float:
        """What a command took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def java_service(place: Path, size: Size) -> Iterator[JavaService | None]:
    """Java's service of the table; None where there is no Java."""
    core = JavaCore()
    try:
        core.prepare()
        core.service_jars()
    except AbsentError:
        yield None
        return
    running = JavaService(core, place, size)
    try:
        yield running
    finally:
        running.close()


def lines(size_name: str) -> Iterator[Line]:
    """Single keys of 64 callers, batches, a lone caller."""
    size = SIZES[size_name]
    keys = service.drawn(size, size.single_gets)
    batches = [pa.array(keys[at : at + BATCH]) for at in range(0, len(keys), BATCH)]
    with service.service(size) as place, java_service(place, size) as java:
        if java is None:
            return
        assert asyncio.run(service.checked_async(place, keys[:BATCH])), "the right rows"
        with tidelake.lookup_client(place, TABLE) as query:

            def singly() -> float:
                return asyncio.run(service.timed_async(place, keys)) / len(keys)

            def together() -> float:
                return service.seconds(lambda: [query.get_many(one) for one in batches]) / len(keys)

            def alone() -> float:
                few = keys[: size.lone_gets]
                return statistics.median(service.seconds(lambda k=k: query.get(k)) for k in few)

            def beside(ours: Callable[[], float], command: str, count: int) -> Compared:
                return service.compared(ours, lambda: java.seconds(command) / count, size.rounds)

            single = beside(singly, f"single {len(keys) // SHORT} {CALLERS}", len(keys) // SHORT)
            batch = beside(together, f"batch {size.batches} {BATCH}", size.batches * BATCH)
            lone = beside(alone, f"lone {size.lone_gets}", 1)
    tail = f"{size.rows:,} rows, wall time"
    yield service.line(f"service, {CALLERS} callers of single keys, {tail}", JAVA, single, "", rate)
    yield service.line(f"service, batches of {BATCH:,} as Arrow, {tail}", JAVA, batch, "", rate)
    yield service.line(f"service, one caller of single keys, {tail}", JAVA, lone, "", micros)


def rate(seconds: float) -> str:
    """Keys in a second, from the seconds of one."""
    return f"{1 / seconds:,.0f} keys/s"


def micros(seconds: float) -> str:
    """A median of single calls."""
    return f"p50 {1e6 * seconds:,.0f} us"
