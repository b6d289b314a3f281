"""The changelog of lookups: what each key was and what it became, commit by commit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.one_key import merged
from sizes import SIZE

import tidelake
from tidelake import InvalidInputError

SCHEMA = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), ("v", pa.int32()), ("w", pa.int32())]
)
LOOKUP = {
    "changelog-producer": "lookup",
    "num-sorted-run.compaction-trigger": "3",
    "target-file-size": "1 kb",
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "w"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "last_value",
    },
    "first-row": {"merge-engine": "first-row"},
}
Row = tuple[str, dict[str, Any]]


def expected_state(engine: str, commits: list[list[Row]]) -> dict[int, dict[str, Any]]:
    """A key's row by the rules, of all rows ever written."""
    rows: dict[int, list[Row]] = {}
    for commit in commits:
        for kind, values in commit:
            rows.setdefault(values["k"], []).append((kind, values))
    state = {}
    for key, own in rows.items():
        if engine == "first-row":
            row: Row | None = own[0]
        elif engine in ("deduplicate", "sequence"):
            ranked = sorted(own, key=lambda r: -1 if r[1]["w"] is None else r[1]["w"])
            row = (ranked if engine == "sequence" else own)[-1]
        else:
            found = merged(own, {**ENGINES[engine]}, keys=("k",))
            row = None if found is None else found
        if row is not None and row[0] in ("+I", "+U"):
            state[key] = row[1]
    return state


def expected_changes(
    before: dict[int, dict], after: dict[int, dict], touched: set[int], *, deduplicated: bool
) -> list[tuple[str, dict]]:
    changes = []
    for key in sorted(touched):
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            changes.append(("+I", now))
        elif was is not None and now is None:
            changes.append(("-D", was))
        elif was is not None and now is not None and not (deduplicated and was == now):
            changes += [("-U", was), ("+U", now)]
    return changes


def table_at(place, engine: str, **more: str):
    options = {"bucket": "1", **LOOKUP, **ENGINES[engine], **more}
    catalog = tidelake.open(place)
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)


def write(table, commit: list[Row]):
    rows = pa.Table.from_pylist([values for _, values in commit], SCHEMA)
    return table.write(rows, row_kinds=[kind for kind, _ in commit])


def logged(table, start: int, end: int) -> list[tuple[str, dict]]:
    found = table.changes(start, end, mode="changelog").to_pylist()
    return [(row.pop("_row_kind"), row) for row in found]


def content(table, **scan) -> dict[int, dict[str, Any]]:
    return {row["k"]: row for row in table.to_arrow(**scan).to_pylist()}


@st.composite
def histories(draw: Any, engine: str) -> list[list[Row]]:
    commits: list[list[Row]] = []
    for _ in range(draw(st.integers(1, 7))):
        state = expected_state(engine, commits)
        commit: list[Row] = []
        for key in draw(st.sets(st.integers(0, 12), min_size=1, max_size=6)):
            values = {
                "k": key,
                "v": draw(st.none() | st.integers(0, 3)),
                "w": draw(st.none() | st.integers(0, 3)),
            }
            kind = "+I"
            # under a sequence field a delete that is gone from the last level hides no late row
            if engine == "deduplicate" and draw(st.integers(0, 3)) == 0:
                kind = "-D"
            elif engine == "aggregation" and key in state and draw(st.integers(0, 3)) == 0:
                kind = "-U"
            commit.append((kind, values))
        commits.append(commit)
    return commits


@pytest.mark.parametrize("engine", sorted(ENGINES))
@settings(max_examples=SIZE.histories, deadline=None)
@given(st.data())
def test_each_commit_tells_what_its_keys_were_and_became(tmp_path_factory, engine, data):
    commits = data.draw(histories(engine))
    deduplicated = data.draw(st.booleans())
    table = table_at(
        tmp_path_factory.mktemp("w"),
        engine,
        **{"changelog-producer.row-deduplicate": str(deduplicated).lower()},
    )
    before: dict[int, dict] = {}
    last = 0
    for number, commit in enumerate(commits, start=1):
        ids = write(table, commit).snapshot_ids
        after = expected_state(engine, commits[:number])
        assert content(table) == after
        touched = {values["k"] for _, values in commit}
        if engine == "first-row":
            touched -= before.keys()
        changes = expected_changes(before, after, touched, deduplicated=deduplicated)
        assert logged(table, last, ids[-1]) == changes
        if data.draw(st.integers(0, 4)) == 0:
            table.compact(full=True)  # has no changes of its own
            assert content(table) == after
        before, last = after, table.history().to_pylist()[-1]["snapshot_id"]
    assert logged(table, last, last) == []


def test_two_snapshots_per_commit_and_the_changes_are_in_the_second(tmp_path):
    table = table_at(tmp_path, "deduplicate")
    write(table, [("+I", {"k": 1, "v": 1, "w": 1})])
    snapshots = table.history().to_pylist()
    assert [s["commit_kind"] for s in snapshots] == ["APPEND", "COMPACT"]
    assert [s["changelog_record_count"] for s in snapshots] == [0, 1]


