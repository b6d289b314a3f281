"""Drawn tables, whose changes are read through filters on Spark, by two doors."""

from __future__ import annotations

import pytest
from proving.filtered_changes import DRAWS, FilteredChanges
from sizes import SIZE

from tidelake.spark.read import changes_frame


@pytest.mark.parametrize("seed", range(SIZE.spark_filtered_changes))
def test_drawn_changes_through_a_filter_give_what_was_written(lake, spark, monkeypatch, seed):
    """In each mode, by ``tl.changes`` and by format in turns."""
    if DRAWS[seed]["is shuffled"] == "yes":
        monkeypatch.setattr(changes_frame, "ONE_TASK_BYTES", 1)
    case = FilteredChanges(seed, lake.catalog, "db.t", DRAWS[seed])

    def by_name(start, end, mode, where, columns):
        return lake.changes("db.t", start, end, columns=columns, where=where, mode=mode)

    def by_format(start, end, mode, where, columns):
        options = {
            "incremental-between": f"{start},{end}",
            "incremental-between-scan-mode": mode,
            "columns": ",".join(columns),
            "where": where,
        }
        return spark.read.format("tidelake").options(**options).load(case.table.paths.location)

    def read(*asked):
        door = case.rng.choice([by_name, by_format])
        for row in door(*asked).collect():
            kind, *values = row
            yield kind, dict(zip(row.__fields__[1:], values, strict=True))

    case.run(read)
