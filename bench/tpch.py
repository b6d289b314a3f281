"""TPC-H on tables that change, as `tpc.py` says, and moments of its tables (`tpch_moments.py`).

Run by `python bench/run.py tpch [--size full] [--spark 4.1]`; small is SF 0.1, full SF 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernel import Line
from tpc import Size, bench
from tpc_suites import TPCH
from tpch_moments import after_a_commit, join, load

from tidelake.spark.versions import MINORS, minor_of

SIZES = {"small": (0.1, 1), "full": (1, 5)}
MEAN_MAX_OF_OLDER = 1.25
"""Target of the geometric mean on a Spark that is not the newest."""


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    with bench(TPCH, Size.asked(*SIZES[size_name])) as run:
        run.judge()
        rounds, tree, scale = run.size.rounds, run.tree, run.size.scale
        is_newest = minor_of(run.lake.spark.version) == MINORS[-1]
        mean = 1.2 if is_newest else MEAN_MAX_OF_OLDER
        for state, target in (("3 upserts of 2 %", (mean, 1.6)), ("compacted", (1.1, 1.3))):
            if state == "compacted":
                yield from after_a_commit(run.lake, run.rows, run.texts, rounds, tree, scale)
                run.compact()
            yield from run.measure(state, target)
            yield from join(run.lake, state, rounds, tree, scale)
        yield load(run.lake, run.rows, run.place, rounds, tree, scale)
