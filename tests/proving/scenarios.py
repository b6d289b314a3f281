"""The scenarios whose every call fails: each way in which a table is written or changed."""

from __future__ import annotations

from proving import steps
from proving.beside import SUMS, of_two_processes
from proving.scenario import Scenario
from proving.world import Shape

PK = Shape(("k",), (), None, (("bucket", "1"), ("num-sorted-run.compaction-trigger", "2")))
PARTITIONED = Shape(("p", "k"), ("p",), None, (("bucket", "2"),))
APPEND = Shape((), (), None, (("bucket", "-1"),))
DYNAMIC = Shape(("k",), (), None, (("bucket", "-1"), ("dynamic-bucket.target-row-num", "3")))
INDEXED = Shape(
    (),
    (),
    None,
    (("file-index.bloom-filter.columns", "k"), ("file-index.in-manifest-threshold", "1 b")),
)
MARKED = Shape(
    (), (), None, (("deletion-vectors.enabled", "true"), ("compaction.min.file-num", "2"))
)
CLUSTERED = Shape(
    (),
    (),
    None,
    (
        ("clustering.columns", "k,v"),
        ("clustering.incremental", "true"),
        ("num-sorted-run.compaction-trigger", "2"),
        ("deletion-vectors.enabled", "true"),
    ),
)
INPUT_LOG = Shape(("k",), (), None, (("bucket", "1"), ("changelog-producer", "input")))
LOOKUP_LOG = Shape(("k",), (), None, (("bucket", "1"), ("changelog-producer", "lookup")))
MARKED_KEYS = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("deletion-vectors.enabled", "true"),
        ("changelog-producer", "lookup"),
    ),
)
JOB = Shape(
    ("k",),
    (),
    None,
    (("bucket", "1"), ("write-only", "true"), ("changelog-producer", "lookup")),
)
FULL_LOG = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("changelog-producer", "full-compaction"),
        ("full-compaction.delta-commits", "1"),
    ),
)
EXPIRING_LOG = Shape(
    ("k",),
    (),
    None,
    (
        *PK.options,
        ("changelog-producer", "input"),
        ("snapshot.num-retained.min", "1"),
        ("snapshot.num-retained.max", "1"),
        ("changelog.num-retained.max", "3"),
    ),
)
POSTPONE = Shape(("k",), (), None, (("bucket", "-2"),))
GROUPED = Shape(
    ("k",),
    (),
    None,
    (
        ("bucket", "1"),
        ("merge-engine", "partial-update"),
        ("fields.n.sequence-group", "v"),
        ("partial-update.remove-record-on-sequence-group", "n"),
        ("changelog-producer", "lookup"),
    ),
)
FULL_SUMS = Shape(("k",), (), None, (*SUMS, ("changelog-producer", "full-compaction")))
FIRST_ROW = Shape(
    ("k",),
    (),
    None,
    (("bucket", "1"), ("merge-engine", "first-row"), ("changelog-producer", "lookup")),
)


def _made_by_engines() -> list[Scenario]:
    """Parts of rows, sums and first rows, each merged, looked up and logged by a compaction."""
    parts = [
        {"k": 0, "v": None, "n": None, "x": 1.5},  # says nothing of the group
        {"k": 1, "v": "gone", "n": 9, "x": None},
        {"k": 2, "v": "new", "n": 9, "x": 0.5},
        {"k": 3, "v": "old", "n": 0, "x": 2.5},
        {"k": 7, "v": None, "n": None, "x": 3.5},
    ]
    return [
        Scenario(
            "partial update with lookups",
            GROUPED,
            [steps.write(GROUPED, parts, [row["k"] == 1 for row in parts])],
            settle=lambda table: table.compact(),
            given=[steps.write(GROUPED, steps.rows(GROUPED, 0, 60, "a"))],
        ),
        Scenario(
            "aggregation with full compactions",
            FULL_SUMS,
            [
                steps.write(
                    FULL_SUMS, steps.rows(FULL_SUMS, 2, 4, "b"), [False, True, False, False]
                ),
                steps.compact(full=True),
            ],
            given=[
                steps.write(FULL_SUMS, steps.rows(FULL_SUMS, 0, 4, "a")),
                steps.compact(full=True),
            ],
        ),
        Scenario(
            "first rows with lookups",
            FIRST_ROW,
            [steps.write(FIRST_ROW, steps.rows(FIRST_ROW, 58, 4, "b"))],
            settle=lambda table: table.compact(),
            given=[steps.write(FIRST_ROW, steps.rows(FIRST_ROW, 0, 60, "a"))],
        ),
    ]


def _of_expiry() -> list[Scenario]:
    """A commit after which snapshots expire, and changelogs that outlived theirs."""
    marks = [i == 1 for i in range(4)]
    return [
        Scenario(
            "snapshots and changelogs expire",
            EXPIRING_LOG,
            [steps.write(EXPIRING_LOG, steps.rows(EXPIRING_LOG, 2, 4, "d"), marks)],
            given=[
                steps.write(EXPIRING_LOG, steps.rows(EXPIRING_LOG, 0, 4, "a")),
                steps.tag("t"),
                steps.write(EXPIRING_LOG, steps.rows(EXPIRING_LOG, 2, 4, "b"), marks),
                steps.write(EXPIRING_LOG, steps.rows(EXPIRING_LOG, 1, 2, "c")),
            ],
        ),
    ]


