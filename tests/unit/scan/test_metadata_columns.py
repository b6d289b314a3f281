"""Metadata columns without Spark: what a split's rows say of where they lie."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelake
from tidelake.errors import UnsupportedError
from tidelake.scan import LocatedRows, check_located, hidden_columns, metadata_fields

PATH, INDEX = "__paimon_file_path", "__paimon_row_index"
PARTITION, BUCKET = "__paimon_partition", "__paimon_bucket"


def located(table, columns, **scan):
    plan = table.scan(columns=[], **scan)
    check_located(plan.plan.splits, columns, table="t")
    rows = LocatedRows(plan.context, tuple(columns), plan.predicate)
    batches = [b for split in plan.plan.splits for b in rows.read(split)]
    assert all(b.schema.names == list(columns) for b in batches)
    return [row for b in batches for row in b.to_pylist()]


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    table = catalog.create_table(
        "db.t",
        pa.schema({"k": pa.int64(), "v": pa.string()}),
        options={"deletion-vectors.enabled": "true", "parquet.block.size": "1 kb"},
    )
    table.write([{"k": k, "v": f"v{k}"} for k in range(1000)])
    table.write([{"k": k, "v": f"v{k}"} for k in range(1000, 1010)])
    return table


def test_ordinals_count_deleted_rows_and_those_that_a_filter_leaves_out(table):
    table.delete("k < 10 OR (k > 500 AND k < 503) OR k = 999")
    gone = {*range(10), 501, 502, 999}
    found = located(table, [INDEX, "k", PATH])
    assert {r["k"]: r[INDEX] for r in found} == {
        k: k if k < 1000 else k - 1000 for k in range(1010) if k not in gone
    }
    for row in found[::100]:
        assert pq.read_table(row[PATH])["k"][row[INDEX]].as_py() == row["k"]
    kept = located(table, [INDEX], where="k >= 495 AND k < 505")
    assert [r[INDEX] for r in kept] == [495, 496, 497, 498, 499, 500, 503, 504]


def test_a_path_alone_has_its_filter_in_the_file(table):
    assert len({r[PATH] for r in located(table, [PATH], where="k > 998")}) == 2
    assert located(table, [PATH], where="k > 5000") == []


def test_without_partitions_the_partition_is_empty(table):
    assert located(table, [PARTITION, BUCKET], where="k = 3") == [{PARTITION: {}, BUCKET: 0}]


def test_only_buckets_and_partitions_are_known_of_merged_rows(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    schema = pa.schema({"k": pa.int64(), "p": pa.date32(), "v": pa.string()})
    table = catalog.create_table(
        "db.t", schema, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": 1}
    )
    day = pa.scalar(20000, pa.date32()).as_py()
    table.write([{"k": 1, "p": day, "v": "a"}])
    assert located(table, [INDEX, PARTITION]) == [{INDEX: 0, PARTITION: {"p": day}}]
    table.write([{"k": 1, "p": day, "v": "b"}])
    wanted = [{"v": "b", PARTITION: {"p": day}, BUCKET: 0}]
    assert located(table, ["v", PARTITION, BUCKET], where="v = 'b'") == wanted
    for name in (PATH, INDEX):
        with pytest.raises(
            UnsupportedError, match=f"{name} of table 't' cannot be read: in 1 of 1"
        ):
            located(table, [name])


def test_a_column_of_the_table_hides_them(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    table = catalog.create_table("db.t", pa.schema({"__PAIMON_BUCKET": pa.string()}))
    assert hidden_columns(["__PAIMON_BUCKET"]) == (PATH, INDEX, PARTITION)
    assert BUCKET not in metadata_fields(table.table_schema)
