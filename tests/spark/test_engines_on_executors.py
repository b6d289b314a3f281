"""Engines by changelog producers by kinds of bucket, all on executors, against a plain dict.

Of the 56 cells that there are, 18 run, and one more with deletion vectors: every engine meets every
producer that it takes and every kind of bucket, and every producer every kind of bucket. The other
38 are the same parts in other threes; with them it takes five minutes of a core, at full size. Then
rows that come late, by two sequence fields in either order.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain, pairwise, starmap

import pytest
from proving.fsck import check_table
from sizes import FULL, SIZE

SCHEMA = "p string, k int, a bigint, s string"
ENGINES = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "fields.a.aggregate-function": "sum",
        "fields.s.aggregate-function": "max",
        "fields.s.ignore-retract": "true",
    },
    "first-row": {"ignore-delete": "true"},
}
BUCKETS = {"fixed": {"bucket": "2"}, "dynamic": {}, "moving": {}, "postpone": {"bucket": "-2"}}
MARKS = {"deletion-vectors.enabled": "true"}
DEDUPLICATED = {"changelog-producer.row-deduplicate": "true"}
PRODUCERS = dict.fromkeys(ENGINES, ("none", "input", "lookup", "full-compaction"))
PRODUCERS["first-row"] = ("none", "lookup")  # it takes no other
CELLS = [
    ("deduplicate", "none", "fixed", {}),
    ("deduplicate", "input", "dynamic", {}),
    ("deduplicate", "lookup", "moving", {}),
    ("deduplicate", "full-compaction", "postpone", {}),
    ("partial-update", "none", "moving", {}),
    ("partial-update", "input", "postpone", {}),
    ("partial-update", "lookup", "postpone", {}),
    ("partial-update", "full-compaction", "fixed", {}),
    ("partial-update", "full-compaction", "dynamic", {}),
    ("aggregation", "none", "dynamic", {}),
    ("aggregation", "input", "fixed", {}),
    ("aggregation", "input", "moving", {}),
    ("aggregation", "lookup", "postpone", {}),
    ("aggregation", "full-compaction", "moving", {}),
    ("first-row", "none", "moving", {}),
    ("first-row", "none", "postpone", {}),
    ("first-row", "lookup", "fixed", {}),
    ("first-row", "lookup", "dynamic", {}),
    ("aggregation", "lookup", "fixed", MARKS),
]
VALID = [(e, p, b, {}) for e in ENGINES for p in PRODUCERS[e] for b in BUCKETS]
RUN = [*VALID, CELLS[-1]] if SIZE is FULL else CELLS
BATCHES = [
    [("+I", k, k * 10, "m") for k in range(12)],
    [
        *(("+U", k, 1 + k, None) for k in (1, 2, 3)),
        ("+U", 4, None, "z"),
        ("-D", 5, 7, "m"),
        ("-D", 6, 60, "m"),
        ("+I", 20, None, "new"),
        ("+I", 21, 21, None),
    ],
    [
        ("+U", 1, 5, "a"),
        ("+U", 4, 4, None),
        ("+I", 5, 55, None),
        ("-D", 2, 3, "m"),
        ("+U", 21, None, "q"),
        ("+I", 22, 22, "new"),
    ],
]
"""Kind, key and values: one row of a key in each."""


def rows_of(number, buckets):
    """A batch with a partition for each row: that of its key, or another one with every batch."""
    moves = number if buckets == "moving" else 0
    return [(kind, "ab"[(k + moves) % 2], k, a, s) for kind, k, a, s in BATCHES[number]]


def combined(engine, old, kind, new):
    """What a key is after one more row of it; None where it has no row."""
    gone = kind == "-D"
    if engine == "deduplicate":
        return None if gone else new
    if engine == "first-row":
        return old or (None if gone else new)
    if engine == "partial-update" and gone:
        return None
    if old is None:
        return new
    p, k, a, s = old
    if engine == "partial-update":
        return (p, k, a if new[2] is None else new[2], s if new[3] is None else new[3])
    if gone:
        return (p, k, a - new[2], s)
    sums = [value for value in (a, new[2]) if value is not None]
    texts = [value for value in (s, new[3]) if value is not None]
    return (p, k, sum(sums) if sums else None, max(texts, default=None))


def after(engine, state, rows):
    """The state after a batch, and the batch as it is stored: each row where its key is.

    Under `deduplicate` a key moves: its row is deleted where it was, and comes where it says.
    """
    state, stored = dict(state), []
    for kind, *values in rows:
        new = tuple(values)
        old = state.pop(new[1], None)
        placed = new if old is None else (old[0], *new[1:])
        if engine == "deduplicate" and kind != "-D" and placed != new:
            stored.append(("-D", *placed))
            placed = new
        stored.append((kind, *placed))
        row = combined(engine, old, kind, placed)
        if row is not None:
            state[new[1]] = row
    return state, stored


def differences(before, state):
    """How one state became the other: a key that moved went, and came."""
    for k in before.keys() | state.keys():
        old, new = before.get(k), state.get(k)
        if old == new:
            continue
        stays = old is not None and new is not None and old[0] == new[0]
        if old is not None:
            yield ("-U" if stays else "-D", *old)
        if new is not None:
            yield ("+U" if stays else "+I", *new)


def replayed(state, changes):
    """How often each row is there after some changes, in whatever order they are taken."""
    times = Counter(state.values())
    for (kind, *row), count in changes.items():
        times[tuple(row)] += count if kind in ("+I", "+U") else -count
    return Counter({row: count for row, count in times.items() if count})


def counted(frame):
    return Counter(tuple(row) for row in frame.collect())


def name_of(value):
    return value if isinstance(value, str) else "vectors" if value else ""


def test_every_pair_is_in_a_cell():
    cells = [cell[:3] for cell in CELLS if not cell[3]]
    assert len(set(cells)) == len(cells) == len(CELLS) - 1 == 18
    valid = [cell[:3] for cell in VALID]
    assert len(valid) == 56
    assert set(cells) < set(valid)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert {(c[one], c[other]) for c in cells} == {(v[one], v[other]) for v in valid}


@pytest.mark.share(2)
@pytest.mark.parametrize(("engine", "producer", "buckets", "marks"), RUN, ids=name_of)
def test_states_and_changes_on_executors_are_those_of_a_dict(
    spark, lake, engine, producer, buckets, marks
):
    lake.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["k"] if buckets == "moving" else ["p", "k"],
        partition_keys=["p"],
        options={
            "merge-engine": engine,
            "changelog-producer": producer,
            **(DEDUPLICATED if producer in ("lookup", "full-compaction") else {}),
            **ENGINES[engine],
            **BUCKETS[buckets],
            **marks,
        },
    )
    table = lake.catalog.table("db.t")
    waits, full = buckets == "postpone", producer == "full-compaction"
    state, states, told, written, ends = {}, [], [{}], [], []
    for number in range(3):
        rows = rows_of(number, buckets)
        frame = spark.createDataFrame(rows, f"_row_kind string, {SCHEMA}").coalesce(1)
        lake.write(frame, "db.t", tasks=2)
        state, stored = after(engine, state, rows)
        if compacts := waits or (full and number == 1):
            lake.compact("db.t", full=full)
        if producer == "lookup" or (full and compacts):
            told.append(state)
        states.append(state)
        written += stored
        ends.append(table.latest_snapshot_id)

    expected = Counter(state.values())
    assert counted(lake.table("db.t")) == expected
    assert ("rows deleted" in str(table.explain())) == bool(marks)
    lake.compact("db.t", full=True, tasks=2)
    assert set(table.system_table("files").to_arrow()["level"].to_pylist()) == {5}
    assert counted(lake.table("db.t")) == expected
    assert counted(lake.sql("SELECT * FROM db.t")) == expected

    net = counted(lake.changes("db.t", ends[0], mode="diff"))
    assert replayed(states[0], net) == expected
    if full or producer == "none":
        told.append(state)
    steps = chain.from_iterable(starmap(differences, pairwise(told)))
    wanted = Counter(written if producer == "input" else steps)
    asked = f"'incremental-between' = '0,{table.latest_snapshot_id}'"
    if producer == "none":
        asked += ", 'incremental-between-scan-mode' = 'diff'"
    audit = counted(lake.sql(f"SELECT * FROM db.t$audit_log /*+ OPTIONS({asked}) */"))
    assert audit == wanted
    if producer != "none":
        assert counted(lake.changes("db.t", 0, mode="changelog")) == wanted
    if producer != "input":
        assert replayed({}, audit) == expected
    check_table(table.fileio, table.paths.location)


SEQUENCED = "k int, x int, y int, a bigint, s string"
SORTED = {
    "bucket": "2",
    "sequence.field": "x,y",
    "num-sorted-run.compaction-trigger": "50",  # nothing is merged before the test says so
}


def late_rows(rng, number, *, deletes):
    """One row for each of some keys; of equal sequences, and of each other's, there are many."""
    for k in rng.sample(range(40), 28) if number else range(40):
        kind = "-D" if deletes and number and rng.random() < 0.2 else "+I"
        a, s = rng.choice([None, rng.randrange(100)]), rng.choice([None, f"{number}.{k}"])
        yield kind, k, rng.randrange(3), rng.choice([None, 0, 1, 2]), a, s


