"""TPC-DS on tables that change, as `tpc.py` says: 99 queries over 24 tables, 7 of them upserted.

Run by `python bench/run.py tpcds [--size full]`; small is SF 0.1, full SF 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernel import Line
from tpc import Size, bench
from tpc_suites import TPCDS

SIZES = {"small": (0.1, 1), "full": (1, 3)}


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    with bench(TPCDS, Size.asked(*SIZES[size_name])) as run:
        run.judge()
        yield from run.measure("3 upserts of 2 %", (1.0, 1.6))
        run.compact()
        yield from run.measure("compacted", (0.95, 1.6))
