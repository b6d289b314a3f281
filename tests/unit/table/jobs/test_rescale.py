"""Another number of buckets: what is refused, what is rewritten, and what reads see meanwhile."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake.table.read.table_scan
from tidelake import ConflictError, InvalidInputError, UnsupportedError
from tidelake.scan import live_buckets

PARTITIONED = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()})


@pytest.fixture
def partitioned(catalog):
    table = catalog.create_table(
        "db.t",
        PARTITIONED,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 2},
    )
    table.write([{"p": p, "k": k, "v": f"{p}{k}"} for p in "ab" for k in range(40)])
    table.write([{"p": "a", "k": 1, "v": "newer"}])
    table.delete([{"p": "a", "k": 2}])
    return table


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


def totals(table):
    snapshot = table.handle.snapshots.latest()
    found = live_buckets(table.handle.read_context(), snapshot, manifests=table.handle.manifests)
    return {table.paths.partition_path(b.partition): b.total_buckets for b in found}


def test_a_rescaled_table_holds_the_same_rows_in_its_new_buckets(catalog, partitioned):
    before = rows(partitioned)
    result = partitioned.rescale_bucket(5)
    table = catalog.table("db.t")
    assert table.options.raw["bucket"] == "5"
    assert totals(table) == {"p=a": 5, "p=b": 5}
    assert rows(table) == before
    assert len(result.snapshot_ids) == 2
    assert result.rows == len(before)
    table.write([{"p": "a", "k": 3, "v": "after"}])
    assert rows(table, where="p = 'a' AND k = 3") == [{"p": "a", "k": 3, "v": "after"}]


def test_one_partition_is_rescaled_and_the_other_takes_no_rows_until_it_is(catalog, partitioned):
    before = rows(partitioned)
    partitioned.rescale_bucket(3, partitions=[{"p": "a"}])
    table = catalog.table("db.t")
    assert totals(table) == {"p=a": 3, "p=b": 2}
    assert rows(table) == before
    for k in range(40):  # each partition's buckets prune by its own number
        assert len(rows(table, where=f"k = {k}")) == (1 if k == 2 else 2)
    with pytest.raises(InvalidInputError, match="p=b was written with 2 buckets"):
        table.write([{"p": "b", "k": 1, "v": "x"}])
    table.write([{"p": "a", "k": 1, "v": "y"}, {"p": "c", "k": 1, "v": "z"}])
    table.compact(full=True)
    assert totals(table) == {"p=a": 3, "p=b": 2, "p=c": 3}
    table.write([{"p": "b", "k": 1, "v": "x"}], mode="overwrite")
    assert totals(table)["p=b"] == 3


def test_the_rest_is_rescaled_by_a_call_without_a_number(catalog, partitioned):
    partitioned.rescale_bucket(3, partitions=[{"p": "a"}])
    table = catalog.table("db.t")
    assert len(table.rescale_bucket().snapshot_ids) == 1
    assert totals(table) == {"p=a": 3, "p=b": 3}
    assert table.rescale_bucket().snapshot_ids == ()


def test_a_write_that_began_before_the_rescale_is_refused_at_its_commit(catalog, partitioned):
    before = rows(partitioned)
    out = partitioned.writer()
    out.write([{"p": "a", "k": 100, "v": "late"}])
    catalog.table("db.t").rescale_bucket(5)
    with pytest.raises(ConflictError, match="rewritten with 5 buckets"):
        out.commit()
    assert rows(catalog.table("db.t")) == before


def test_rows_written_while_a_partition_is_rewritten_are_not_lost(
    catalog, partitioned, monkeypatch
):
    writer = catalog.table("db.t")
    seen = []

    def batches(self):
        seen.append(1)
        if len(seen) == 1:
            writer.write([{"p": "a", "k": 500, "v": "meanwhile"}])
        return original(self)

    original = tidelake.table.read.table_scan.TableScan.batches
    monkeypatch.setattr(tidelake.table.read.table_scan.TableScan, "batches", batches)
    with pytest.raises(ConflictError, match="nothing was committed"):
        partitioned.rescale_bucket(5)
    monkeypatch.undo()
    table = catalog.table("db.t")
    assert rows(table, where="k = 500") == [{"p": "a", "k": 500, "v": "meanwhile"}]
    table.rescale_bucket()
    assert totals(table) == {"p=a": 5, "p=b": 5}
    assert rows(table, where="k = 500") == [{"p": "a", "k": 500, "v": "meanwhile"}]


def test_an_append_table_with_a_bucket_key_is_rescaled(catalog):
    table = catalog.create_table("db.a", PARTITIONED, options={"bucket": 2, "bucket-key": "k"})
    given = [{"p": "x", "k": k % 7, "v": str(k)} for k in range(50)]
    table.write(given)
    table.rescale_bucket(4)
    table = catalog.table("db.a")
    assert sorted(rows(table), key=repr) == sorted(given, key=repr)
    assert totals(table) == {"": 4}


def test_an_older_snapshot_is_read_with_its_own_buckets(catalog, partitioned):
    before, snapshot = rows(partitioned), partitioned.latest_snapshot_id
    partitioned.rescale_bucket(5)
    table = catalog.table("db.t")
    table.truncate()
    assert rows(table) == []
    assert rows(table, snapshot_id=snapshot) == before
    assert len(rows(table, snapshot_id=snapshot, where="p = 'b' AND k = 7")) == 1


@pytest.mark.parametrize("buckets", [0, -1, "4", 2.5, True])
def test_a_number_that_is_none_is_refused(partitioned, buckets):
    with pytest.raises(InvalidInputError, match="must be a number from 1 on"):
        partitioned.rescale_bucket(buckets)


def test_a_table_without_fixed_buckets_is_refused(appended):
    with pytest.raises(UnsupportedError, match="no fixed number of buckets"):
        appended.rescale_bucket(4)


def test_partitions_that_are_none_are_refused_before_the_table_is_altered(catalog, partitioned):
    with pytest.raises(InvalidInputError, match="not a partition column"):
        partitioned.rescale_bucket(3, partitions=[{"k": 1}])
    assert catalog.table("db.t").options.raw["bucket"] == "2"


def test_the_table_takes_the_new_number_on(catalog, partitioned):
    partitioned.rescale_bucket(3)
    partitioned.write([{"p": "a", "k": 1, "v": "again"}])
    partitioned.rescale_bucket(4)
    assert rows(catalog.table("db.t"), where="k = 1 AND p = 'a'")[0]["v"] == "again"
    assert set(totals(partitioned).values()) == {4}
