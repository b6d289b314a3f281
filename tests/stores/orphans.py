"""Orphan files on a real store: they go after two looks, and nothing else does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa

COLUMNS = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.string())])
WAIT_S_MAX = 60.0


def _older() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=2)  # a store tells its time in seconds


def _until(ask, holds):
    """Ask again until the store's clock has gone on."""
    begin = time.monotonic()
    while True:
        found = ask()
        if holds(found):
            return found
        assert time.monotonic() - begin < WAIT_S_MAX, found
        time.sleep(0.2)


def rows(table, **moment):
    return sorted(tuple(row.values()) for row in table.to_arrow(**moment).to_pylist())


def check_orphans_go_and_nothing_else(catalog, *, strays: int) -> None:
    """A table with tags, a branch and expired snapshots, and what dead writers left beside it.

    Parameters
    ----------
    strays : int
        More than a page of a listing has.
    """
    options = {"bucket": "1", "changelog-producer": "input"}
    keys = ["p", "k"]
    table = catalog.create_table(
        "db.t", COLUMNS, primary_keys=keys, partition_keys=["p"], options=options
    )
    for number in range(4):
        table.write([{"p": p, "k": number, "v": f"{number}"} for p in ("a", "b c%/ä")])
    table.tags.create("two", snapshot_id=2)
    table.branches.create("side", snapshot_id=3)
    table.branch("side").write([{"p": "side", "k": 9, "v": "s"}])
    table.compact(full=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    states = [rows(table), rows(table.branch("side")), rows(table, tag="two")]
    place, files = table.paths.location, table.fileio
    left = {f"p=a/bucket-0/data-lost-{number}.parquet" for number in range(strays)}
    left |= {"manifest/manifest-lost-0", "p=gone/bucket-0/data-lost.orc", "index/index-lost-1"}
    for path in left:
        files.write_once(f"{place}/{path}", b"lost")
    maintenance = table.maintenance

    def remove(**more):
        return maintenance.remove_orphan_files(older_than=_older(), **more)

    def told(found):
        return set(found.files["path"].to_pylist())

    foreseen = _until(lambda: remove(dry_run=True), lambda found: told(found) == left)
    assert foreseen.removed_count == 0
    first = remove()
    assert (told(first), first.removed_count) == (left, 0)
    assert set(maintenance.quarantined_files()["path"].to_pylist()) == left
    assert all(files.exists(f"{place}/{path}") for path in left)
    kept = "p=gone/bucket-0/data-lost.orc"
    maintenance.undelete_files([kept])
    second = _until(remove, lambda found: found.removed_count == len(left) - 1)
    assert second.removed_bytes == 4 * (len(left) - 1)
    assert [path for path in sorted(left) if files.exists(f"{place}/{path}")] == [kept]
    found = catalog.table("db.t")
    assert states == [
        rows(found),
        rows(found.branch("side")),
        rows(found, tag="two"),
    ]
    report = found.fsck(data=True)
    assert report.is_whole, report.problems
