"""Reading end to end: the kinds of input and output, projection, filters, limits, time, explain."""

from __future__ import annotations

import datetime as dt
import pickle

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError, col


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


ROWS = [{"k": 1, "v": "a", "n": 10}, {"k": 2, "v": None, "n": None}]
ARROW = pa.Table.from_pylist(
    ROWS,
    schema=pa.schema(
        [pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("n", pa.int32())]
    ),
)


@pytest.mark.parametrize(
    "source",
    [
        ARROW,
        ARROW.to_batches()[0],
        ARROW.to_reader(),
        iter(ARROW.to_batches()),
        [ARROW.slice(0, 1), ARROW.slice(1)],
        ARROW.to_pandas(),
        pl.from_arrow(ARROW),
        pl.from_arrow(ARROW).lazy(),
        duckdb.from_arrow(ARROW),
        ROWS,
        iter(ROWS),
        {"k": [1, 2], "v": ["a", None], "n": [10, None]},
        {"k": np.array([1, 2]), "v": ["a", None], "n": pa.array([10, None], pa.int32())},
        ARROW.select(["n", "v", "k"]),
        pa.table(
            {
                "k": pa.array([1, 2], pa.int8()),
                "v": pa.array(["a", None], pa.large_string()),
                "n": pa.array([10, None], pa.int64()),
            }
        ),
        pa.table(
            {
                "k": [1, 2],
                "v": pa.array(["a", None]).dictionary_encode(),
                "n": pa.array([10, None], pa.int16()),
            }
        ),
    ],
    ids=[
        "table",
        "batch",
        "reader",
        "batches",
        "tables",
        "pandas",
        "polars",
        "lazyframe",
        "duckdb",
        "dicts",
        "dict stream",
        "columns",
        "numpy columns",
        "other order",
        "castable",
        "dictionary",
    ],
)
def test_rows_of_every_kind_are_taken(keyed, source):
    result = keyed.write(source)
    assert result.rows == 2
    assert keyed.to_arrow().sort_by("k") == ARROW


def test_rows_are_given_in_every_kind(keyed):
    keyed.write(ARROW)
    assert keyed.to_arrow().sort_by("k") == ARROW
    assert pa.Table.from_batches(list(keyed.to_batches())).sort_by("k") == ARROW
    assert keyed.to_pandas().sort_values("k")["k"].tolist() == [1, 2]
    assert isinstance(keyed.to_pandas(), pd.DataFrame)
    assert keyed.to_polars().sort("k").to_dicts() == ROWS
    assert keyed.to_duckdb().filter("k = 2").fetchall() == [(2, None, None)]
    assert pa.table(keyed).sort_by("k") == ARROW
    assert pl.DataFrame(keyed).sort("k").to_dicts() == ROWS
    assert keyed.head(1).num_rows == 1


def test_an_empty_table_reads_as_no_rows(keyed):
    assert keyed.to_arrow() == keyed.schema.empty_table()
    assert list(keyed.to_batches()) == []
    assert keyed.count() == 0
    assert keyed.history().num_rows == 0
    assert "nothing was written yet" in str(keyed.explain())


def test_columns_come_in_the_order_asked_for(keyed):
    keyed.write(ARROW)
    keyed.write([{"k": 1, "v": "b", "n": 11}])
    assert keyed.to_arrow(columns=["n", "k"]).sort_by("k").to_pylist() == [
        {"n": 11, "k": 1},
        {"n": None, "k": 2},
    ]
    assert keyed.to_arrow(columns=["v"], where="n = 11").to_pylist() == [{"v": "b"}]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("k = 2", [2]),
        (col("k") == 2, [2]),
        ([("k", "==", 2)], [2]),
        ("n > 12 AND v LIKE 'n%'", [3, 4]),
        ("v IS NULL", [9]),
        ("NOT (k < 9)", [9]),
        ("k IN (1, 4) OR n = 12", [1, 2, 4]),
        ("k BETWEEN 2 AND 3", [2, 3]),
        ("v = 'old1'", []),
        ("n = 1", []),
    ],
)
def test_filters_see_only_the_newest_rows(keyed, where, keys):
    keyed.write([{"k": k, "v": f"old{k}", "n": k} for k in range(1, 5)])
    keyed.write([{"k": k, "v": f"new{k}", "n": 10 + k} for k in range(1, 5)])
    keyed.write([{"k": 9, "v": None, "n": None}])
    assert [r["k"] for r in rows(keyed, where=where)] == keys
    assert keyed.count(where=where) == len(keys)


