from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.merge.engines.oracle import Row, deduplicate, from_batches, schema_of, spec_of, to_run
from unit.merge.runs.test_sorted_runs import bucket_runs

from tidelake.errors import StorageError
from tidelake.merge import RunSource, SpillFiles, merge_bounded, merge_runs
from tidelake.merge.runs import spill as spill_module
from tidelake.options import Options
from tidelake.telemetry import Memory

MEMORY = Memory.of(64 << 20)


def files_in(place: Path, memory: Memory = MEMORY) -> SpillFiles:
    return SpillFiles(str(place / "own"), name="m", options=Options.parse({}), memory=memory)


class Opened:
    """Counts the runs that are open at the same time."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.shares: list[int] = []

    def source(
        self, run: list[Row], schema: pa.Schema, *, held_bytes: int, size_bytes: int | None = None
    ) -> RunSource:
        def batches(batch_bytes: int):
            self.shares.append(batch_bytes)
            self.now += 1
            self.peak = max(self.peak, self.now)
            yield from to_run(run, schema, batch_rows=7)
            self.now -= 1

        return RunSource(batches, len(run) if size_bytes is None else size_bytes, held_bytes)


@settings(max_examples=examples(100), deadline=None)
@given(bucket_runs(), st.integers(1, 8), st.booleans(), st.booleans(), st.booleans())
def test_a_merge_in_steps_equals_one_merge(
    tmp_path_factory, bucket, at_once, descending, ignore, drop
):
    # of a key that nothing but retracts, two steps may leave a retraction that one does not
    assume(drop or not ignore)
    keys, sequence, runs = bucket
    schema = schema_of(keys, sequence)
    spec = spec_of(keys, sequence, sequence_descending=descending, ignore_delete=ignore)
    place = tmp_path_factory.mktemp("spill")
    opened = Opened()
    memory = replace(MEMORY, merge_pages_bytes=10 * at_once)
    batches = merge_bounded(
        [opened.source(run, schema, held_bytes=10) for run in runs],
        spec,
        memory=memory,
        spill_files=lambda: files_in(place),
        drop_deletes=drop,
    )
    got = from_batches(list(batches))
    assert got == deduplicate(
        [row for run in runs for row in run],
        descending=descending,
        ignore_delete=ignore,
        drop_deletes=drop,
    )
    assert opened.peak <= max(2, at_once)
    assert list(place.iterdir()) == []


def many_runs(count: int) -> list[list[Row]]:
    drawn = random.Random(3)
    keys = [sorted(drawn.sample(range(300), 120)) for _ in range(count)]
    return [
        [Row((k,), (), 1000 * r + k, 3 * (k % 5 == r % 5), f"{r}:{k}") for k in run]
        for r, run in enumerate(keys)
    ]


@pytest.mark.parametrize("at_once", [2, 3, 5, 39])
def test_no_more_runs_are_open_than_their_pages_leave_room_for(tmp_path: Path, at_once):
    runs, schema = many_runs(40), schema_of(["BIGINT"])
    opened = Opened()
    batches = merge_bounded(
        [opened.source(run, schema, held_bytes=1 << 20) for run in runs],
        spec_of(["BIGINT"]),
        memory=replace(MEMORY, merge_pages_bytes=at_once << 20),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    got = from_batches(list(batches))
    assert got == deduplicate([row for run in runs for row in run], drop_deletes=True)
    assert opened.peak <= at_once
    assert max(opened.shares) <= MEMORY.merge_rows_bytes // 2


def test_without_a_limit_all_runs_are_merged_at_once(tmp_path: Path):
    runs, schema = many_runs(40), schema_of(["BIGINT"])
    opened = Opened()
    sources = [opened.source(run, schema, held_bytes=1 << 40) for run in runs]

    def none() -> SpillFiles:
        raise AssertionError("nothing is to be put aside")

    batches = merge_bounded(
        sources, spec_of(["BIGINT"]), memory=Memory(), spill_files=none, drop_deletes=True
    )
    assert list(batches)
    assert opened.peak == 40


def test_the_smallest_neighbours_are_merged_beforehand(tmp_path: Path, monkeypatch):
    runs, schema = many_runs(4), schema_of(["BIGINT"])
    sizes = [1000, 10, 10, 1000]
    opened: list[str] = []

    def source(number: int) -> RunSource:
        def batches(_: int):
            opened.append(f"run {number}")
            yield from to_run(runs[number], schema, batch_rows=50)

        return RunSource(batches, sizes[number], 1 << 20)

    write = SpillFiles.write

    def noted(self, batches):
        run = write(self, batches)
        opened.append("joined")
        return run

    monkeypatch.setattr(SpillFiles, "write", noted)
    list(
        merge_bounded(
            [source(n) for n in range(4)],
            spec_of(["BIGINT"]),
            memory=replace(MEMORY, merge_pages_bytes=7 << 19),
            spill_files=lambda: files_in(tmp_path),
            drop_deletes=True,
        )
    )
    assert opened == ["run 1", "run 2", "joined", "run 0", "run 3"]


def test_a_reader_that_stops_leaves_no_files(tmp_path: Path):
    runs, schema = many_runs(9), schema_of(["BIGINT"])
    batches = merge_bounded(
        [Opened().source(run, schema, held_bytes=10) for run in runs],
        spec_of(["BIGINT"]),
        memory=replace(MEMORY, merge_pages_bytes=20),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    assert next(batches).num_rows
    assert list(tmp_path.iterdir())
    batches.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_storage_error_that_leaves_no_files(tmp_path: Path):
    runs, schema = many_runs(5), schema_of(["BIGINT"])
    (tmp_path / "own").write_text("a file where the directory should be")
    batches = merge_bounded(
        [Opened().source(run, schema, held_bytes=10) for run in runs],
        spec_of(["BIGINT"]),
        memory=replace(MEMORY, merge_pages_bytes=20),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    with pytest.raises(StorageError, match="could not be spilled"):
        next(batches)


def wide_run(number: int, row_bytes: int) -> pa.RecordBatch:
    return pa.record_batch({"k": [number], "v": [f"{number:04}" * (row_bytes // 4)]})


def test_spilled_runs_of_wide_rows_are_joined_a_few_at_a_time(tmp_path: Path):
    memory = replace(MEMORY, merge_pages_bytes=1 << 20)
    held: list[int] = []

    def join(runs):
        held.append(len(runs))
        for run in runs:
            yield from run

    stack = spill_module.SpillStack(
        str(tmp_path), name="s", options=Options.parse({}), join=join, memory=memory
    )
    for number in range(40):
        stack.push([wide_run(number, 64 << 10)])
    # a row is held twice, and three tiers of such joins share a MiB
    assert set(held) == {2}
    assert len(stack) <= 8
    assert [b["k"][0].as_py() for run in stack.runs() for b in run] == list(range(40))
    narrow = spill_module.SpillStack(
        str(tmp_path), name="n", options=Options.parse({}), join=join, memory=memory
    )
    held.clear()
    for number in range(40):
        narrow.push([wide_run(number, 16)])
    assert held == [spill_module.FAN_IN]


def test_spilled_batches_are_a_part_of_what_a_merge_may_hold(tmp_path: Path):
    batch = pa.record_batch({"k": list(range(100_000))})
    run = files_in(tmp_path).write([batch])
    assert run.batch_bytes_max <= MEMORY.merge_rows_bytes // 8
    assert pa.Table.from_batches(run.batches()).equals(pa.Table.from_batches([batch]))


def test_rows_that_all_runs_hold_together_are_bounded():
    schema = schema_of(["BIGINT"])
    runs = [[Row((k,), (), k, 0, "x" * 100) for k in range(2_000)] for _ in range(8)]
    its = [iter(to_run(run, schema, batch_rows=2_000)) for run in runs]
    memory = replace(MEMORY, merge_rows_bytes=64 << 10)
    batches = list(merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True, memory=memory))
    assert max(b.nbytes for b in batches) <= 64 << 10
    assert sum(b.num_rows for b in batches) == 2_000
