"""A compaction is committed only if it changes nothing that a reader sees."""

import pytest
from unit.metadata.made import BIGINT, EMPTY_ROW, added, data_file, partition

from tidelake.commit.conflicts.file_conflicts import (
    added_bucket_counts,
    check_bucket_counts,
    check_compaction,
    live_bucket_counts,
)
from tidelake.commit.delta import Compaction
from tidelake.errors import ConflictError
from tidelake.merge import FileKeys
from tidelake.metadata.data_file import FileKind, ManifestEntry, levels_digest
from tidelake.metadata.manifest.entry_table import EntryTable


def check(live, *, before=(), after=(), total_buckets=1, keyed=True, seen=(), clustered=False):
    compaction = Compaction(
        EMPTY_ROW, 0, total_buckets, tuple(before), tuple(after), lookup_digests=seen
    )
    keys = FileKeys((BIGINT,), clustered) if keyed else None
    check_compaction(compaction, [_entry(f) for f in live], keys=keys, table="db.t")


def _entry(file):
    entry = added(place=(EMPTY_ROW, 0))
    return type(entry)(entry.kind, entry.partition, entry.bucket, 1, file)


def f(name, keys, sequences=(0, 9), level=0):
    return data_file(name, keys=keys, sequences=sequences, level=level)


A, B = f("a", (1, 5)), f("b", (3, 9), (10, 19))


def test_a_compaction_of_live_files_fits():
    check([A, B], before=[A, B], after=[f("out", (1, 9), (0, 19), level=5)])


def test_a_file_that_is_gone_is_a_conflict():
    with pytest.raises(ConflictError, match="'b' is not live now"):
        check([A], before=[A, B], after=[f("out", (1, 9), level=5)])


def test_a_file_that_moved_to_another_level_is_gone():
    with pytest.raises(ConflictError, match="'a' is not live now"):
        check([f("a", (1, 5), level=5)], before=[A], after=[f("out", (1, 5), level=5)])


def test_a_result_that_is_there_already_is_a_conflict():
    out = f("out", (1, 5), level=5)
    with pytest.raises(ConflictError, match="'out' exists already"):
        check([A, out], before=[A], after=[out])


def test_another_number_of_buckets_is_a_conflict():
    with pytest.raises(ConflictError, match="another number of buckets"):
        check([A], before=[A], total_buckets=2)


@pytest.mark.parametrize(
    ("keys", "fits"), [((6, 9), True), ((5, 9), False), ((0, 1), False), ((2, 3), False)]
)
def test_files_of_one_level_stay_disjoint(keys, fits):
    there = f("there", keys, level=4)
    args = {"before": [A], "after": [f("out", (1, 5), level=4)]}
    if fits:
        check([A, there], **args)
    else:
        with pytest.raises(ConflictError, match="level 4 holds files of these keys"):
            check([A, there], **args)


def test_files_of_other_levels_may_hold_the_same_keys():
    check([A, f("there", (1, 5), level=5)], before=[A], after=[f("out", (1, 5), level=4)])


def test_files_that_a_compaction_makes_itself_must_be_disjoint_too():
    with pytest.raises(ConflictError, match="level 5"):
        check([A], before=[A], after=[f("x", (1, 3), level=5), f("y", (3, 5), level=5)])


@pytest.mark.parametrize(
    ("keys", "sequences", "fits"),
    [
        ((3, 9), (20, 29), True),  # newer: wins before and after
        ((3, 9), (10, 29), True),
        ((3, 9), (9, 9), False),  # a tie of sequence numbers
        ((3, 9), (4, 29), False),  # some of its rows are older than rows compacted
        ((6, 9), (4, 5), True),  # other keys
    ],
)
def test_a_file_that_it_did_not_see_with_older_rows_is_a_conflict(keys, sequences, fits):
    unseen = f("unseen", keys, sequences)
    args = {"before": [A], "after": [f("out", (1, 5), level=5)]}
    if fits:
        check([A, unseen], **args)
    else:
        with pytest.raises(ConflictError, match="'unseen' was added with rows as old"):
            check([A, unseen], **args)


