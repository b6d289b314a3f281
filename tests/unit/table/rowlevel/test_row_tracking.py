"""Row tracking: ids that stay with rows, and the snapshot that wrote each."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidelake
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError
from tidelake.scan import LocatedRows

WAYS = ["rewritten", "marked"]
FORMATS = ["parquet", "orc", "avro"]


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(str(tmp_path))


def make(catalog, way, **more):
    options = {"row-tracking.enabled": "true", **more}
    if way == "marked":
        options["deletion-vectors.enabled"] = "true"
    return catalog.create_table("db.t", {"id": "INT", "data": "STRING"}, options=options)


def row(number, data):
    return {"id": number, "data": data}


def tracked(catalog, **scan):
    """By id: data, row id, sequence number."""
    rows = catalog.table("db.t$row_tracking").to_arrow(**scan).to_pylist()
    return {r["id"]: (r["data"], r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in rows}


def next_id(table):
    return table.handle.snapshots.latest().next_row_id


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", FORMATS)
def test_ids_stay_with_rows_through_updates_deletes_and_compactions(catalog, way, format):
    table = make(catalog, way, **{"file.format": format})
    table.write([row(11, "a"), row(22, "b")])
    table.write([row(33, "c")])
    assert tracked(catalog) == {11: ("a", 0, 1), 22: ("b", 1, 1), 33: ("c", 2, 2)}
    assert next_id(table) == 3
    table.update({"data": "new"}, "id = 11")
    assert tracked(catalog) == {11: ("new", 0, 3), 22: ("b", 1, 1), 33: ("c", 2, 2)}
    table.delete("id = 22")
    assert tracked(catalog) == {11: ("new", 0, 3), 33: ("c", 2, 2)}
    table.write([row(44, "d"), row(55, "e")])
    before = tracked(catalog)
    assert before[44][1] + 1 == before[55][1] < next_id(table)
    assert before[44][1] >= 3
    assert before[44][2] == 5
    count = next_id(table)
    table.compact(full=True)
    assert len(catalog.table("db.t$files").to_arrow()) == 1
    assert tracked(catalog) == before
    assert next_id(table) == count  # a compaction makes no row
    table.update({"data": "newer"}, "id = 44")
    assert tracked(catalog) == {**before, 44: ("newer", before[44][1], 7)}
    assert table.to_arrow().column_names == ["id", "data"]


@pytest.mark.parametrize("way", WAYS)
def test_ids_are_those_of_a_model_over_drawn_changes(catalog, way):
    draw = random.Random(11)
    table = make(catalog, way)
    model: dict[int, tuple[str, int]] = {}
    ids: dict[int, int] = {}
    count = 0
    for step in range(14):
        kind = draw.choice(["write", "write", "update", "delete", "compact"])
        some = draw.sample(sorted(model), min(len(model), 3))
        snapshot_before = table.handle.snapshots.latest_id() or 0
        if kind == "write" or not some:
            new = range(count, count + draw.randint(1, 5))
            count = new.stop
            table.write([row(number, f"w{step}") for number in new])
            model |= dict.fromkeys(new, (f"w{step}", snapshot_before + 1))
        elif kind == "update":
            table.update({"data": f"u{step}"}, f"id IN ({', '.join(map(str, some))})")
            model |= dict.fromkeys(some, (f"u{step}", snapshot_before + 1))
        elif kind == "delete":
            table.delete(f"id IN ({', '.join(map(str, some))})")
            model = {number: state for number, state in model.items() if number not in some}
        else:
            table.compact(full=True)
        found = tracked(catalog)
        assert {number: (data, seq) for number, (data, _, seq) in found.items()} == model
        assert len({i for _, i, _ in found.values()}) == len(found)
        for number, (_, row_id, _) in found.items():
            assert ids.setdefault(number, row_id) == row_id
        assert all(row_id < next_id(table) for row_id in ids.values())


def test_files_of_new_rows_hold_no_ids_and_moved_rows_do(catalog):
    table = make(catalog, "rewritten")
    table.write([row(1, "a"), row(2, "b")])
    [path] = catalog.table("db.t$files").to_arrow()["file_path"].to_pylist()
    assert pq.read_schema(path).names == ["id", "data"]
    table.update({"data": "c"}, "id = 1")
    [path] = catalog.table("db.t$files").to_arrow()["file_path"].to_pylist()
    rows = pq.read_table(path).to_pylist()
    assert [(r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in rows] == [(0, None), (1, 1)]
    ids = [int(f.metadata[b"PARQUET:field_id"]) for f in pq.read_schema(path)]
    assert ids == [0, 1, 2**31 - 6, 2**31 - 2]


def test_the_ids_filter_and_lie_in_metadata_columns(catalog):
    table = make(catalog, "marked")
    table.write([row(n, "x") for n in range(10)])
    table.delete("id = 3")
    assert set(tracked(catalog, where="_ROW_ID >= 7 AND id < 9")) == {7, 8}
    scan = table.scan(where="id > 6")
    rows = LocatedRows(scan.context, ("_ROW_ID", "id"), scan.predicate)
    read = [r for split in scan.plan.splits for b in rows.read(split) for r in b.to_pylist()]
    assert read == [{"_ROW_ID": n, "id": n} for n in (7, 8, 9)]


@pytest.mark.parametrize("order", ["order", "zorder"])
def test_a_clustering_takes_ids_along(catalog, order):
    table = make(catalog, "rewritten")
    for data in ("c", "a", "b"):
        table.write([row(ord(data), data)])
    table.update({"data": "d"}, "data = 'c'")
    before = tracked(catalog)
    table.compact(order=order, by=["data"])
    assert tracked(catalog) == before
    assert table.to_arrow()["data"].to_pylist() == ["a", "b", "d"]


def test_an_overwrite_makes_new_rows_and_a_rollback_old_ones(catalog):
    table = make(catalog, "rewritten")
    table.write([row(1, "a")])
    table.tags.create("before")
    table.overwrite([row(1, "b")])
    assert tracked(catalog) == {1: ("b", 1, 2)}
    assert tracked(catalog, tag="before") == {1: ("a", 0, 1)}


def test_two_commits_on_one_base_share_no_id(catalog):
    table = make(catalog, "rewritten")
    other = catalog.table("db.t")
    with table.writer() as out:
        out.write([row(1, "a"), row(2, "a")])
        other.write([row(3, "b")])
    assert tracked(catalog) == {3: ("b", 0, 1), 1: ("a", 1, 2), 2: ("a", 2, 2)}


@pytest.mark.parametrize(
    ("keys", "options", "says"),
    [
        (["id"], {"bucket": "1"}, "primary key"),
        ([], {"bucket": "2", "bucket-key": "id"}, "'bucket'"),
    ],
)
def test_tables_whose_rows_have_another_place_are_refused(catalog, keys, options, says):
    with pytest.raises(InvalidInputError, match=says):
        catalog.create_table(
            "db.t",
            {"id": "INT"},
            primary_keys=keys,
            options={"row-tracking.enabled": "true", **options},
        )


def test_what_needs_row_tracking_says_so(catalog):
    table = catalog.create_table("db.t", {"id": "INT", "data": "STRING"})
    table.write([row(1, "a")])
    with pytest.raises(UnsupportedError, match="no row tracking"):
        catalog.table("db.t$row_tracking").to_arrow()
    with pytest.raises(TidelakeError, match="fixed"):
        table.set_options({"row-tracking.enabled": "true"})
    with pytest.raises(UnsupportedError, match="does not write"):
        catalog.create_table(
            "db.e",
            {"id": "INT"},
            options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
        )


def test_iceberg_metadata_follows_moved_rows(catalog):
    table = make(catalog, "rewritten", **{"metadata.iceberg.storage": "table-location"})
    table.write([row(1, "a"), row(2, "b")])
    table.update({"data": "c"}, "id = 1")
    table.compact(full=True)
    table.write([row(3, "d")])
    table.compact(full=True)
    assert tracked(catalog)[1] == ("c", 0, 2)
    newest = table.latest_snapshot_id
    folder = Path(table.paths.location, "metadata")
    assert (folder / f"v{newest}.metadata.json").exists()
