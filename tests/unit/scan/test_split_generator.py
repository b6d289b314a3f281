"""From files to splits: what is raw, what is merged, how it is packed."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.merge import FileKeys
from tidelake.metadata import EntryTable, FileKind, ManifestEntry
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.manifest.lazy_file_list import FileList
from tidelake.scan import Split, split_from_bytes, split_to_bytes
from tidelake.scan.split_generator import (
    BucketFiles,
    PackRule,
    file_sections,
    merge_splits,
    pack_ordered,
    raw_splits,
    stand_alone,
)
from tidelake.types import parse_type

INT = parse_type("INT NOT NULL")
RULE = PackRule(target_bytes=1 << 40, open_file_cost_bytes=1)


def make_file(name, low, high, *, level=0, sequence=0, deletes=0, size=100):
    return DataFileMeta(
        file_name=name,
        file_size_bytes=size,
        row_count=10,
        min_key=serialize_row((low,), [INT]),
        max_key=serialize_row((high,), [INT]),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=sequence,
        max_sequence_number=sequence + 9,
        schema_id=0,
        level=level,
        delete_row_count=deletes,
    )


def bucket_of(*files):
    return BucketFiles(7, bytes(12), 3, 4, tuple(files))


def shown(splits):
    """Splits as text: `raw a b`, `merge [a | b] [c]`."""
    lines = []
    for split in splits:
        if split.raw:
            lines.append("raw " + " ".join(f.file_name for f in split.files))
        else:
            sections = [
                "[" + " | ".join(" ".join(f.file_name for f in run) for run in section) + "]"
                for section in split.sections
            ]
            lines.append("merge " + " ".join(sections))
    return lines


def keyed_splits(*files, rule=RULE, matches=lambda f: True, by_sequence=True):
    return shown(
        merge_splits(
            bucket_of(*files), rule, matches, keys=FileKeys((INT,)), by_sequence=by_sequence
        )
    )


def test_one_level_above_zero_without_deletes_is_raw():
    files = [make_file("a", 0, 4, level=5), make_file("b", 5, 9, level=5)]
    assert keyed_splits(*files) == ["raw a b"]


def test_deletes_and_unknown_deletes_are_merged():
    assert keyed_splits(make_file("a", 0, 4, level=5, deletes=1)) == ["merge [a]"]
    unknown = dataclasses.replace(make_file("a", 0, 4), delete_row_count=None)
    assert keyed_splits(unknown) == ["merge [a]"]


def test_only_overlapping_files_are_merged():
    files = [
        make_file("low", 0, 9, level=5),
        make_file("mid", 10, 19, level=5),
        make_file("top", 20, 29, level=5),
        make_file("new", 12, 15, sequence=100),
    ]
    assert keyed_splits(*files) == ["raw low top", "merge [mid | new]"]


def test_keys_that_touch_overlap():
    files = [make_file("a", 0, 5), make_file("b", 5, 9, sequence=10), make_file("c", 10, 11)]
    assert keyed_splits(*files) == ["raw c", "merge [a | b]"]


def test_value_pruning_can_make_a_section_raw():
    files = [make_file("old", 0, 9, level=5), make_file("new", 3, 4, sequence=100)]
    new_only = {"matches": lambda f: f.file_name == "new"}
    assert keyed_splits(*files, **new_only) == ["raw new"]
    assert keyed_splits(*files, **new_only, by_sequence=False) == ["merge [old | new]"]
    assert keyed_splits(*files, matches=lambda f: f.file_name == "old") == ["merge [old | new]"]
    assert keyed_splits(*files, matches=lambda f: False) == []


def test_pruning_splits_a_section_where_its_bridge_goes():
    files = [
        make_file("bridge", 0, 99, level=5),
        make_file("a", 1, 2, sequence=100),
        make_file("b", 50, 60, sequence=200),
    ]
    assert keyed_splits(*files, matches=lambda f: f.file_name != "bridge") == ["raw a b"]


def test_files_are_packed_to_the_target_and_sections_stay_whole():
    rule = PackRule(target_bytes=250, open_file_cost_bytes=1)
    files = [make_file(f"f{i}", i * 10, i * 10 + 5, level=5) for i in range(5)]
    assert keyed_splits(*files, rule=rule) == ["raw f0 f1", "raw f2 f3", "raw f4"]
    pairs = [
        make_file(f"{n}{i}", i * 10, i * 10 + 5, sequence=s)
        for i in range(3)
        for n, s in (("x", 0), ("y", 100))
    ]
    assert keyed_splits(*pairs, rule=rule) == [
        "merge [x0 | y0]",
        "merge [x1 | y1]",
        "merge [x2 | y2]",
    ]


def test_small_files_weigh_what_opening_costs():
    rule = PackRule(target_bytes=1000, open_file_cost_bytes=500)
    files = [make_file(f"f{i}", i * 10, i * 10 + 5, level=5, size=1) for i in range(4)]
    assert keyed_splits(*files, rule=rule) == ["raw f0 f1", "raw f2 f3"]


def test_raw_splits_hold_the_files_in_the_order_given_and_as_many_as_fit():
    files = [make_file(name, 0, 0, size=size) for name, size in [("b", 3), ("a", 4), ("c", 9)]]
    assert shown(raw_splits(bucket_of(*files), files, RULE)) == ["raw b a c"]
    rule = PackRule(target_bytes=8, open_file_cost_bytes=1)
    lazy = FileList(EntryTable.of(entry(f) for f in files), np.array([1, 0, 2]))
    for given_files in (tuple(files), lazy[:2], lazy[2:], ()):
        splits = raw_splits(bucket_of(*files), given_files, rule)
        bins = pack_ordered(given_files, lambda f: f.file_size_bytes, target=8)
        assert [list(s.files) for s in splits] == bins


def entry(file):
    return ManifestEntry(FileKind.ADD, bytes(12), 0, 1, file)


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([0, 1, 5]), st.sampled_from([0, 0, 0, 3, None])),
            min_size=1,
            max_size=3,
        ),
        max_size=4,
    )
)
def test_files_stand_alone_on_one_level_above_0_without_deletes(buckets):
    entries = [
        entry(dataclasses.replace(make_file("f", 0, 0, level=level), delete_row_count=deletes))
        for bucket in buckets
        for level, deletes in bucket
    ]
    starts = np.cumsum([0, *map(len, buckets)])[:-1]
    expected = [
        {level for level, _ in bucket} in ({1}, {5}) and {d for _, d in bucket} == {0}
        for bucket in buckets
    ]
    assert stand_alone(EntryTable.of(entries), starts).tolist() == expected


ranges = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 2)), min_size=1, max_size=12
)


@given(ranges, st.integers(50, 400))
def test_every_file_is_read_once_and_overlapping_files_together(spans, target):
    files = [
        make_file(f"f{i}", low, low + width, sequence=i * 10, deletes=int(d == 0))
        for i, (low, width, d) in enumerate(spans)
    ]
    rule = PackRule(target_bytes=target, open_file_cost_bytes=1)
    splits = merge_splits(
        bucket_of(*files), rule, lambda f: True, keys=FileKeys((INT,)), by_sequence=True
    )
    names = [f.file_name for s in splits for f in s.files]
    assert sorted(names) == sorted(f.file_name for f in files)
    place = {f.file_name: (i, s) for i, s in enumerate(splits) for f in s.files}
    for i, (low, width, _) in enumerate(spans):
        for j in range(i):
            other_low, other_width, _ = spans[j]
            if low <= other_low + other_width and other_low <= low + width:
                assert place[f"f{i}"][0] == place[f"f{j}"][0]
                assert not place[f"f{i}"][1].raw
    for split in splits:
        for section in split.sections:
            for run in section if not split.raw else ():
                bounds = [spans[int(f.file_name[1:])] for f in run]
                assert all(a[0] + a[1] < b[0] for a, b in itertools.pairwise(bounds))


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 60))
def test_packing_keeps_order_and_target(weights, target):
    bins = pack_ordered(weights, lambda w: w, target=target)
    assert [w for b in bins for w in b] == weights
    assert all(sum(b) <= target or len(b) == 1 for b in bins)


def test_splits_travel_as_bytes_and_damage_is_noticed():
    sections = file_sections(
        [make_file("a", 0, 9, level=5), make_file("b", 3, 4, sequence=100)], FileKeys((INT,))
    )
    split = Split(7, bytes(12), 3, 4, sections, raw=False)
    data = split_to_bytes(split)
    assert split_from_bytes(data) == split
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 1
        with pytest.raises((CorruptError, UnsupportedError)):
            split_from_bytes(bytes(broken))


def test_a_split_takes_the_deletion_vectors_of_its_own_files():
    known = DeletionRange("/t/index/index-1", 1, 24, 3, 90)
    unknown = DeletionRange("/t/index/index-1", 33, 24, None, 90)
    files = tuple(make_file(name, 0, 9, level=1) for name in "abc")
    deletions = {"a": known, "c": unknown, "of another bucket": known}
    bucket = BucketFiles(7, bytes(12), 3, 4, files, deletions)
    first, second, third = (bucket.split((((f,),),), raw=True) for f in files)
    assert (first.deletions, second.deletions, third.deletions) == (
        {"a": known},
        {},
        {"c": unknown},
    )
    assert [s.row_count for s in (first, second, third)] == [10, 10, 10]
    assert [s.live_row_count for s in (first, second, third)] == [7, 10, None]
    whole = bucket.split(((files,),), raw=True)
    assert split_from_bytes(split_to_bytes(whole)) == whole
    assert whole.part(((files[:2],),)).deletions == {"a": known}


def test_files_on_several_levels_stand_alone_where_deletion_vectors_say_what_is_live():
    def alone(*files, on_any_level):
        entries = EntryTable.of(ManifestEntry(FileKind.ADD, bytes(12), 0, 1, f) for f in files)
        return stand_alone(entries, np.array([0]), on_any_level=on_any_level).tolist()

    high, low = make_file("a", 0, 9, level=5), make_file("b", 0, 9, level=4)
    assert alone(high, low, on_any_level=False) == [False]
    assert alone(high, low, on_any_level=True) == [True]
    with_deletes = make_file("c", 0, 9, level=4, deletes=1)
    assert alone(high, with_deletes, on_any_level=True) == [False]


def test_only_what_shares_keys_with_level_0_is_merged_where_keys_stand_alone():
    files = [
        make_file("old", 0, 99, level=5),
        make_file("left", 0, 30, level=4),
        make_file("right", 31, 60, level=4),
        make_file("new", 40, 45, sequence=20),
        make_file("apart", 200, 300, sequence=20),
    ]
    unknown = dataclasses.replace(make_file("d", 70, 80, level=4), delete_row_count=None)

    def splits(*files, matches=lambda f: True):
        return shown(
            merge_splits(
                bucket_of(*files),
                RULE,
                matches,
                keys=FileKeys((INT,)),
                by_sequence=True,
                alone_above=True,
            )
        )

    assert splits(*files) == ["raw left apart", "merge [old | right | new]"]
    assert keyed_splits(*files) == ["raw apart", "merge [old | left right | new]"]
    assert splits(*files, unknown) == ["raw left apart", "merge [old | right d | new]"]
    found = splits(*files, matches=lambda f: f.file_name == "left")
    assert found == ["raw left"]
