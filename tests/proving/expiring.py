"""Tables of every kind that expiry has to do with, and somebody who comes in between."""

from __future__ import annotations

import pyarrow as pa

import tidelake
from proving.reach import missing, stray
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("p", pa.string())]
)
KEYED = {"primary_keys": ["k"]}
TABLES = {
    "append": {},
    "partitions": {"partition_keys": ["p"]},
    "append-dv": {"deletion-vectors.enabled": "true"},
    "none": {**KEYED, "bucket": "1"},
    "three": {**KEYED, "bucket": "3"},
    "dynamic": {**KEYED, "bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "input": {**KEYED, "bucket": "1", "changelog-producer": "input"},
    "lookup": {**KEYED, "bucket": "1", "changelog-producer": "lookup"},
    "full": {
        **KEYED,
        "bucket": "1",
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "2",
    },
    "dv": {**KEYED, "bucket": "1", "deletion-vectors.enabled": "true"},
    "partial": {
        **KEYED,
        "bucket": "1",
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "changelog-producer": "lookup",
    },
    "moves": {
        **KEYED,
        "partition_keys": ["p"],
        "bucket": "-1",
        "dynamic-partition-overwrite": "false",
    },
}
ALL = {"retain_max": 1, "retain_min": 1}


def make(fileio, *, name="db.t", **how):
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(7))
    keys = {key: how.pop(key) for key in ("primary_keys", "partition_keys") if key in how}
    return catalog.create_table(name, SCHEMA, **keys, options=how)


def work(table, rounds: int = 9) -> None:
    """Commits of every kind that the table takes."""
    for turn in range(rounds):
        rows = [{"k": k, "v": 10 * turn + k, "p": "ab"[k % 2]} for k in range(turn % 3, 6)]
        table.write(rows)
        if turn % 4 == 2:
            table.delete("k = 4")
        if turn == 3:
            table.compact(full=True)
        if turn == 5:
            table.maintenance.analyze()
        if turn == 6:
            table.write(rows[:2], mode="overwrite")
        if turn == 7:
            table.maintenance.compact_manifests()


def states(table) -> dict[int, list]:
    return {i: rows(table, snapshot_id=i) for i in table.handle.snapshots.ids()}


def rows(table, **moment) -> list:
    return sorted(map(repr, table.to_arrow(**moment).to_pylist()))


def check(table) -> None:
    location = table.handle.paths.location
    assert missing(table.fileio, location) == set()
    assert stray(table.fileio, location) == set()


def check_expiry() -> None:
    """What snapshots, a tag and a consumer need stays; nothing else does."""
    fileio = MemoryFileIO()
    table = make(fileio, **TABLES["input"])
    table.write([{"k": 1, "v": 1, "p": "a"}])
    table.compact(full=True)  # lifts the file, and rewrites nothing
    table.write([{"k": 2, "v": 1, "p": "a"}])
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    check(table)
    work(table, 3)
    newest = table.handle.snapshots.latest_id()
    assert newest is not None
    tagged, waited = newest // 2, newest - 1
    table.tags.create("t", snapshot_id=tagged)
    then, before = rows(table, tag="t"), rows(table, snapshot_id=waited)
    fileio.replace(
        f"{table.handle.paths.consumer_dir}/consumer-c", b'{"nextSnapshot": %d}' % waited
    )
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    check(table)
    cold = again(table, fileio)
    assert rows(cold, tag="t") == then
    assert rows(cold, snapshot_id=waited) == before


class Meanwhile:
    """A storage on which somebody does something right before, or after, a call."""

    def __init__(self, inner, call, path, act, *, after=False):
        self._inner, self._call, self._path = inner, call, path
        self._act, self._after = act, after

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name != self._call:
            return found

        def call(path, *args, **held):
            act = self._act if path == self._path else None
            if act is not None:
                self._act = None
                if not self._after:
                    act()
            done = found(path, *args, **held)
            if act is not None and self._after:
                act()
            return done

        return call


def again(table, fileio):
    """The table on another storage."""
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(8))
    return catalog.table(table.identifier)
