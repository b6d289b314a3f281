"""Merging manifests changes how many there are, never what they fold to."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED, added, deleted

from tidelake.commit.manifest_merge import MergeRule, merge_manifests, minor_start, wants_full
from tidelake.metadata import EntryTable, ManifestFile
from tidelake.metadata.data_file import EMPTY_STATS
from tidelake.options import Options

BYTES_PER_ENTRY = 10


class Store:
    """Manifests without files: sizes are counted, not measured."""

    def __init__(self, target_bytes):
        self.tables = {}
        self.target = target_bytes
        self.entries_written = 0

    def put(self, table):
        name = f"m{len(self.tables)}"
        self.tables[name] = table
        self.entries_written += table.num_rows
        gone = int(table["kind"].sum())
        size = table.num_rows * BYTES_PER_ENTRY
        return ManifestFile(name, size, table.num_rows - gone, gone, EMPTY_STATS, 0)

    def read(self, manifest):
        return self.tables[manifest.file_name]

    def write(self, table):
        step = max(1, self.target // BYTES_PER_ENTRY)
        parts = range(0, table.num_rows, step)
        return [self.put(EntryTable(table.batch.slice(i, step), table.partitions)) for i in parts]

    def merge(self, manifests, rule):
        return merge_manifests(manifests, rule, read=self.read, write=self.write, where="t")

    def fold(self, manifests):
        return {e.identity for e in EntryTable.fold(map(self.read, manifests)).to_entries()}


def entries_of(commands):
    """Turn numbers into legal ADD and DELETE entries, commit by commit."""
    live, count = [], itertools.count()
    for command in commands:
        commit = []
        for step in command:
            if step < 0 and live:
                commit.append(deleted(live.pop(step % len(live))))
            else:
                live.append(f"f{next(count)}")
                commit.append(added(live[-1]))
        yield commit


@settings(UNHURRIED, max_examples=examples(60))
@given(
    st.lists(st.lists(st.integers(-5, 3), min_size=1, max_size=4), max_size=25),
    st.sampled_from([20, 60, 10_000]),
    st.integers(2, 6),
    st.sampled_from([40, 200, 10_000]),
)
def test_merging_never_changes_the_live_files(commands, target, min_count, full):
    rule, store, manifests = MergeRule(target, min_count, full), Store(target), ()
    for commit in entries_of(commands):
        merged = store.merge(manifests, rule)
        assert store.fold(merged) == store.fold(manifests)
        manifests = (*merged, store.put(EntryTable.of(commit)))


def test_the_number_of_manifests_stays_bounded_and_entries_are_rewritten_few_times():
    rule, store, manifests = MergeRule(10**9, 30, 10**9), Store(10**9), ()
    counts = []
    for i in range(3_000):
        manifests = (*store.merge(manifests, rule), store.put(EntryTable.of([added(f"f{i}")])))
        counts.append(len(manifests))
    assert max(counts) <= 31
    assert store.entries_written / 3_000 < 12  # merging the whole tail each time would write 50
    assert len(store.fold(manifests)) == 3_000


def test_files_that_come_and_go_leave_nothing():
    rule, store, manifests = MergeRule(10**6, 5, 10**9), Store(10**6), ()
    for i in range(400):
        commit = [added(f"f{i}")] + ([deleted(f"f{i - 1}")] if i else [])
        manifests = (*store.merge(manifests, rule), store.put(EntryTable.of(commit)))
    assert len(store.fold(manifests)) == 1
    assert sum(m.entries_count for m in manifests) < 20


def test_a_full_merge_drops_deletes_and_leaves_large_manifests_without_deleted_files_alone():
    store = Store(100)
    large = [store.put(EntryTable.of([added(f"{n}{i}") for i in range(10)])) for n in "ab"]
    small = store.put(EntryTable.of([deleted("b3"), added("c")]))
    rule = MergeRule(target_bytes=100, min_count=30, full_bytes=20)
    other = store.put(EntryTable.of([added("d")]))
    merged = store.merge((*large, small, other), rule)
    assert merged[0] == large[0]
    assert large[1] not in merged
    assert all(m.deleted_count == 0 for m in merged)
    assert store.fold(merged) == store.fold((*large, small, other))


def test_when_a_full_merge_is_due():
    rule = MergeRule(target_bytes=100, min_count=30, full_bytes=150)

    def m(size, gone=0):
        return ManifestFile("m", size, 1, gone, EMPTY_STATS, 0)

    assert not wants_full([m(90), m(59)], rule)
    assert wants_full([m(90), m(60)], rule)
    assert not wants_full([m(500), m(600)], rule)
    assert wants_full([m(500, gone=1), m(60)], rule)
    assert not wants_full([m(500, gone=1)], rule)


def test_many_unequal_manifests_are_merged_in_the_end():
    rule = MergeRule(target_bytes=10**9, min_count=3, full_bytes=10**9)
    sizes = [3 ** (8 - i) for i in range(7)]
    manifests = [ManifestFile("m", 1, s, 0, EMPTY_STATS, 0) for s in sizes]
    assert minor_start(manifests[:3], rule) is None
    assert minor_start(manifests, rule) == 0


def test_the_rule_follows_the_table_s_options():
    options = {
        "manifest.target-file-size": "1 mb",
        "manifest.merge-min-count": "7",
        "manifest.full-compaction-threshold-size": "2 mb",
    }
    assert MergeRule.of(Options.parse(options)) == MergeRule(1 << 20, 7, 2 << 20)
    assert MergeRule.of(Options.parse({})) == MergeRule(8 << 20, 30, 16 << 20)
