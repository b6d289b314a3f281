"""Executors that report, are slow or hang, by a manual clock; who hangs is found, and nobody else.

Each executor reports, or is only slow (silent, but it answers), or hangs. What it does is drawn
anew now and then; so is whether the process that asks stands still for a while itself, in which
nothing is heard. One that is found to hang is replaced by its next attempt.
"""

from __future__ import annotations

import random
from unittest import mock

from tidelake.service.address.liveness import HUNG_SECONDS, PATIENCE_MAX, Liveness
from tidelake.service.address.registry import Registry
from tidelake.service.address.security import Security
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

__all__ = ["run_hung_executors"]

EXECUTORS = 3
LOOK_S = 0.25
LOOKS = 1_200
STATES = ("reports", "reports", "slow", "hangs")
FOUND_S = PATIENCE_MAX * HUNG_SECONDS + 2 * LOOK_S
"""A hang is found in this time, whatever was found before."""


class _Executor:
    """One index."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.attempt = 0
        self.state = "reports"
        self.since = self.started = 0.0

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
    """Run five minutes of the manual clock; how many hangs there were.

    Raises
    ------
    AssertionError
        One that lives was taken for hung, or a hang was not found in time.
    """
    rng = random.Random(seed)
    now = 1_000.0
    registry = Registry(EXECUTORS, 1, lambda: now)
    liveness = Liveness(registry, Security(), lambda: now)
    executors = [_Executor(index) for index in range(EXECUTORS)]
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
                    state = rng.choice(STATES)
                    if (state == "hangs") != (one.state == "hangs"):
                        one.since = now
                    one.state = state
                if one.state == "reports" and rng.random() < 0.9:
                    registry.register(one.report())
            for one in executors:
                why = liveness.hang(one.index, attempt=one.attempt, started=one.started)
                if why is None:
                    late = one.state == "hangs" and now - one.since > FOUND_S
                    assert not late, f"seed {seed}: {one.index} hangs for {now - one.since:.0f} s"
                    continue
                assert one.state == "hangs", f"seed {seed}: {one.index} {one.state}, and {why}"
                found += 1
                registry.forget(one.index)
                one.attempt += 1
                one.state, one.since, one.started = "reports", now, now
    return found
