"""Partitions dropped by name and whole tables emptied: by metadata, in one commit."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from tidelake import InvalidInputError

COLUMNS = pa.schema({"dt": pa.date32(), "region": pa.string(), "x": pa.int64()})
DAY, NEXT = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)


@pytest.fixture
def table(catalog):
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["dt", "region"])
    table.write(
        [
            {"dt": dt, "region": region, "x": i}
            for i, (dt, region) in enumerate(
                [(DAY, "eu"), (DAY, "us"), (NEXT, "eu"), (NEXT, None), (None, "a b/%")]
            )
        ]
    )
    return table


def left(table):
    return sorted(table.to_arrow().column("x").to_pylist())


@pytest.mark.parametrize(
    ("partitions", "kept"),
    [
        ([{"dt": DAY, "region": "eu"}], [1, 2, 3, 4]),
        ([{"dt": DAY}], [2, 3, 4]),
        ([{"region": "eu"}], [1, 3, 4]),
        ([{"dt": NEXT, "region": None}, {"dt": None}], [0, 1, 2]),
        ([{"region": "a b/%"}], [0, 1, 2, 3]),
        ([{"dt": datetime.date(1999, 1, 1)}], [0, 1, 2, 3, 4]),
    ],
)
def test_the_named_partitions_go_and_no_others(table, partitions, kept):
    table.drop_partitions(partitions)
    assert left(table) == kept
    assert left(table) == kept


def test_a_drop_is_one_overwrite_commit_that_reads_no_data_file(table):
    files = table.system_table("files").to_arrow().column("file_path").to_pylist()
    for path in files:
        table.fileio.delete(path)
    table.drop_partitions([{"dt": DAY}])
    table.truncate()
    kinds = table.history().column("commit_kind").to_pylist()
    assert kinds == ["APPEND", "OVERWRITE", "OVERWRITE"]
    assert table.count() == 0


def test_the_snapshot_before_still_has_the_rows(table):
    table.truncate()
    assert left(table) == []
    assert table.count(snapshot_id=1) == 5
    table.write([{"dt": DAY, "region": "eu", "x": 9}])
    assert left(table) == [9]


def test_a_drop_with_an_identity_is_done_once(table):
    table.drop_partitions([{"dt": DAY}], commit_user="u", commit_identifier=1)
    table.write([{"dt": DAY, "region": "eu", "x": 9}])
    again = table.drop_partitions([{"dt": DAY}], commit_user="u", commit_identifier=1)
    assert again.already_committed
    assert left(table) == [2, 3, 4, 9]


@pytest.mark.parametrize("partitions", [[], [{}], "dt=2024-01-01", None, [{"x": 1}], [7]])
def test_what_names_no_partition_is_refused(table, partitions):
    with pytest.raises(InvalidInputError):
        table.drop_partitions(partitions)
    assert len(left(table)) == 5


def test_a_keyed_table_is_emptied_and_takes_the_same_keys_again(keyed):
    keyed.write([{"k": k, "v": "a", "n": k} for k in range(5)])
    keyed.truncate()
    assert keyed.count() == 0
    keyed.write([{"k": 1, "v": "b", "n": 1}])
    assert keyed.to_arrow().to_pylist() == [{"k": 1, "v": "b", "n": 1}]
