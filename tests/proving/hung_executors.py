"""Executors that report, are slow or hang, by a manual clock; who hangs is found, and nobody else.

Each executor reports, or is only slow (silent, but it answers), or hangs. What it does is drawn
anew now and then; so is whether the process that asks stands still for a while itself, in which
nothing is heard. One that is found to hang is replaced by its next attempt.

An attempt may be silent from its start. Nobody knows its address, so it cannot be asked: slow or
hanging, it counts as hung, and has the longer time of a start.
"""

from __future__ import annotations

import random
from unittest import mock

from tidelake.service.address.liveness import (
    HUNG_SECONDS,
    PATIENCE_MAX,
    START_SECONDS,
    Liveness,
)
from tidelake.service.address.registry import Registry
from tidelake.service.address.security import Security
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

__all__ = ["run_hung_executors"]

EXECUTORS = 3
LOOK_S = 0.25
LOOKS = 2_400
STATES = ("reports", "reports", "slow", "hangs")
STARTS = (*["reports"] * 8, "slow", "hangs")
"""Of the next attempt."""
FOUND_S = PATIENCE_MAX * HUNG_SECONDS + 2 * LOOK_S
"""A hang is found in this time, whatever was found before."""
START_FOUND_S = PATIENCE_MAX * START_SECONDS + 2 * LOOK_S
"""The same for one that has never reported."""


class _Executor:
    """One index, and its attempt that runs."""

    def __init__(self, index: int, now: float) -> None:
        self.index = index
        self.attempt = -1
        self.start("reports", now)

    def start(self, state: str, now: float) -> None:
        """The next attempt."""
        self.attempt += 1
        self.state = state
        self.has_reported = False
        self.started = self.since = now

    def turn(self, state: str, now: float) -> None:
        """Report, be slow or hang from now on; a start that is silent stays so."""
        if not self.has_reported:
            return
        if (state == "hangs") != (self.state == "hangs"):
            self.since = now
        self.state = state

    @property
    def is_hung(self) -> bool:
        return self.state == "hangs" or (self.state == "slow" and not self.has_reported)

    @property
    def found_s(self) -> float:
        """In how many seconds a hang is found."""
        return FOUND_S if self.has_reported else START_FOUND_S

    @property
    def address(self) -> str:
        return f"{self.index}.{self.attempt}"

    def report(self) -> pb.ExecutorReport:
        return pb.ExecutorReport(
            protocol=1,
            index=self.index,
            attempt=self.attempt,
            instance=self.address,
            address=self.address,
        )


def run_hung_executors(seed: int) -> int:
    """Run ten minutes of the manual clock; how many hangs there were.

    Raises
    ------
    AssertionError
        One that lives was taken for hung, or a hang was not found in time.
    """
    rng = random.Random(seed)
    now = 1_000.0
    registry = Registry(EXECUTORS, 1, lambda: now)
    liveness = Liveness(registry, Security(), lambda: now)
    executors = [_Executor(index, now) for index in range(EXECUTORS)]
    found = 0

    def answers(_, address: str) -> bool:
        (one,) = [e for e in executors if e.address == address]
        return one.state != "hangs"

    with mock.patch.object(Liveness, "_answers", answers):
        for _ in range(LOOKS):
            now += LOOK_S
            if rng.random() < 0.005:
                now += rng.uniform(1, 30)  # this process stands still
                for one in executors:
                    one.since = max(one.since, now)
            for one in executors:
                if rng.random() < 0.01:
                    one.turn(rng.choice(STATES), now)
                if one.state == "reports" and rng.random() < 0.9:
                    registry.register(one.report())
                    one.has_reported = True
            for one in executors:
                why = liveness.hang(one.index, attempt=one.attempt, started=one.started)
                if why is None:
                    late = one.is_hung and now - one.since > one.found_s
                    assert not late, f"seed {seed}: {one.index} hangs for {now - one.since:.0f} s"
                    continue
                assert one.is_hung, f"seed {seed}: {one.index} {one.state}, and {why}"
                found += 1
                registry.forget(one.index)
                one.start(rng.choice(STARTS), now)
    return found
