"""Runs that must stay apart and hold too much lie aside in small batches; rows stay the same."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.merge.runs.test_bounded import files_in
from unit.merge.runs.test_changelog import (
    ENGINES,
    SCHEMA,
    batches_of,
    compactions,
    listed,
    model,
    spec_of,
)

from tidelake.errors import CorruptError, StorageError
from tidelake.merge import (
    ChangeRule,
    RunSource,
    SpillFiles,
    merge_bounded,
    merge_bounded_with_changes,
    merge_runs,
)
from tidelake.merge.runs.bounded import UNPACKED_BATCH_BYTES_MIN
from tidelake.telemetry import Memory

MEMORY = Memory.of(64 << 20)
PARTIAL = spec_of(merge_engine="partial-update")
TEXTS = spec_of(**{"merge-engine": "aggregation", "fields.w.aggregate-function": "listagg"})
HELD = 1 << 20


class Opened:
    """Runs whose files hold a megabyte each, and how many of them are open at the same time."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def source(self, batches: list[pa.RecordBatch], level: int, held_bytes: int = HELD):
        def read(_: int) -> Iterator[pa.RecordBatch]:
            self.now += 1
            self.peak = max(self.peak, self.now)
            yield from batches
            self.now -= 1

        return RunSource(read, sum(b.nbytes for b in batches), held_bytes, level)


@pytest.mark.parametrize("engine", sorted(ENGINES))
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_rows_and_changes_are_those_of_one_merge(tmp_path_factory, engine, data):
    runs, rule = data.draw(compactions(engine))
    drop, at_once = data.draw(st.booleans()), data.draw(st.integers(1, 4))
    batch_rows = data.draw(st.integers(1, 13))
    place, opened = tmp_path_factory.mktemp("spill"), Opened()
    parts = list(
        merge_bounded_with_changes(
            [opened.source(batches_of(run, batch_rows), level) for level, run in runs],
            ENGINES[engine],
            rule,
            memory=replace(MEMORY, merge_pages_bytes=at_once * HELD),
            spill_files=lambda: files_in(place),
            drop_deletes=drop,
        )
    )
    rows, changes = model(engine, runs, rule, drop=drop)
    assert [r for part in parts for r in listed(part.rows)] == rows
    assert [r for part in parts for r in listed(part.changes)] == changes
    assert opened.peak <= max(2, at_once)
    assert list(place.iterdir()) == []


def texts(count: int, times: int = 9) -> list[dict]:
    """Each of 200 keys in two runs of three, with a text that names the run."""
    return [
        {k: (run, "+I", (None, f"{run:02}-{k:03}" * times)) for k in range(200) if (run + k) % 3}
        for run in range(count)
    ]


