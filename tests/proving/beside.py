"""Scenarios of two processes: a writer commits between a compaction's plan and its commit."""

from __future__ import annotations

from proving import steps
from proving.scenario import Beside, Scenario
from proving.world import Shape

SUMS = (
    ("bucket", "1"),
    ("merge-engine", "aggregation"),
    ("fields.n.aggregate-function", "sum"),
)
LOOKUP_SUMS = Shape(("k",), (), None, (*SUMS, ("changelog-producer", "lookup")))
JOB_SUMS = Shape(("k",), (), None, (*LOOKUP_SUMS.options, ("write-only", "true")))


def of_two_processes() -> list[Scenario]:
    """Each process of each pair is once the one whose calls fail; sums tell of each commit.

    A job meets it when it begins its first file, and can keep what it compacts. A writer that
    compacts meets another such writer when it is about to publish, and has to let it go.
    """
    jobs, writers = [], []
    for fails in (False, True):
        who = "the other fails" if fails else "the first fails"
        jobs.append(
            Scenario(
                f"compaction job and writer, {who}",
                JOB_SUMS,
                [steps.compact(full=True)],
                settle=lambda table: table.compact(),
                given=[
                    steps.write(JOB_SUMS, steps.rows(JOB_SUMS, 0, 4, "a")),
                    steps.write(JOB_SUMS, steps.rows(JOB_SUMS, 2, 4, "b")),
                ],
                beside=Beside(steps.late(JOB_SUMS), lambda path, _: "/bucket-0/" in path, fails),
            )
        )
        writers.append(
            Scenario(
                f"two writers that compact, {who}",
                LOOKUP_SUMS,
                [steps.write(LOOKUP_SUMS, steps.rows(LOOKUP_SUMS, 2, 4, "b"))],
                settle=lambda table: table.compact(),
                given=[steps.write(LOOKUP_SUMS, steps.rows(LOOKUP_SUMS, 0, 4, "a"))],
                beside=Beside(steps.late(LOOKUP_SUMS), lambda _, data: b'"COMPACT"' in data, fails),
            )
        )
    return [*jobs, *writers]
