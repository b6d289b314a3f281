"""Paired measurement: A and B alternate in one run, the ratio is taken round by round.

Absolute times on a shared machine mean nothing; the ratio of two pieces of work done side by side
does. Every line also runs a control (the reference against itself), which must come out near 1.
CPU seconds count all threads of this process, or, for Spark, the JVM and its Python workers.
"""

from __future__ import annotations

import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

ROUNDS = 5


@dataclass(frozen=True)
class Ratio:
    """Ratios A / B of the rounds."""

    median: float
    low: float
    high: float
    wall_median: float
    a_cpu_seconds: float
    b_cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Seconds:
    """What one call took; `user` is the part of `cpu` outside the kernel."""

    user: float
    cpu: float
    wall: float


def in_turn(works: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, list[Seconds]]:
    """Run several pieces of work round by round, each round in the other direction."""
    for work in works.values():
        work()
    taken: dict[str, list[Seconds]] = {name: [] for name in works}
    for number in range(rounds):
        for name in list(works)[:: 1 if number % 2 == 0 else -1]:
            gc.collect()
            user, cpu, wall = user_seconds(), time.process_time(), time.perf_counter()
            works[name]()
            used = user_seconds() - user, time.process_time() - cpu, time.perf_counter() - wall
            taken[name].append(Seconds(*used))
    return taken


def ratio(ours: list[float], theirs: list[float], walls: list[float]) -> Ratio:
    """Ratios of paired seconds; those of wall times are ratios already."""
    each = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    return Ratio(
        median=statistics.median(each),
        low=each[0],
        high=each[-1],
        wall_median=statistics.median(walls),
        a_cpu_seconds=statistics.median(ours),
        b_cpu_seconds=statistics.median(theirs),
    )


def geometric(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def user_seconds() -> float:
    """Seconds of this process so far, without the kernel's."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def tree_cpu_seconds() -> float:
    """CPU seconds used so far by this process and all its living children."""
    me = psutil.Process()
    total = time.process_time()
    for child in me.children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


def timed(work: Callable[[], object], cpu: Callable[[], float]) -> tuple[float, float]:
    """CPU and wall seconds of one call."""
    gc.collect()
    began_cpu, began = cpu(), time.perf_counter()
    work()
    return cpu() - began_cpu, time.perf_counter() - began


def paired(
    ours: Callable[[], object],
    reference: Callable[[], object],
    *,
    rounds: int = ROUNDS,
    cpu: Callable[[], float] = time.process_time,
    warm: bool = True,
) -> Ratio:
    """Alternate two pieces of work and compare them round by round."""
    if warm:
        ours()
        reference()
    pairs = []
    for number in range(rounds):
        # swap who goes first, so that neither always finds the warm cache
        order = (ours, reference) if number % 2 == 0 else (reference, ours)
        first, second = (timed(work, cpu) for work in order)
        pairs.append((first, second) if number % 2 == 0 else (second, first))
    return ratio(
        [a[0] for a, _ in pairs], [b[0] for _, b in pairs], [a[1] / b[1] for a, b in pairs]
    )
