"""Finds executors that hang: they run, and neither report nor answer.

1. An executor reports every 0.2 s. One that has been silent for :data:`HUNG_SECONDS` is asked for
   its health. If it does not answer that in :data:`PROBE_SECONDS` either, it hangs: it was stopped
   (SIGSTOP), or waits for something that never comes. An executor that answers is only slow, or its
   reports do not come through: it is left alone.
2. One that never registers hangs after :data:`START_SECONDS`.
3. The times double with each hang of an index that follows shortly on another, up to four times as
   long: what takes an executor so long may be its work.
4. If this process itself stood still, nothing was heard meanwhile: silence counts from when it went
   on.

Who runs executors asks, ends the one that hangs, and starts another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tidelake.service.address.registry import Registry
from tidelake.service.address.security import Security

HUNG_SECONDS = 5.0
"""25 reports; clients leave it out after 15."""
PROBE_SECONDS = 1.0
START_SECONDS = 60.0
"""Opening a catalog may wait for a storage that is slow."""
PATIENCE_MAX = 4
STEADY_SECONDS = 60.0
"""After so long without a hang the times are the shortest again."""
STOOD_STILL_SECONDS = 3.0
"""Who asks does so several times a second, but for the probes."""


@dataclass
class _Known:
    """What is known of an index: when it was seen to live, and its last hang."""

    seen: float
    patience: int = 1
    hung_at: float = float("-inf")


class Hang(Protocol):
    """:meth:`Liveness.hang`, as who runs executors asks it."""

    def __call__(self, index: int, *, attempt: int, started: float | None) -> str | None:
        """Why an executor counts as hung; None if it lives."""
        ...


class Liveness:
    """Says which executors of a service hang. Threads share it.

    Parameters
    ----------
    now : callable
        A monotonic clock, in seconds.
    """

    def __init__(self, registry: Registry, security: Security, now: Callable[[], float]) -> None:
        self._registry = registry
        self._security = security
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[int, _Known] = {}
        self._awake_since = self._asked = now()

    def hang(self, index: int, *, attempt: int, started: float | None) -> str | None:
        """Why an executor counts as hung; None if it lives.

        Parameters
        ----------
        attempt : int
            The first attempt that may have registered since it was started.
        started : float, optional
            When it was started, by the monotonic clock; None if it may wait for a place to run, so
            that one which has not registered does not hang.
        """
        now = self._now()
        with self._lock:
            if now - self._asked > STOOD_STILL_SECONDS:
                self._awake_since = now
            self._asked = now
            known = self._known.setdefault(index, _Known(self._awake_since))
            known.seen = max(known.seen, started or 0.0, self._awake_since)
            if now - known.hung_at > STEADY_SECONDS:
                known.patience = 1
        found = self._registry.find(index)
        if found is None or found.report.attempt < attempt:
            seconds = now - known.seen
            if started is None or seconds < START_SECONDS * known.patience:
                return None
            return self._hung(known, f"did not register in {seconds:.0f} s")
        known.seen = max(known.seen, found.heard_ms / 1000)
        seconds = now - known.seen
        if seconds < HUNG_SECONDS * known.patience:
            return None
        if self._answers(found.report.address):
            known.seen = now
            return None
        return self._hung(known, f"has not reported for {seconds:.0f} s and does not answer")

    def _hung(self, known: _Known, why: str) -> str:
        with self._lock:
            # the probe took its time, and what is started next has its own
            known.seen = known.hung_at = self._asked = self._now()
            known.patience = min(2 * known.patience, PATIENCE_MAX)
        return why

    def _answers(self, address: str) -> bool:
        with self._security.channel(address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                stub.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_SECONDS)
            except grpc.RpcError as error:
                return error.code() not in _SILENCE
        return True


_SILENCE = frozenset({grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE})
