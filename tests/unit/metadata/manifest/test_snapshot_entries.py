"""From a snapshot to its manifests."""

import pytest
from unit.metadata.made import (
    PATHS,
    snapshots_of,
)

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import (
    CommitKind,
    ManifestCache,
    Snapshot,
)
from tidelake.metadata.manifest.manifest_list import read_manifest_list, write_manifest_list
from tidelake.metadata.manifest.snapshot_entries import manifest_files


def test_a_snapshot_s_manifests_are_those_of_both_lists(oracle_dir):
    _, fileio, paths, snapshot = next(
        found for found in snapshots_of(oracle_dir) if found[3].id == 3
    )
    names = [m.file_name for m in manifest_files(fileio, paths, snapshot, ManifestCache(1 << 20))]
    base = read_manifest_list(fileio, paths, snapshot.base_manifest_list)
    delta = read_manifest_list(fileio, paths, snapshot.delta_manifest_list)
    assert names == [m.file_name for m in (*base, *delta)]


@pytest.mark.parametrize("which", ["base_manifest_list", "delta_manifest_list"])
@pytest.mark.parametrize(
    ("name", "expected"), [("manifest-list-0", NotFoundError), ("../list", CorruptError)]
)
def test_a_snapshot_whose_list_is_not_there_is_named(which, name, expected):
    """One flipped bit of the name in the snapshot's file: the list is where it always was."""
    fileio = MemoryFileIO()
    write_manifest_list(fileio, PATHS, "list", [])
    lists = {"base_manifest_list": "list", "delta_manifest_list": "list", which: name}
    damaged = Snapshot(7, 0, commit_user="u", commit_identifier=1, commit_kind=CommitKind.APPEND,
                       time_ms=0, **lists)  # fmt: skip
    with pytest.raises(expected, match=f"{PATHS.snapshot(7)} refers to it") as caught:
        manifest_files(fileio, PATHS, damaged, ManifestCache(1 << 20))
    assert caught.value.context["snapshot"] == PATHS.snapshot(7)
