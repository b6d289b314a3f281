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
MARKED_SUMS = Shape(
    ("k",), (), None, (*SUMS, ("deletion-vectors.enabled", "true"), ("file.compression", "none"))
)
JOB_MARKED_SUMS = Shape(("k",), (), None, (*MARKED_SUMS.options, ("write-only", "true")))

EXPIRING = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("num-sorted-run.compaction-trigger", "2"),
        ("snapshot.num-retained.min", "2"),
        ("snapshot.num-retained.max", "2"),
    ),
)

LONG = "a" * 60
"""Makes a file so large that a compaction of the newer ones marks its rows and leaves it."""


def of_two_processes() -> list[Scenario]:
    """Each process of each pair is once the one whose calls fail; sums tell of each commit."""
    return [*_of_logs(), *_of_marks(), *_of_expiry()]


def _of_logs() -> list[Scenario]:
    """Compactions that look rows up for the changelog.

    A job meets a writer when it begins its first file, and can keep what it compacts. A writer that
    compacts meets another such writer when it is about to publish, and has to let it go.
    """
    jobs, writers = [], []
    for fails in (False, True):
        who = "the other fails" if fails else "the first fails"
        jobs.append(
            Scenario(
                f"compaction job and writer, {who}",
                JOB_SUMS,
                [steps.compact(full=True, may_lose=True)],
                settle=lambda table: table.compact(),
                given=[
                    steps.write(JOB_SUMS, steps.rows(JOB_SUMS, 0, 4, "a")),
                    steps.write(JOB_SUMS, steps.rows(JOB_SUMS, 2, 4, "b")),
                ],
                beside=Beside(steps.late(JOB_SUMS), _first_file, fails),
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


def _of_marks() -> list[Scenario]:
    """Compactions that mark, in a large old file, the rows that newer ones replace.

    A job marks rows while a writer adds a file without compacting: the marks stay. A job rewrites
    the marked file while a writer that compacts marks more of its rows: one of them lets go.
    """
    kept, contended = [], []
    for fails in (False, True):
        who = "the other fails" if fails else "the first fails"
        kept.append(
            Scenario(
                f"deletion vectors of a job beside a writer, {who}",
                JOB_MARKED_SUMS,
                [steps.compact(full=False, may_lose=True)],
                settle=lambda table: table.compact(),
                given=[
                    steps.write(JOB_MARKED_SUMS, steps.rows(JOB_MARKED_SUMS, 0, 40, LONG)),
                    steps.compact(full=True),
                    steps.write(JOB_MARKED_SUMS, steps.rows(JOB_MARKED_SUMS, 2, 4, "b")),
                ],
                beside=Beside(steps.late(JOB_MARKED_SUMS), _first_file, fails),
            )
        )
        contended.append(
            Scenario(
                f"deletion vectors of a job and a writer, {who}",
                MARKED_SUMS,
                [steps.compact(full=True, may_lose=True)],
                settle=lambda table: table.compact(),
                given=[
                    steps.write(MARKED_SUMS, steps.rows(MARKED_SUMS, 0, 40, LONG)),
                    steps.write(MARKED_SUMS, steps.rows(MARKED_SUMS, 2, 4, "b")),
                ],
                beside=Beside(steps.late(MARKED_SUMS), _first_file, fails),
            )
        )
    return [*kept, *contended]


def _of_expiry() -> list[Scenario]:
    """A call removes the first snapshot's file while a writer commits and expires too."""
    return [
        Scenario(
            f"expiry beside a writer, {'the other fails' if fails else 'the first fails'}",
            EXPIRING,
            [steps.expire()],
            given=[
                steps.write(EXPIRING, steps.rows(EXPIRING, 0, 4, "a")),
                steps.tag("t"),
                steps.write(EXPIRING, steps.rows(EXPIRING, 2, 4, "b")),
            ],
            beside=Beside(steps.late(EXPIRING), _first_removal, fails),
        )
        for fails in (False, True)
    ]


def _first_removal(path: str, data: bytes) -> bool:
    """An expiry has announced how far it goes, and begins to remove."""
    return "/snapshot/snapshot-" in path and not data


def _first_file(path: str, _: bytes) -> bool:
    """A compaction has planned and looked around, and begins to write."""
    return "/bucket-0/" in path
