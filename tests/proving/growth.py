"""What processes take, counted from outside, and whether it grows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

Samples = list[tuple[float, dict[str, float]]]


def resident_mib(pid: int) -> float:
    """The memory of a process, with the pages of files that it maps."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def anonymous_mib(pid: int) -> float:
    """The memory of a process that is no page of a file."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) / 2**10


def threads_count(pid: int) -> int:
    """The threads of a process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def files_count(pid: int) -> int:
    """The files that a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def rises(samples: Samples, names: Iterable[str]) -> dict[str, float]:
    """By how much each figure rises from the first sample to the last, by a line through all.

    Examples
    --------
    >>> rises([(0.0, {"a": 1.0}), (1.0, {"a": 2.0}), (2.0, {"a": 3.0})], ["a"])
    {'a': 2.0}
    """
    times = np.array([at for at, _ in samples])
    found = {}
    for name in names:
        slope, _ = np.polyfit(times, [one[name] for _, one in samples], 1)
        found[name] = round(float(slope) * float(times[-1] - times[0]), 1)
    return found
