"""Every name that a commit brings is durable before its snapshot is put, each directory once."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake import StorageError
from tidelake.fileio import MemoryFileIO, parent_of
from tidelake.telemetry import Env
from tidelake.testing import FaultyFileIO

COLUMNS = pa.schema({"p": pa.string(), "q": pa.int32(), "k": pa.int64()})
ROWS = [{"p": p, "q": q, "k": k} for p in ("a", "b") for q in (1, 2) for k in range(20)]


def opened(inner, seed=2):
    storage = FaultyFileIO(inner)
    return storage, tidelake.open("/w", fileio=storage, env=Env.seeded(seed)).table("db.t")


@pytest.fixture(params=["keyed", "append"])
def inner(request):
    storage = MemoryFileIO()
    keys = {"primary_keys": ["p", "q", "k"]} if request.param == "keyed" else {}
    options = {"bucket": 2, "bucket-key": "k"}
    tidelake.open("/w", fileio=storage, env=Env.seeded(1)).create_table(
        "db.t", COLUMNS, partition_keys=["p", "q"], options=options, **keys
    )
    return storage


def synced(storage):
    """The directories synced, after all data files were closed and before the put."""
    calls = [(e.op, e.path) for e in storage.trace]
    put = next(i for i, (op, path) in enumerate(calls) if "put_" in op and "/snapshot-" in path)
    closed = [i for i, (op, path) in enumerate(calls) if op == "close" and "/bucket-" in path]
    syncs = {i: path for i, (op, path) in enumerate(calls) if op == "sync_dir"}
    assert max(closed) < min(syncs)
    assert max(syncs) < put
    assert len(set(syncs.values())) == len(syncs), "a directory was synced twice"
    assert {parent_of(calls[i][1]) for i in closed} <= set(syncs.values())
    return {path.removeprefix("/w/db.db/t") for path in syncs.values()}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_all_directories_that_came_into_being_are_synced(inner, mode):
    storage, table = opened(inner)
    table.write(ROWS, mode=mode)
    buckets = {f"/p={p}/q={q}/bucket-{b}" for p in "ab" for q in (1, 2) for b in (0, 1)}
    partitions = {f"/p={p}/q={q}" for p in "ab" for q in (1, 2)}
    assert synced(storage) == buckets | partitions | {"/p=a", "/p=b", ""}


def test_directories_that_hold_committed_files_are_not_synced_again(inner):
    opened(inner)[1].write([r for r in ROWS if (r["p"], r["q"]) == ("a", 1)])
    storage, table = opened(inner, seed=3)
    table.write([r for r in ROWS if (r["p"], r["q"]) in {("a", 1), ("a", 2)}])
    old = {"/p=a/q=1/bucket-0", "/p=a/q=1/bucket-1"}
    new = {"/p=a/q=2/bucket-0", "/p=a/q=2/bucket-1", "/p=a/q=2", "/p=a", ""}
    assert synced(storage) == old | new


def test_names_that_could_not_be_made_durable_are_not_committed(inner, monkeypatch):
    def failing(_files, path):
        raise StorageError(f"Could not sync {path}.", path=path)

    monkeypatch.setattr(MemoryFileIO, "sync_dir", failing)
    held = _all_files(inner)
    with pytest.raises(StorageError, match="sync"):
        opened(inner)[1].write(ROWS)
    assert _all_files(inner) == held


def _all_files(storage, path="/w"):
    found = []
    for status in storage.list_dir(path):
        own = f"{path}/{status.name}"
        found += _all_files(storage, own) if status.is_dir else [own]
    return sorted(found)
