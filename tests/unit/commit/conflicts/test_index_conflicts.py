"""The index of dynamic buckets across commits: united where it can be, refused where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from tidelake.commit.conflicts.index_conflicts import HashIndexChanges
from tidelake.commit.delta import IndexDelta
from tidelake.errors import ConflictError, NotFoundError
from tidelake.metadata import CommitMessage
from tidelake.metadata.index_entry import (
    DELETION_VECTORS,
    HASH,
    IndexChange,
    IndexEntry,
    IndexFile,
)

P, Q = b"p", b"q"


class Files:
    """Index files by name, and the entries of each snapshot."""

    def __init__(self, snapshots):
        self.hashes = {}
        self.snapshots = {}
        for number, buckets in snapshots.items():
            self.snapshots[number] = [self.entry(place, h) for place, h in buckets.items()]

    def entry(self, place, hashes):
        name = f"index-{place[0].decode()}-{place[1]}-{'-'.join(map(str, hashes))}"
        self.hashes[name] = np.array(hashes, np.int32)
        return IndexEntry(*place, IndexFile(HASH, name, 4 * len(hashes), len(hashes)))  # type: ignore[call-arg]

    def read(self, entry):
        if entry.file.file_name not in self.hashes:
            raise NotFoundError("gone", kind="file")
        return self.hashes[entry.file.file_name]

    def entries_of(self, number):
        if number not in self.snapshots:
            raise NotFoundError("gone", kind="snapshot")
        return self.snapshots[number]

    def plan(self, *changes, is_sorted=False):
        """(place, base snapshot, hashes known, hashes added) each."""
        messages = []
        for place, base, known, added in changes:
            if is_sorted and added:
                told = np.array(added, "<i4").tobytes()
                file = self.entry(place, sorted([*known, *added])).file
                change = IndexChange(base, file, len(known), told)
            else:
                file = self.entry(place, [*known, *added]).file if added else None
                change = IndexChange(base, file, len(known) if added else 0)
            messages.append(CommitMessage(*place, -1, index=change))  # type: ignore[call-arg]
        return HashIndexChanges(messages, entries_of=self.entries_of, read=self.read, table="t")

    def after(self, plan, number):
        """The hashes of each bucket after the commit on a snapshot; None where nothing changes."""
        before = self.snapshots.get(number, [])
        delta = IndexDelta.of(before, hash_indexes=plan.against(before, number))
        if delta is None:
            return None
        written = {b: self.entry(b, h.tolist()).file for b, h in delta.unwritten.items()}
        return {e.bucket_id: self.read(e).tolist() for e in delta.after(written)}


def test_nothing_new_changes_nothing():
    files = Files({1: {(P, 0): [1]}})
    assert files.after(files.plan(((P, 0), 1, [1], [])), 1) is None
    assert files.after(files.plan(), 1) is None


def test_new_files_take_the_place_of_the_old_ones():
    files = Files({1: {(P, 0): [1], (Q, 0): [1]}})
    plan = files.plan(((P, 0), 1, [1], [2]), ((P, 1), 1, [], [3]))
    assert files.after(plan, 1) == {(P, 0): [1, 2], (Q, 0): [1], (P, 1): [3]}


def test_the_keys_of_both_writers_are_kept_where_files_are_sorted():
    files = Files({1: {(P, 0): [3]}, 2: {(P, 0): [3, 5, 2], (Q, 3): [9]}})
    plan = files.plan(((P, 0), 1, [3], [2, 1]), is_sorted=True)
    assert files.after(plan, 2) == {(P, 0): [3, 5, 2, 1], (Q, 3): [9]}
    other = files.plan(((P, 1), 1, [7], [5, 2]), is_sorted=True)
    with pytest.raises(ConflictError, match="is now in bucket 0"):
        files.after(other, 2)


def test_the_keys_of_both_writers_are_kept():
    files = Files({1: {(P, 0): [1]}, 2: {(P, 0): [1, 5, 2], (Q, 3): [9]}})
    plan = files.plan(((P, 0), 1, [1], [2, 7]))
    assert files.after(plan, 2) == {(P, 0): [1, 5, 2, 7], (Q, 3): [9]}
    fresh = files.plan(((P, 0), 0, [], [5]))
    assert files.after(fresh, 2) == {(P, 0): [1, 5, 2], (Q, 3): [9]}


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({(P, 0): [1], (P, 1): [7]}, "in bucket 1"),  # the other chose another bucket
        ({(P, 0): [5, 7]}, "overwritten"),  # 1 is no longer there
        ({(Q, 0): [1]}, "overwritten"),
        ({}, "overwritten"),
    ],
)
def test_a_choice_that_no_longer_holds_is_refused(now, why):
    files = Files({1: {(P, 0): [1]}, 2: now})
    with pytest.raises(ConflictError, match=why) as error:
        files.after(files.plan(((P, 0), 1, [1], [7])), 2)
    assert error.value.kind == "bucket_assignment"


def test_a_writer_of_known_keys_only_notices_an_overwrite_too():
    files = Files({1: {(P, 0): [1]}, 2: {(P, 0): [4]}, 3: {(P, 0): [1, 4]}})
    plan = files.plan(((P, 0), 1, [1], []))
    with pytest.raises(ConflictError, match="overwritten"):
        files.after(plan, 2)
    assert files.after(plan, 3) is None


def test_another_partition_s_changes_do_not_matter():
    files = Files({1: {(P, 0): [1]}, 2: {(P, 0): [1], (Q, 5): [7]}})
    plan = files.plan(((P, 0), 1, [1], [7]))
    assert files.after(plan, 2) == {(P, 0): [1, 7], (Q, 5): [7]}


def test_what_the_writer_went_by_must_still_be_there():
    files = Files({2: {(P, 0): [1]}})
    with pytest.raises(ConflictError, match="snapshot 1, which it began from, has expired"):
        files.after(files.plan(((P, 0), 1, [1], [7])), 2)
    files = Files({1: {(P, 0): [1]}, 2: {(P, 0): [1, 2]}})
    del files.hashes["index-p-0-1"]
    with pytest.raises(ConflictError, match="'index-p-0-1', which it read, has expired"):
        files.after(files.plan(((P, 0), 1, [1], [7])), 2)


def test_an_overwrite_drops_the_index_of_what_it_replaces():
    files = Files({1: {(P, 0): [1], (P, 1): [2], (Q, 0): [3]}})
    other = IndexEntry(Q, 0, IndexFile(DELETION_VECTORS, "v", 1, 1))
    before = [*files.snapshots[1], other]
    new = files.plan(((P, 0), 0, [], [8])).files
    after = IndexDelta.of(before, dropped=frozenset([P]), hash_indexes=new).after({})
    assert [(e.partition, e.bucket, e.file.index_type) for e in after] == [
        (Q, 0, HASH), (Q, 0, DELETION_VECTORS), (P, 0, HASH),
    ]  # fmt: skip
    assert files.read(after[-1]).tolist() == [8]
    assert IndexDelta.of(before, dropped=frozenset([b"r"])) is None
    assert IndexDelta.of(before, dropped=frozenset([P, Q])).after({}) == []


def test_new_hashes_that_the_message_has_are_not_read_from_its_file():
    files = Files({1: {(P, 0): [1, 2]}, 2: {(P, 0): [1, 2, 5]}})
    changes = files.plan(((P, 0), 1, [1, 2], [3]), is_sorted=True)
    [own] = {f.file_name for f in changes.files.values()}
    del files.hashes[own]
    found = changes.against(files.entries_of(2), 2)
    assert sorted(found[P, 0].tolist()) == [1, 2, 3, 5]
