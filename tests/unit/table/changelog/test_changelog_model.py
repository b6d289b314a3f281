"""Every producer writes what the plain-Python model says, and replaying it gives the state."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proving.changelog import ChangelogModel, ReplayError, replay
from sizes import examples

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

COLUMNS = ("k", "a", "b")
ENGINES = {
    "deduplicate": ({}, ("+I", "+U", "-U", "-D")),
    "partial-update": ({"partial-update.remove-record-on-delete": "true"}, ("+I", "+U", "-D")),
    "aggregation": (
        {"fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"},
        ("+I", "+U"),
    ),
}
PRODUCERS = ("input", "full-compaction", "lookup")
DEDUPLICATION = (
    {},
    {"changelog-producer.row-deduplicate": "true"},
    {
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "b",
    },
)
VALUES = st.none() | st.integers(0, 2)


@st.composite
def programs(draw):
    """Options and steps: rows to write, or whether a compaction is full."""
    engine = draw(st.sampled_from(list(ENGINES)))
    own, kinds = ENGINES[engine]
    options = {"merge-engine": engine, "bucket": "1", **own}
    producer = options["changelog-producer"] = draw(st.sampled_from(PRODUCERS))
    if producer != "input":  # which compares nothing
        options |= draw(st.sampled_from(DEDUPLICATION))
    rows = st.lists(
        st.tuples(st.sampled_from(kinds), st.integers(0, 4), VALUES, VALUES), min_size=1, max_size=6
    )
    return options, draw(st.lists(rows | st.booleans(), min_size=1, max_size=9))


def open_table(options):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    return catalog.create_table(
        "db.t",
        {"k": "INT", "a": "INT", "b": "INT"},
        primary_keys=["k"],
        options=options,
    )


def write(table, rows):
    table.write(
        [dict(zip(COLUMNS, row, strict=True)) for _, *row in rows],
        row_kinds=[kind for kind, *_ in rows],
    )


def rows_of(read):
    return [tuple(row.values()) for row in read.to_pylist()]


def logged(table, start, end=None):
    return rows_of(table.changes(start, end, mode="changelog"))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_a_producer_writes_what_the_model_says(program):
    options, steps = program
    producer = options["changelog-producer"]
    table = open_table({**options, "num-sorted-run.compaction-trigger": "50"})
    model = ChangelogModel(COLUMNS, options)
    for step in steps:
        start = table.latest_snapshot_id or 0
        expected = []
        if isinstance(step, bool):
            table.compact(full=step)
            if step:
                changes = model.compact_fully()
                expected = changes if producer == "full-compaction" else []
        else:
            write(table, step)
            given_rows, changes = model.write(step)
            expected = {"input": given_rows, "lookup": changes}.get(producer, [])
        if table.latest_snapshot_id is not None:
            assert logged(table, start) == expected
            assert {row[0]: row for row in rows_of(table.to_arrow())} == model.state()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.sampled_from(["1", "2", "3"]), st.sampled_from(["2", "3"]))
def test_a_changelog_of_full_compactions_replays_to_the_last_level(program, commits, trigger):
    options, steps = program
    ignored = options.pop("changelog-producer.row-deduplicate-ignore-fields", None)
    assert ignored in (None, "b")
    table = open_table(
        {
            **options,
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": commits,
            "num-sorted-run.compaction-trigger": trigger,
        }
    )
    for step in steps:
        if isinstance(step, bool):
            table.compact(full=step)
        else:
            write(table, step)
    view = table.system_table("ro")
    state: dict = {}
    for snapshot_id in range(1, (table.latest_snapshot_id or 0) + 1):
        state = replay(state, logged(table, snapshot_id - 1, snapshot_id))
        assert state == {row[0]: row for row in rows_of(view.to_arrow(snapshot_id=snapshot_id))}
    if commits == "1" and not isinstance(steps[-1], bool):
        assert state == {row[0]: row for row in rows_of(table.to_arrow())}


@pytest.mark.parametrize(
    "changes",
    [
        [("+I", 1, 5), ("+I", 1, 6)],
        [("+I", 1, 5), ("-D", 1, 6)],
        [("+I", 1, 5), ("+U", 1, 6)],
        [("+I", 1, 5), ("-U", 1, 5)],
        [("+I", 1, 5), ("-U", 1, 5), ("+I", 2, 5)],
        [("+U", 1, 5)],
    ],
)
def test_a_changelog_that_cannot_be_is_noticed(changes):
    with pytest.raises(ReplayError):
        replay({}, changes)


def test_a_changelog_replays():
    changes = [("+I", 1, 5), ("+I", 2, 5), ("-U", 1, 5), ("+U", 1, 6), ("-D", 2, 5)]
    assert replay({}, changes) == {1: (1, 6)}
