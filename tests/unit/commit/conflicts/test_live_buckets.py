"""The live files of some partitions and buckets."""

import dataclasses

from unit.commit.commit_world import (
    EMPTY_ROW,
    A,
    World,
    message,
    partition,
    partitioned_world,
)
from unit.metadata.made import publish

from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.metadata import ManifestCache, Snapshot
from tidelake.metadata.manifest.manifest_list import write_manifest_list
from tidelake.metadata.manifest.snapshot_entries import manifest_files


def test_live_files_can_be_asked_for_by_partition_and_bucket():
    world = partitioned_world()
    world.committer(2).commit([message("a1", place=(A, 1))], user="u", identifier=2)
    newest = world.log.latest()

    def names(**k):  # fmt: skip
        return set(live_in(world.context(3), newest, **k)["file_name"].to_pylist())

    assert names() == {"a0", "a1", "b0", "c0"}
    assert names(partitions={A}) == {"a0", "a1"}
    assert names(buckets={1}) == {"a1"}
    assert names(partitions={A}, buckets={0}) == {"a0"}
    assert names(partitions={partition("zzz")}) == set()


def test_manifests_that_do_not_say_their_buckets_are_read():
    world = World()
    world.committer(1).commit([message("a", place=(EMPTY_ROW, 1))], user="u", identifier=1)
    snapshot = world.log.latest()
    listed = manifest_files(world.fileio, world.paths, snapshot, ManifestCache(1 << 20))
    names = ("min_bucket", "max_bucket", "min_level", "max_level")
    old = [dataclasses.replace(m, **dict.fromkeys(names)) for m in listed]
    name, size = write_manifest_list(world.fileio, world.paths, "manifest-list-old-0", old)
    document = snapshot.to_document() | {
        "id": 2,
        "deltaManifestList": name,
        "deltaManifestListSize": size,
    }
    publish(world.log, Snapshot.from_document(document, path="x"))
    found = live_in(world.context(2), world.log.latest(), buckets={1})
    assert found["file_name"].to_pylist() == ["a"]