def scenarios() -> list[Scenario]:
    """Create, append, upsert, compact, overwrite, log, postpone, rescale, drop, alter, merge."""
    first, second = steps.rows(PK, 0, 6, "a"), steps.rows(PK, 3, 6, "b")
    return [
        Scenario("append", APPEND, [steps.write(APPEND, steps.rows(APPEND, 0, 4, "a"))] * 2),
        Scenario(
            "upsert with compaction",
            PK,
            [
                steps.write(PK, first),
                steps.write(PK, second, [i % 3 == 0 for i in range(6)]),
                steps.write(PK, steps.rows(PK, 1, 3, "c")),
                steps.compact(full=True),
            ],
        ),
        Scenario(
            "overwrite",
            PARTITIONED,
            [
                steps.write(PARTITIONED, steps.rows(PARTITIONED, 0, 4, "a")),
                steps.overwrite(
                    PARTITIONED, [r for r in steps.rows(PARTITIONED, 0, 4, "o") if r["p"] == "a"]
                ),
            ],
        ),
        Scenario(
            "postpone",
            POSTPONE,
            [
                steps.write(POSTPONE, steps.rows(POSTPONE, 0, 4, "a")),
                steps.write(POSTPONE, steps.rows(POSTPONE, 2, 4, "b"), [False, True, False, False]),
                steps.compact(full=True),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "rescale",
            PK,
            [steps.write(PK, steps.rows(PK, 0, 4, "a")), steps.rescale(2)],
            settle=lambda table: table.rescale_bucket(),
        ),
        Scenario(
            "drop and truncate",
            PARTITIONED,
            [
                steps.write(PARTITIONED, steps.rows(PARTITIONED, 0, 4, "a")),
                steps.drop("a"),
                steps.truncate(),
            ],
        ),
        Scenario(
            "dynamic buckets",
            DYNAMIC,
            [
                steps.write(DYNAMIC, steps.rows(DYNAMIC, 0, 5, "a")),
                steps.write(
                    DYNAMIC, steps.rows(DYNAMIC, 3, 5, "b"), [False, True, False, False, False]
                ),
            ],
        ),
        Scenario("index files", INDEXED, [steps.write(INDEXED, steps.rows(INDEXED, 0, 4, "a"))]),
        Scenario(
            "deletion vectors",
            MARKED,
            [
                steps.write(MARKED, steps.rows(MARKED, 0, 3, "a")),
                steps.write(MARKED, steps.rows(MARKED, 3, 3, "b")),
                steps.delete_marked(1),
                steps.delete_marked(4),
                steps.compact(full=False),
                steps.delete_marked(2),
                steps.update(5, "u"),
            ],
        ),
        Scenario(
            "rows rewritten",
            APPEND,
            [
                steps.write(APPEND, steps.rows(APPEND, 0, 3, "a")),
                steps.write(APPEND, steps.rows(APPEND, 3, 1, "b")),
                steps.update(1, "u"),
                steps.delete_marked(2),
                steps.delete_marked(3),
            ],
        ),
        Scenario(
            "changelog of the input",
            INPUT_LOG,
            [
                steps.write(INPUT_LOG, steps.rows(INPUT_LOG, 0, 4, "a")),
                steps.write(INPUT_LOG, steps.rows(INPUT_LOG, 2, 3, "b"), [False, True, False]),
            ],
        ),
        Scenario(
            "changelog of lookups",
            LOOKUP_LOG,
            [
                steps.write(LOOKUP_LOG, steps.rows(LOOKUP_LOG, 0, 60, "a")),
                steps.write(
                    LOOKUP_LOG, steps.rows(LOOKUP_LOG, 58, 4, "b"), [False, True, False, False]
                ),
            ],
        ),
        Scenario(
            "deletion vectors of lookups",
            MARKED_KEYS,
            [
                steps.write(MARKED_KEYS, steps.rows(MARKED_KEYS, 0, 60, "a")),
                steps.write(
                    MARKED_KEYS, steps.rows(MARKED_KEYS, 58, 4, "b"), [False, True, False, False]
                ),
                steps.delete(7),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "compaction as a job",
            JOB,
            [
                steps.write(JOB, steps.rows(JOB, 0, 6, "a")),
                steps.write(JOB, steps.rows(JOB, 3, 6, "b"), [i % 3 == 0 for i in range(6)]),
                steps.compact(full=True),
            ],
            settle=lambda table: table.compact(),
        ),
        Scenario(
            "changelog of full compactions",
            FULL_LOG,
            [
                steps.write(FULL_LOG, steps.rows(FULL_LOG, 0, 4, "a")),
                steps.write(FULL_LOG, steps.rows(FULL_LOG, 2, 3, "b"), [False, True, False]),
            ],
        ),
        Scenario(
            "rollback",
            APPEND,
            [
                steps.write(APPEND, steps.rows(APPEND, 0, 1, "a")),
                steps.write(APPEND, steps.rows(APPEND, 1, 1, "b")),
                steps.tag("t"),
                steps.roll_back(APPEND, steps.rows(APPEND, 0, 1, "a")),
            ],
        ),
        Scenario(
            "delete, update and tag",
            PK,
            [steps.write(PK, first), steps.tag("t"), steps.delete(2), steps.update(3, "u")],
        ),
        Scenario(
            "alter",
            PK,
            [
                steps.write(PK, first),
                steps.renew("n", "INT", "v"),
                steps.compact(full=True),
            ],
        ),
        Scenario(
            "clustering",
            CLUSTERED,
            [
                steps.write(CLUSTERED, steps.rows(CLUSTERED, 0, 4, "a")),
                steps.write(CLUSTERED, steps.rows(CLUSTERED, 4, 3, "b")),
                steps.delete_marked(1),
                steps.compact(full=False),
                steps.write(CLUSTERED, steps.rows(CLUSTERED, 7, 2, "c")),
                steps.compact(full=True),
            ],
        ),
        *_made_by_engines(),
        *_of_expiry(),
        *of_two_processes(),
    ]
