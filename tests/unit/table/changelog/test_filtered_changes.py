"""Drawn tables, whose changes are read through filters, without Spark."""

from __future__ import annotations

from collections import Counter

import pytest
from proving.filtered_changes import DRAWS, ChangesDiffer, FilteredChanges
from sizes import SIZE

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.table.changelog import change_filter


def run(seed):
    case = FilteredChanges(seed, tidelake.open("/w", fileio=MemoryFileIO()), "db.t", DRAWS[seed])

    def read(start, end, mode, where, columns):
        table = case.table.changes(start, end, columns=[*columns], where=where, mode=mode)
        for row in table.to_pylist():
            yield row.pop("_row_kind"), row

    return case.run(read)


def run_all():
    return sum((run(seed) for seed in range(SIZE.filtered_changes)), Counter())


def test_drawn_changes_through_a_filter_give_what_was_written():
    seen = run_all()
    assert min(seen[what] for what in ("diff", "changelog", "delta", "auto", "left")) > 10


def test_an_update_that_leaves_a_filter_and_is_no_delete_is_found(monkeypatch):
    monkeypatch.setattr(change_filter, "left_by_update", lambda kinds, _: kinds)
    with pytest.raises(ChangesDiffer, match="passing over"):
        run_all()