def test_value_filter_does_not_bring_deleted_or_replaced_rows_back(keyed):
    keyed.write([{"k": k, "v": "x", "n": 5} for k in range(100)])
    keyed.write([{"k": k, "v": "x", "n": 1000} for k in range(50)])
    keyed.delete([{"k": 60}])
    assert keyed.count(where="n = 5") == 49
    assert keyed.count(where="n < 900") == 49


def test_a_limit_stops_early_and_never_short(keyed):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(1000)])
    keyed.write([{"k": k, "v": "y", "n": k} for k in range(500)])
    keyed.delete("k < 400")
    for limit in (0, 1, 7, 599, 600, 601):
        assert keyed.to_arrow(limit=limit).num_rows == min(limit, 600)
    assert keyed.to_arrow(limit=5, where="v = 'y'").num_rows == 5
    assert keyed.count(limit=5) == 5


def test_a_limit_opens_only_the_raw_files_that_it_needs(appended):
    for i in range(4):
        appended.write([{"k": k, "v": "x", "n": i} for k in range(10)])
    table = appended.copy({"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"})
    plan = table.plan(limit=15)
    assert (plan.files_read, plan.pruned["limit"]) == (2, 2)
    assert table.to_arrow(limit=15).num_rows == 15


def test_time_travel_by_id_tag_and_time(keyed):
    for i in range(3):
        keyed.write([{"k": 1, "v": str(i), "n": i}])
    keyed.tags.create("second", snapshot_id=2)
    keyed.tags.create("newest")
    times = keyed.history().column("commit_time").to_pylist()
    assert rows(keyed, snapshot_id=1)[0]["n"] == 0
    assert rows(keyed, tag="second")[0]["n"] == 1
    assert rows(keyed, tag="newest")[0]["n"] == 2
    assert rows(keyed, timestamp=times[2])[0]["n"] == 2
    assert rows(keyed, timestamp=times[2] + dt.timedelta(days=1))[0]["n"] == 2
    assert rows(keyed, timestamp=times[0].isoformat())[0]["n"] in {0, 1, 2}
    assert rows(keyed.copy({"scan.snapshot-id": 1}))[0]["n"] == 0
    assert rows(keyed.copy({"scan.tag-name": "second"}))[0]["n"] == 1
    keyed.tags.delete("second")
    with pytest.raises(NotFoundError, match="no tag 'second'"):
        keyed.to_arrow(tag="second")