def test_what_waits_in_level_0_is_told_by_the_compaction_that_takes_it_up(tmp_path):
    table = table_at(tmp_path, "aggregation")
    write(table, [("+I", {"k": 1, "v": 1, "w": 1})])
    later = table.with_options({"write-only": "true"})
    for v in (10, 100):
        write(later, [("+I", {"k": 1, "v": v, "w": v})])
    start = table.history().num_rows
    assert content(table) == {1: {"k": 1, "v": 111, "w": 100}}  # merged by the reader
    assert logged(table, 2, start) == []
    table.compact()
    assert logged(table, start, start + 1) == [
        ("-U", {"k": 1, "v": 1, "w": 1}),
        ("+U", {"k": 1, "v": 111, "w": 100}),
    ]


def test_rows_of_several_levels_count_once_however_runs_lie(tmp_path):
    """Files of level 0 beside files of higher levels in one run, and none is taken for another."""
    table = table_at(tmp_path, "aggregation", **{"num-sorted-run.compaction-trigger": "100"})
    add = [("+I", {"k": k, "v": 1, "w": 0}) for k in range(2_000)]
    write(table, add)
    write(table, [("+I", {"k": k, "v": 10, "w": 0}) for k in range(3)])
    later = table.with_options({"write-only": "true"})
    write(later, [("+I", {"k": k, "v": 100, "w": 0}) for k in (5, 6)])
    write(later, [("+I", {"k": k, "v": 1_000, "w": 0}) for k in (2, 5)])
    levels = sorted(table.system_table("files").to_arrow()["level"].to_pylist())
    assert levels[:2] == [0, 0]
    assert len(set(levels)) == 3
    state = {k: v["v"] for k, v in content(table).items() if k < 8}
    assert state == {0: 11, 1: 11, 2: 1_011, 3: 1, 4: 1, 5: 1_101, 6: 101, 7: 1}
    table.compact()
    assert {k: v["v"] for k, v in content(table).items() if k < 8} == state


@pytest.mark.parametrize(("stop", "levels"), [("4", [6, 7, 8]), ("5", [4, 5, 6, 7, 8])])
def test_a_writer_that_waits_for_a_second_compaction_tells_changes_once(tmp_path, stop, levels):
    """The first compaction takes two runs of six; under a stop trigger of 4 that is too few."""
    never = {"num-levels": "9", "num-sorted-run.compaction-trigger": "99"}
    table = table_at(tmp_path, "aggregation", **never, **{"target-file-size": "1 mb"})
    for count in (6_000, 5_000, 1_500, 1_000, 1):
        write(table, [("+I", {"k": k, "v": k % 7, "w": k}) for k in range(count)])
    before, start = content(table), table.latest_snapshot_id
    assert levels_of(table) == [4, 5, 6, 7, 8]
    busy = {"num-sorted-run.compaction-trigger": "3", "num-sorted-run.stop-trigger": stop}
    commit = [("+I", {"k": k, "v": 1, "w": 0}) for k in (0, 7, 100, 9_000)]
    ids = write(table.with_options(busy), commit).snapshot_ids
    assert levels_of(table) == levels
    after = {k: {"k": k, "v": before.get(k, {"v": 0})["v"] + 1, "w": 0} for k in (0, 7, 100)}
    after[9_000] = commit[-1][1]
    assert content(table) == before | after
    assert logged(table, start, ids[-1]) == expected_changes(
        before, before | after, after.keys(), deduplicated=False
    )


def levels_of(table) -> list[int]:
    return sorted(set(table.system_table("files").to_arrow()["level"].to_pylist()))


def test_columns_to_ignore_must_be_there(tmp_path):
    with pytest.raises(InvalidInputError, match=r"'x'.*row-deduplicate-ignore-fields"):
        table_at(
            tmp_path,
            "deduplicate",
            **{"changelog-producer.row-deduplicate-ignore-fields": "v,x"},
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_compaction_does_not_tell_what_an_overwrite_wrote(tmp_path, engine):
    table = table_at(tmp_path, engine)
    write(table, [("+I", {"k": k, "v": 1, "w": 1}) for k in (1, 2)])
    rows = [{"k": k, "v": 2, "w": 2} for k in (2, 3)]
    (overwrite, *_) = table.write(rows, mode="overwrite").snapshot_ids
    assert content(table) == {row["k"]: row for row in rows}
    before = content(table)
    write(table, [("+I", {"k": 4, "v": 4, "w": 4})])
    table.compact(full=True)
    told = logged(table, overwrite, table.latest_snapshot_id)
    assert told == [("+I", {"k": 4, "v": 4, "w": 4})]
    assert content(table) == {**before, 4: {"k": 4, "v": 4, "w": 4}}
