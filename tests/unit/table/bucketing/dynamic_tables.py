"""What tests of dynamic buckets look at: the index, and the keys in the files."""

from __future__ import annotations

import pyarrow.parquet as pq

from tidelake.codec.bucket import hash_rows
from tidelake.metadata.index.hash_index import read_hash_index
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.types import parse_type


def hashes_named(table):
    """The hashes in the index, sorted, by partition and bucket."""
    handle = table.handle
    snapshot = handle.snapshots.latest()
    entries = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    return {
        (e.partition, e.bucket): sorted(read_hash_index(handle.fileio, handle.paths, e).tolist())
        for e in entries
    }


def hashes_held(table, key, key_type):
    """The hashes of the keys in the live files, by partition and bucket."""
    handle = table.handle
    held = {}
    live = live_entries(handle.fileio, handle.paths, handle.snapshots.latest(), handle.manifests)
    for e in live.to_entries():
        assert e.total_buckets == -1
        path = handle.paths.data_file(e.partition, e.bucket, e.file)
        keys = pq.read_table(path, columns=[key]).column(key).combine_chunks()
        hashes = hash_rows([keys], [parse_type(key_type)]).tolist()
        held.setdefault((e.partition, e.bucket), set()).update(hashes)
    return held


def check_index(table, *, key="k", key_type=None):
    """See that every key of a bucket is in its index, and none in two; the hashes named."""
    named = hashes_named(table)
    key_type = key_type or str(table.handle.schema.field(key).type)
    for place, hashes in hashes_held(table, key, key_type).items():
        assert hashes <= set(named[place]), place
    for partition in {p for p, _ in named}:
        own = [h for (p, _), hashes in named.items() if p == partition for h in hashes]
        assert len(own) == len(set(own))
    return named


def left_over(table):
    """Index files and index manifests that no snapshot names."""
    handle = table.handle
    named = set()
    for number in handle.snapshots.ids():
        snapshot = handle.snapshots.load(number)
        entries = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
        named |= {snapshot.index_manifest, *(e.file.file_name for e in entries)}
    there = {f.name for f in handle.fileio.list_dir(f"{handle.paths.location}/index")}
    manifests = {f.name for f in handle.fileio.list_dir(handle.paths.manifest_dir)}
    return (there | {m for m in manifests if m.startswith("index-")}) - named