def test_wrong_moments_are_told_with_what_there_is(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    keyed.write([{"k": 1, "v": "b", "n": 2}])
    keyed.tags.create("release-1")
    with pytest.raises(NotFoundError, match=r"no snapshot 9. Snapshots 1 to 2 can be read"):
        keyed.to_arrow(snapshot_id=9)
    with pytest.raises(NotFoundError, match="Did you mean 'release-1'"):
        keyed.to_arrow(tag="release-2")
    with pytest.raises(NotFoundError, match="lies before snapshot 1"):
        keyed.to_arrow(timestamp=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(InvalidInputError, match="Give one of"):
        keyed.to_arrow(snapshot_id=1, tag="release-1")
    with pytest.raises(InvalidInputError, match="is not a time"):
        keyed.to_arrow(timestamp="yesterday")
    with pytest.raises(InvalidInputError, match="whole number"):
        keyed.to_arrow(snapshot_id="1")


def test_an_expired_snapshot_is_told_so_and_a_tag_keeps_it(keyed, tmp_path):
    for i in range(4):
        keyed.write([{"k": 1, "v": str(i), "n": i}])
    keyed.tags.create("kept", snapshot_id=2)
    snapshots = tmp_path / "warehouse/db.db/keyed/snapshot"
    for i in (1, 2):
        (snapshots / f"snapshot-{i}").unlink()
    (snapshots / "EARLIEST").write_text("3")
    with pytest.raises(NotFoundError, match=r"expired or never was. Snapshots 3 to 4") as caught:
        keyed.to_arrow(snapshot_id=1)
    assert caught.value.kind == "snapshot_expired"
    assert rows(keyed, snapshot_id=2) == rows(keyed, tag="kept") == [{"k": 1, "v": "1", "n": 1}]


def test_explain_tells_files_reasons_splits_and_bytes(catalog):
    table = catalog.create_table(
        "db.e",
        pa.schema({"p": pa.string(), "k": pa.int64(), "n": pa.int64()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 2},
    )
    for low in (0, 1000):
        table.write([{"p": p, "k": low + k, "n": low + k} for p in "ab" for k in range(100)])
    text = str(table.explain(where="p = 'a' AND k = 7"))
    for part in (
        "Scan of db.e",
        "2 (APPEND",
        "1 of 8",
        "4 by partition",
        "2 by bucket",
        "1 by key statistics",
        "splits raw     1",
        "splits merged  0",
    ):
        assert part in text, text
    explained = table.explain(where="n = 3", columns=["k"], limit=4)
    assert explained.plan.pruned == {"value statistics": 4}
    assert "limit" in str(explained)
    assert explained._repr_html_().startswith("<b>Scan of db.e")


def test_count_reads_no_data_file_where_metadata_tells(keyed, tmp_path):
    keyed.write([{"k": k, "v": "x", "n": k} for k in range(100)])
    for file in (tmp_path / "warehouse").rglob("*.parquet"):
        file.unlink()
    assert keyed.count() == 100


def test_a_table_shows_itself(keyed):
    keyed.write(ARROW)
    text = repr(keyed)
    for part in ("Table db.keyed", "primary key", "2 by k", "1 (APPEND", "BIGINT NOT NULL"):
        assert part in text
    assert "<table>" in keyed._repr_html_()
    assert keyed.identifier == "db.keyed"


def test_a_table_with_a_corrupt_snapshot_still_shows_itself(keyed, tmp_path):
    keyed.write(ARROW)
    (tmp_path / "warehouse/db.db/keyed/snapshot/snapshot-1").write_bytes(b"{")
    assert "cannot be read" in repr(keyed)


def test_a_table_travels_by_pickle(keyed):
    keyed.write(ARROW)
    assert rows(pickle.loads(pickle.dumps(keyed))) == rows(keyed)


def test_splits_and_context_travel_by_bytes(keyed):
    from tidelake.scan import read_split, split_from_bytes, split_to_bytes

    keyed.write(ARROW)
    keyed.write([{"k": 1, "v": "b", "n": 11}])
    scan = keyed.scan(where="n = 11")
    context = pickle.loads(pickle.dumps(scan.context))
    got = []
    for split in scan.plan.splits:
        back = split_from_bytes(split_to_bytes(split))
        for batch in read_split(context, back, columns=["v"], predicate=scan.predicate):
            got.extend(batch.to_pylist())
    assert got == [{"v": "b"}]


def test_many_splits_read_as_one_table(appended):
    for i in range(6):
        appended.write([{"k": i * 10 + j, "v": str(j), "n": i} for j in range(10)])
    small = appended.copy({"source.split.target-size": "1 b"})
    assert len(small.plan().splits) == 6
    assert small.to_arrow().sort_by("k").column("k").to_pylist() == list(range(60))
    assert small.count(where="n = 3") == 10


def test_the_module_opens_a_warehouse_given_as_uri(tmp_path):
    catalog = tidelake.open(f"file://{tmp_path}/w")
    catalog.create_table("a.b", pa.schema({"x": pa.int32()})).write([{"x": 1}])
    assert tidelake.open(tmp_path / "w").table("a.b").count() == 1