def in_order(rows, *, descending):
    """Rows of a key as their sequences say, nulls first; equal ones as they came."""

    def place(row):
        _, _, *sequence, _, _ = row
        sign = -1 if descending else 1
        return [(value is not None, sign * (value or 0)) for value in sequence]

    return sorted(rows, key=place)


def folded(engine, rows):
    """The row (kind, *values) that rows of a key come to, each older than the next."""
    state = None
    for new in rows:
        if new[0] == "-D" or state is None or state[0] == "-D" or engine == "deduplicate":
            state = new
            continue
        kind, k, *values = state
        pairs = zip(values, new[2:], strict=True)
        latest = [old if value is None else value for old, value in pairs]
        if engine == "aggregation":
            known = [value for value in (values[2], new[4]) if value is not None]
            latest = [*new[2:4], sum(known) if known else None, latest[3]]
        state = (kind, k, *latest)
    return state


LATE = [
    ("deduplicate", "none", True),
    ("deduplicate", "lookup", False),
    ("partial-update", "none", True),
    ("partial-update", "lookup", True),
    ("aggregation", "lookup", False),
]
LATE_MORE = [
    ("deduplicate", "lookup", True),
    ("partial-update", "lookup", False),
    ("aggregation", "none", True),
    ("aggregation", "lookup", True),
]


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("engine", "producer", "descending"), LATE + (LATE_MORE if SIZE is FULL else [])
)
def test_late_rows_come_where_their_two_sequences_say(spark, lake, engine, producer, descending):
    """What a compaction merged is one row from then on, with the newest sequence of its parts."""
    options = SORTED | {"merge-engine": engine, "changelog-producer": producer}
    if producer == "lookup":
        options |= DEDUPLICATED
    if descending:
        options["sequence.field.sort-order"] = "descending"
    if engine == "partial-update":
        options["partial-update.remove-record-on-delete"] = "true"
    if engine == "aggregation":
        options["fields.a.aggregate-function"] = "sum"
    lake.create_table("db.t", SEQUENCED, primary_keys=["k"], options=options)
    rng, runs, states = random.Random(f"{engine}{producer}{descending}"), {}, [{}]
    late = 0
    for number in range(5):
        full = number in (2, 4)
        # a delete hides older rows until a full compaction: lookups may have run one, or may not
        deletes = engine != "aggregation" and (full or producer == "none")
        rows = list(late_rows(rng, number, deletes=deletes))
        frame = spark.createDataFrame(rows, f"_row_kind string, {SEQUENCED}")
        lake.write(frame, "db.t", tasks=2)
        for row in rows:
            own = runs.setdefault(row[1], [])
            own.append(row)
            late += in_order(own, descending=descending)[-1] is not row
        merged = (folded(engine, in_order(o, descending=descending)) for o in runs.values())
        shown = {row[1]: row for row in merged if row[0] == "+I"}
        expected = Counter(row[1:] for row in shown.values())
        assert counted(lake.table("db.t")) == expected
        if full:
            lake.compact("db.t", full=True, tasks=2)
            assert counted(lake.sql("SELECT * FROM db.t")) == expected
        if full or producer == "lookup":
            runs = {k: [row] for k, row in shown.items()}
        states.append({k: (None, *row[1:]) for k, row in shown.items()})
    assert late > 40
    table = lake.catalog.table("db.t")
    assert Counter(tuple(row.values()) for row in table.to_arrow().to_pylist()) == expected
    if producer == "lookup":
        steps = chain.from_iterable(starmap(differences, pairwise(states)))
        wanted = Counter((kind, *row) for kind, _, *row in steps)
        assert counted(lake.changes("db.t", 0, mode="changelog")) == wanted
    check_table(table.fileio, table.paths.location)