@pytest.mark.parametrize("at_once", [1, 3, 12])
def test_any_number_of_runs_is_merged_with_the_pages_of_a_few(tmp_path: Path, at_once):
    runs, opened = texts(40), Opened()
    got = merge_bounded(
        [opened.source(batches_of(run, 50), 0) for run in runs],
        TEXTS,
        memory=replace(MEMORY, merge_pages_bytes=at_once * HELD),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    wanted = merge_runs([iter(batches_of(run, 50)) for run in runs], TEXTS, drop_deletes=True)
    expected = {
        k: ",".join(f"{run:02}-{k:03}" * 9 for run in range(40) if (run + k) % 3)
        for k in range(200)
    }
    rows = [row for batch in got for row in listed(batch)]
    assert {row[0]: row[3][1] for row in rows} == expected
    assert rows == [row for batch in wanted for row in listed(batch)]
    assert opened.peak <= at_once
    assert list(tmp_path.iterdir()) == []


def test_what_unpacked_runs_hold_together_fits(tmp_path: Path, monkeypatch):
    runs, pages = texts(30, 90), 2 << 20
    largest = max(batch.nbytes for run in runs for batch in batches_of(run, 200))
    assert len(runs) * 2 * largest > pages  # as they are their batches would not fit
    held = written_runs(monkeypatch)
    rows = merge_bounded(
        [Opened().source(batches_of(run, 200), 0, 10 << 20) for run in runs],
        PARTIAL,
        memory=replace(MEMORY, merge_pages_bytes=pages),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    assert sum(batch.num_rows for batch in rows) == 200
    assert len(held) == len(runs)
    assert sum(run.held_bytes for run in held) <= pages


def test_what_unpacked_runs_hold_is_seen_row_by_row(tmp_path: Path, monkeypatch):
    """One text of a megabyte among short ones is a batch alone; the mean row says nothing of it."""
    runs = texts(8)
    for number, run in enumerate(runs):
        at, kind, _ = run[min(run)]
        run[min(run)] = (at, kind, (None, "x" * (1 << 20) if number == 3 else "y" * (200 << 10)))
    batches = [batches_of(run, 200) for run in runs]
    held = written_runs(monkeypatch)
    rows = merge_bounded(
        [Opened().source(own, 0, 10 << 20) for own in batches],
        TEXTS,
        memory=replace(MEMORY, merge_pages_bytes=8 << 20),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    assert sum(batch.num_rows for batch in rows) == 200
    assert sum(run.held_bytes for run in held) <= 8 << 20


def test_new_runs_beside_old_ones_that_do_not_fit_are_merged_once(tmp_path: Path, monkeypatch):
    """While they are merged beforehand no old run is open, so all of them fit."""
    old = [dict.fromkeys(range(50), (run, "+I", (1, "old"))) for run in range(2)]
    new = [
        dict.fromkeys(range(run, run + 50), (2 + run, "+I", (1, f"new {run}"))) for run in range(32)
    ]
    written = written_runs(monkeypatch)
    sources = [Opened().source(batches_of(run, 50), 5, 40 << 20) for run in old]
    sources += [Opened().source(batches_of(run, 50), 0) for run in new]
    parts = list(
        merge_bounded_with_changes(
            sources,
            ENGINES["deduplicate"],
            ChangeRule(old_level=5, looked_up_level=6),
            memory=replace(MEMORY, merge_pages_bytes=64 << 20),
            spill_files=lambda: files_in(tmp_path),
            drop_deletes=True,
        )
    )
    kept = {k: f"new {min(k, 31)}" for k in range(81)}
    assert {r[0]: r[3][1] for part in parts for r in listed(part.rows)} == kept
    # the new runs in one, of each key its newest row; and one old run
    assert [run.rows_count for run in written] == [81, 50]


def written_runs(monkeypatch) -> list:
    """The runs that are put aside from now on, with the number of their rows."""
    written, write = [], SpillFiles.write

    @dataclass(frozen=True)
    class Written:
        held_bytes: int
        rows_count: int

    def noted(self, batches, **how):
        run = write(self, batches, **how)
        written.append(Written(run.held_bytes, sum(b.num_rows for b in run.batches())))
        return run

    monkeypatch.setattr(SpillFiles, "write", noted)
    return written


def test_too_many_open_files_are_no_full_disk(tmp_path: Path, monkeypatch):
    run = files_in(tmp_path).write(batches_of(texts(1)[0], 50))

    def refused(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pa, "OSFile", refused)
    says = r"Too many open files\. Let the process open more files \(ulimit -n\), or compact more"
    with pytest.raises(StorageError, match=says):
        next(run.batches())
    with pytest.raises(StorageError, match=says):
        files_in(tmp_path).write([])


def test_only_as_many_are_unpacked_as_it_takes_those_that_hold_most_first(tmp_path: Path):
    reads: list[int] = []
    held = [3 << 20, 1 << 20, 8 << 20, 1 << 20]

    def source(number: int) -> RunSource:
        def read(_: int) -> Iterator[pa.RecordBatch]:
            reads.append(number)
            yield from batches_of(texts(4)[number], 50)

        return RunSource(read, 1000, held[number])

    batches = merge_bounded(
        [source(n) for n in range(4)],
        PARTIAL,
        memory=replace(MEMORY, merge_pages_bytes=7 << 20),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    assert sum(batch.num_rows for batch in batches) == 200
    assert reads == [2, 0, 1, 3]  # the one of 8 MiB beforehand, the others as they are


def test_runs_that_hold_no_more_than_small_batches_stay_as_they_are(tmp_path: Path):
    batches = merge_bounded(
        [Opened().source(batches_of(run, 50), 0, 2 * UNPACKED_BATCH_BYTES_MIN) for run in texts(9)],
        PARTIAL,
        memory=replace(MEMORY, merge_pages_bytes=1),
        spill_files=lambda: pytest.fail("nothing is to be put aside"),
        drop_deletes=True,
    )
    assert sum(batch.num_rows for batch in batches) == 200


@pytest.mark.parametrize("ending", ["stops", "fails"])
def test_no_file_is_left(tmp_path: Path, ending):
    runs = texts(9)

    def damaged(_: int) -> Iterator[pa.RecordBatch]:
        yield from itertools.islice(batches_of(runs[-1], 50), 2)
        raise CorruptError("a page is damaged")

    sources = [Opened().source(batches_of(run, 50), 0) for run in runs]
    if ending == "fails":
        sources[-1] = RunSource(damaged, 1000, 2 * HELD)  # the first to be unpacked
    batches = merge_bounded(
        sources,
        PARTIAL,
        memory=replace(MEMORY, merge_pages_bytes=2 * HELD),
        spill_files=lambda: files_in(tmp_path),
        drop_deletes=True,
    )
    if ending == "fails":
        with pytest.raises(CorruptError):
            next(batches)
    else:
        assert next(batches).schema == SCHEMA
        assert list(tmp_path.iterdir())
        batches.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
