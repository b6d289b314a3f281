"""Clustered tables beside Java Paimon 1.3.1: it reads ours, and we cluster its files."""

from __future__ import annotations

import datetime as dt

import pytest

from interop.cells import difference, table_cells
from interop.test_versions import opened

pytestmark = pytest.mark.oracle

COLUMNS = [["p", "STRING"], ["a", "INT"], ["b", "STRING"], ["t", "TIMESTAMP(3)"]]
INCREMENTAL = {
    "clustering.columns": "a,b,t",
    "clustering.incremental": "true",
    "num-sorted-run.compaction-trigger": "3",
}


def check_equal(peer, place):
    columns, rows = peer.read(place)
    assert difference(rows, table_cells(opened(place).to_arrow()), columns) is None


def fill(peer, place, commits):
    """Commits of both engines, in turns."""
    for number in range(commits):
        values = [(p, 7 * k % 11, f"text-{k * k % 13}") for p in "xy" for k in range(number, 20)]
        if number % 2:
            when = dt.datetime(2026, 1, 1 + number)
            opened(place).write([{"p": p, "a": a, "b": b, "t": when} for p, a, b in values])
        else:
            peer.do(
                "write",
                place,
                rows=[["+I", f"s:{p}", str(a), f"s:{b}", None] for p, a, b in values],
            )


@pytest.mark.share(3)
@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
def test_java_reads_sorted_tables_and_writes_on(peer, tmp_path, order):
    place = tmp_path / "made/db.db/t"
    peer.do("create", place, columns=COLUMNS, primary_keys=[], partition_keys=["p"], options={})
    fill(peer, place, 4)
    opened(place).compact(order=order, by=["a", "b", "t"])
    check_equal(peer, place)
    fill(peer, place, 2)
    check_equal(peer, place)


def test_java_reads_levels_and_we_cluster_its_files(peer, tmp_path):
    place = tmp_path / "made/db.db/t"
    options = INCREMENTAL
    peer.do(
        "create", place, columns=COLUMNS, primary_keys=[], partition_keys=["p"], options=options
    )
    fill(peer, place, 3)
    assert opened(place).compact().files == 2
    check_equal(peer, place)
    fill(peer, place, 4)
    assert opened(place).compact(full=True).files == 2
    levels = opened(place).system_table("files").to_arrow()["level"].to_pylist()
    assert len(set(levels)) == 1
    assert levels[0] > 0
    check_equal(peer, place)


def test_java_2_goes_on_with_buckets_that_are_clustered(peer, tmp_path):
    if peer.version == "java-1.3":
        pytest.skip("Paimon 1.3.1 does not open such a table")
    place = tmp_path / "made/db.db/t"
    buckets = {"bucket": "2", "bucket-key": "b", "bucket-append-ordered": "false"}
    options = INCREMENTAL | buckets | {"write-only": "true"}
    peer.do(
        "create", place, columns=COLUMNS, primary_keys=[], partition_keys=["p"], options=options
    )
    fill(peer, place, 4)
    assert opened(place).compact(full=True).files == 4
    check_equal(peer, place)
    fill(peer, place, 3)
    opened(place).compact()
    check_equal(peer, place)


KEYED = {
    "bucket": "2",
    "pk-clustering-override": "true",
    "clustering.columns": "b,a",
    "num-sorted-run.compaction-trigger": "3",
}


def keyed(peer, place, options):
    if peer.version == "java-1.3":
        pytest.skip("Paimon 1.3.1 does not know such a table")
    columns = [["k", "INT"], ["a", "INT"], ["b", "STRING"]]
    peer.do(
        "create", place, columns=columns, primary_keys=["k"], partition_keys=[], options=options
    )


def upsert(peer, place, commits, *, deletes):
    """Commits of both engines in turns, which meet each other's keys."""
    for number in range(commits):
        keys = [(number * 5 + k) % 31 for k in range(12)]
        rows = [(k, k * number % 7, f"text-{k * 3 % 11}" if k % 5 else None) for k in keys]
        if number % 2:
            opened(place).write([{"k": k, "a": a, "b": b} for k, a, b in rows])
            if deletes:
                opened(place).delete(f"k = {keys[3]} OR k = {(keys[0] + 17) % 31}")
        else:
            kinds = ["-D" if deletes and at % 5 == 4 else "+I" for at in range(len(rows))]
            cells = [
                [kind, str(k), str(a), None if b is None else f"s:{b}"]
                for kind, (k, a, b) in zip(kinds, rows, strict=True)
            ]
            peer.do("write", place, rows=cells)
        check_equal(peer, place)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_both_write_tables_with_keys_that_are_clustered(peer, tmp_path, engine):
    place = tmp_path / "made/db.db/t"
    first = engine == "first-row"
    marks = {} if first else {"deletion-vectors.enabled": "true"}
    keyed(peer, place, KEYED | marks | {"merge-engine": engine})
    upsert(peer, place, 8, deletes=not first)
    opened(place).compact(full=True)
    check_equal(peer, place)
    upsert(peer, place, 3, deletes=not first)
    files = opened(place).system_table("files").to_arrow()
    assert set(files["level"].to_pylist()) == {1}
    assert opened(place).fsck().problems == ()
