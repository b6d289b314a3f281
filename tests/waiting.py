"""Waiting for what another thread or process does: for the very thing that is asserted, no time."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_MAX = 60
"""So long nothing takes that is not stuck."""


def until(holds: Callable[[], object], *, seconds: float = SECONDS_MAX) -> None:
    """Wait until something holds; fail if it never does."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, f"not within {seconds:g} s"
        time.sleep(0.01)