@pytest.mark.parametrize(("keys", "fits"), [((3, 9), False), ((6, 9), True)])
def test_a_run_between_level_0_and_the_result_was_not_seen_and_is_a_conflict(keys, fits):
    """What was compacted would come to lie beneath rows that lay beneath it."""
    args = {"before": [A], "after": [f("out", (1, 5), level=5)]}
    live = [A, f("unseen", keys, (0, 9), level=4)]
    if fits:
        check(live, **args)
    else:
        with pytest.raises(ConflictError, match="level 4 holds files of these keys now"):
            check(live, **args)


OLD = f("old", (20, 29), level=5)


@pytest.mark.parametrize(
    ("others", "fits"),
    [
        ([OLD], True),
        ([OLD, f("new", (1, 5), (30, 39))], True),  # level 0 is merged later
        ([], False),
        ([OLD, f("more", (30, 39), level=4)], False),
        ([f("old", (20, 29), level=4)], False),
        ([f("other", (20, 29), level=5)], False),
    ],
)
def test_a_compaction_that_looked_keys_up_fits_the_levels_that_it_saw(others, fits):
    args = {"before": [A], "after": [f("out", (1, 5), level=3)]}
    args["seen"] = (levels_digest([OLD]),)
    if fits:
        check([A, *others], **args)
    else:
        with pytest.raises(ConflictError, match="looked keys up in files that have changed"):
            check([A, *others], **args)


def test_in_an_append_table_keys_do_not_matter():
    a, b = data_file("a"), data_file("b")
    check([a, b], before=[a], after=[data_file("out")], keyed=False)


def test_the_message_says_which_bucket_and_what_to_do():
    with pytest.raises(ConflictError, match=r"bucket 0 of table 'db.t' was dropped.*compact again"):
        check([], before=[A])


# -- the number of buckets of a partition
NORTH, SOUTH = partition("n"), partition("s")


def entries(*made):
    """Of (kind, partition, bucket, total_buckets, file name)."""
    return EntryTable.of(
        ManifestEntry(kind, place, bucket, total, data_file(name))
        for kind, place, bucket, total, name in made
    )


def test_live_files_say_how_many_buckets_a_partition_has_without_being_distinguished():
    add, delete = FileKind.ADD, FileKind.DELETE
    tables = [
        entries((add, NORTH, 0, 2, "a0"), (add, NORTH, 1, 2, "a1"), (add, SOUTH, 0, 2, "b0")),
        entries(
            (delete, NORTH, 0, 2, "a0"), (add, NORTH, 0, 3, "c0"), (add, NORTH, -2, -2, "waits")
        ),
        entries((delete, NORTH, 1, 2, "a1")),
    ]
    assert live_bucket_counts(tables) == {NORTH: [3], SOUTH: [2]}
    assert live_bucket_counts(tables[:2]) == {NORTH: [2, 3], SOUTH: [2]}
    assert live_bucket_counts([entries((add, NORTH, 0, 2, "x"), (delete, NORTH, 0, 2, "x"))]) == {
        NORTH: []
    }
    assert added_bucket_counts(tables[1:]) == {NORTH: [3]}
    assert live_bucket_counts([]) == {}


def test_files_of_another_number_of_buckets_do_not_come_beside_those_that_live():
    new_files = entries((FileKind.ADD, NORTH, 0, 2, "new"))
    check_bucket_counts(new_files, {NORTH: [2], SOUTH: [7]}, table="db.t")
    check_bucket_counts(new_files, {NORTH: []}, table="db.t")
    with pytest.raises(ConflictError, match="with 3 buckets while rows for 2"):
        check_bucket_counts(new_files, {NORTH: [3]}, table="db.t")


def test_files_that_other_columns_order_may_share_keys_on_a_level():
    before = data_file("new", keys=(1, 9), sequences=(10, 19))
    there, after = (data_file(name, level=1, keys=(1, 9)) for name in ("there", "after"))
    seen = (levels_digest([there]),)
    given = {"before": [before], "after": [after], "seen": seen}
    check([before, there], **given, clustered=True)
    with pytest.raises(ConflictError, match="level 1 holds files of these keys now"):
        check([before, there], **given)
    other = data_file("other", level=1, keys=(1, 9))
    with pytest.raises(ConflictError, match="files that have changed"):
        check([before, there, other], **given, clustered=True)
