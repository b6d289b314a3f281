"""ANALYZE counts rows and looks at columns; a snapshot keeps what it found."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest

from tidelake import ConflictError, InvalidInputError, NotFoundError
from tidelake.commit import Committer
from tidelake.errors import OutcomeUnknownError
from tidelake.table.jobs.analyze import HASHES_MAX, ColumnSummary
from tidelake.types import DataField, parse_type

TYPES = pa.schema(
    {
        "k": pa.int64(),
        "b": pa.bool_(),
        "i": pa.int16(),
        "f": pa.float32(),
        "d": pa.decimal128(20, 2),
        "s": pa.string(),
        "x": pa.binary(),
        "day": pa.date32(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("ms", tz="UTC"),
        "l": pa.list_(pa.int32()),
    }
)


@pytest.fixture
def table(catalog):
    made = catalog.create_table("db.t", TYPES, primary_keys=["k"], options={"bucket": 1})
    rows = [
        {
            "k": k,
            "b": k > 1,
            "i": -k,
            "f": [1.5, float("nan"), -2.0][k],
            "d": decimal.Decimal(k) / 4,
            "s": "é" * k,
            "x": b"x" * (2 * k),
            "day": dt.date(1970, 1, 2 + k),
            "t": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999) + dt.timedelta(days=k),
            "z": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "l": [k],
        }
        for k in range(3)
    ]
    made.write(rows)
    nothing = dict.fromkeys(TYPES.names)
    made.write([{**rows[0], "k": 0}, {**nothing, "k": 9}])
    return made


def test_columns_of_all_types(table):
    found = table.maintenance.analyze()
    assert (found.snapshot_id, found.schema_id, found.record_count) == (2, 0, 4)
    assert "l" not in found.columns
    shown = {
        name: (c.distinct_count, c.min, c.max, c.null_count, c.average_length, c.max_length)
        for name, c in found.columns.items()
    }
    assert shown == {
        "k": (4, "0", "9", 0, 8, 8),
        "b": (2, "false", "true", 1, 1, 1),
        "i": (3, "-2", "0", 1, 2, 2),
        "f": (3, "-2.0", "NaN", 1, 4, 4),
        "d": (3, "0.00", "0.50", 1, 16, 16),
        "s": (3, None, None, 1, 1, 2),
        "x": (3, None, None, 1, 2, 4),
        "day": (3, "1", "3", 1, 4, 4),
        "t": (3, "1969-12-31 23:59:59.999999", "1970-01-02 23:59:59.999999", 1, 8, 8),
        "z": (1, "2024-01-01 00:00:00.000", "2024-01-01 00:00:00.000", 1, 8, 8),
    }
    assert [c.column_id for c in found.columns.values()] == list(range(10))


def test_a_snapshot_keeps_them_and_those_of_the_schema_inherit(table):
    before = table.to_arrow().sort_by("k")
    found = table.maintenance.analyze(["s"])
    newest = table.history().to_pylist()[-1]
    assert (newest["snapshot_id"], newest["commit_kind"]) == (3, "ANALYZE")
    assert (newest["total_record_count"], newest["delta_record_count"]) == (5, 0)
    assert table.to_arrow(columns=["k", "s"]).sort_by("k") == before.select(["k", "s"])
    table.write(before.slice(0, 1))
    shown = table.system_table("statistics")
    [row] = shown.to_arrow().to_pylist()
    assert (row["snapshot_id"], row["mergedRecordCount"]) == (2, 4)
    assert row["mergedRecordSize"] == found.size_bytes > 0
    assert json.loads(row["colstat"]) == {
        "s": {"colId": 5, "distinctCount": 3, "nullCount": 1, "avgLen": 1, "maxLen": 2}
    }
    assert (shown.count(snapshot_id=2), shown.count(snapshot_id=3)) == (0, 1)
    table.add_column("new", "INT")
    table.write([dict.fromkeys([*TYPES.names, "new"]) | {"k": 77}])
    assert shown.count() == 0


def test_rows_alone_are_counted_without_reading_them(catalog, monkeypatch):
    table = catalog.create_table("db.a", pa.schema({"k": pa.int64()}))
    assert table.maintenance.analyze() is None
    assert table.latest_snapshot_id is None
    table.write([{"k": 1}, {"k": 2}])
    monkeypatch.setattr(type(table.fileio), "open_input", None)
    found = table.maintenance.analyze([])
    assert (found.record_count, dict(found.columns)) == (2, {})
    table.truncate()
    found = table.maintenance.analyze([])
    assert (found.record_count, found.size_bytes) == (0, 0)


def test_a_column_that_has_no_statistics_is_refused(table):
    with pytest.raises(InvalidInputError, match=r"'l' of table 'db\.t' is ARRAY<INT>"):
        table.maintenance.analyze(["k", "l"])
    with pytest.raises(NotFoundError, match="Did you mean 'day'"):
        table.maintenance.analyze(["dya"])
    assert table.latest_snapshot_id == 2


@pytest.mark.parametrize("rows", [HASHES_MAX, HASHES_MAX + 1, 100_000])
@pytest.mark.parametrize("kind", ["INT", "STRING", "DECIMAL(12, 2)", "DOUBLE"])
def test_distinct_values_are_counted_or_well_estimated(rows, kind):
    field = DataField(0, "c", parse_type(kind))
    summary = ColumnSummary(field)
    numbers = np.tile(np.arange(rows), 2)
    np.random.default_rng(1).shuffle(numbers)
    for part in np.array_split(numbers, 3):
        values = pa.array(part, pa.int32())
        if kind == "STRING":
            values = values.cast(pa.string())
        elif kind == "DOUBLE":
            values = values.cast(pa.float64())
        elif kind != "INT":
            values = values.cast(pa.decimal128(12, 2))
        summary.add(values)
    found = summary.finish().distinct_count
    if rows == HASHES_MAX:
        assert found == rows
    else:
        assert abs(found - rows) <= 0.06 * rows


def test_slices_are_hashed_as_what_they_hold():
    for values in (pa.array(["a", "bb", "a", "c"]), pa.array([1, 2, 1, 3])):
        kind = "STRING" if pa.types.is_string(values.type) else "BIGINT"
        summary = ColumnSummary(DataField(0, "c", parse_type(kind)))
        summary.add(values.slice(1, 2))
        summary.add(values.slice(2, 1))
        assert summary.finish().distinct_count == 2


def test_statistics_that_lose_their_commit_are_removed(table, monkeypatch):
    def lost(*_, **__):
        raise ConflictError("lost", kind="commit_race_lost")

    monkeypatch.setattr(Committer, "analyze", lost)
    with pytest.raises(ConflictError, match="lost"):
        table.maintenance.analyze(["k"])
    assert table.fileio.list_dir(f"{table.paths.location}/statistics") == []


def test_statistics_whose_outcome_is_unknown_stay(table, monkeypatch):
    def unknown(*_, **__):
        raise OutcomeUnknownError("who knows")

    monkeypatch.setattr(Committer, "analyze", unknown)
    with pytest.raises(OutcomeUnknownError):
        table.maintenance.analyze(["k"])
    assert len(table.fileio.list_dir(f"{table.paths.location}/statistics")) == 1
