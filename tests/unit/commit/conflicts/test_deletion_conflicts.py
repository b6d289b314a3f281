"""Which changes of deletion vectors hold against what others committed."""

import pytest

from tidelake.commit.conflicts.deletion_conflicts import check_deletions
from tidelake.commit.delta import DeletionDelta, IndexDelta
from tidelake.errors import ConflictError, InvalidInputError
from tidelake.metadata.index_entry import (
    DELETION_VECTORS,
    HASH,
    DeletionChange,
    IndexEntry,
    IndexFile,
)

ROOT = bytes(12)


def vectors(name, *data_files):
    ranges = tuple((data_file, 1, 24, 2) for data_file in data_files)
    return IndexFile(DELETION_VECTORS, name, 33, len(ranges), ranges)


def entry(name, *data_files, partition=ROOT, bucket=0):
    return IndexEntry(partition, bucket, vectors(name, *data_files))


def check(before, removed=(), added=(), *, live="abcd", gone=""):
    change = DeletionChange(tuple(removed), tuple(vectors(n, *f) for n, f in added))
    deletions = DeletionDelta(ROOT, 0, change, frozenset(gone))
    check_deletions(deletions, before, set(live), table="db.t")


BEFORE = [
    entry("i1", "a", "b"),
    entry("i2", "c"),
    IndexEntry(ROOT, 0, IndexFile(HASH, "h", 8, 2)),
    entry("i1", "x", bucket=1),
]


def test_what_replaces_its_own_index_files_holds():
    check(BEFORE, ["i1"], [("n", "ab")])
    check(BEFORE, ["i1"], [("n", "dba")])
    check(BEFORE, [], [("n", "d")])
    check(BEFORE, ["i1", "i2"], [("n", "abc")])
    check([], [], [("n", "a")])
    check(BEFORE, ["i2"], [], gone="c")
    check(BEFORE, ["i1"], [("n", "b")], gone="ad")
    check(BEFORE, ["i2"], [], live="dba")  # its data file is gone already


@pytest.mark.parametrize(
    ("removed", "added", "live", "gone", "why"),
    [
        (["i0"], [("n", "a")], "abcd", "", "index file 'i0' was replaced"),
        ([], [("n", "a")], "abcd", "", "rows of data file 'a' were deleted"),
        (["i2"], [("n", "ac")], "abcd", "", "rows of data file 'a' were deleted"),
        ([], [], "abcd", "c", "rows of data file 'c' were deleted"),
        ([], [("n", "e")], "abcd", "", "data file 'e' is not live"),
        ([], [("n", "d")], "abcd", "d", "data file 'd' is not live"),
    ],
)
def test_what_another_commit_has_changed_is_a_conflict(removed, added, live, gone, why):
    with pytest.raises(ConflictError, match=why) as caught:
        check(BEFORE, removed, added, live=live, gone=gone)
    assert caught.value.kind == "deletions_changed"


def test_a_vector_of_a_file_that_stays_may_not_be_lost():
    with pytest.raises(InvalidInputError, match="deleted rows would come back"):
        check(BEFORE, ["i1"], [("n", "a")])


def test_only_the_named_files_of_the_bucket_are_replaced():
    deletions = DeletionDelta(ROOT, 0, DeletionChange(("i1",), (vectors("n", "a", "b"),)))
    after = IndexDelta.of(BEFORE, deletions=[deletions]).after({})
    assert [e.file.file_name for e in after] == ["i2", "h", "i1", "n"]
    assert after[2].bucket == 1
    assert IndexDelta.of(BEFORE) is None
    nothing = DeletionDelta(ROOT, 0, DeletionChange())
    assert IndexDelta.of(BEFORE, deletions=[nothing]) is None
    last = DeletionDelta(ROOT, 0, DeletionChange(("i1", "i2")))
    assert IndexDelta.of([BEFORE[0], BEFORE[1]], deletions=[last]).after({}) == []
