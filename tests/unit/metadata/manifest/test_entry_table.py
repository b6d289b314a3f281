"""Entry tables hold entries without loss, and fold as a dict would."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.metadata.made import UNHURRIED, added, data_file, deleted, partition

from tidelake.errors import CorruptError
from tidelake.metadata import EntryTable, FileKind, ManifestEntry, SimpleStats

NAMES = st.sampled_from(["a", "b", "c"])
MAYBE_LONG = st.none() | st.integers(-(2**63), 2**63 - 1)
MAYBE_TEXTS = st.none() | st.lists(st.text(max_size=3), max_size=3).map(tuple)
STATS = st.builds(
    SimpleStats, st.binary(max_size=9), st.binary(max_size=9), st.lists(MAYBE_LONG).map(tuple)
)
FILES = st.builds(
    data_file,
    st.text(min_size=1, max_size=9),
    level=st.integers(0, 5),
    key_stats=STATS,
    value_stats=STATS,
    extra_files=st.lists(st.text(max_size=3), max_size=2).map(tuple),
    creation_time_ms=MAYBE_LONG,
    delete_row_count=MAYBE_LONG,
    embedded_index=st.none() | st.binary(max_size=4),
    file_source=st.none() | st.integers(0, 1),
    value_stats_cols=MAYBE_TEXTS,
    external_path=st.none() | st.text(max_size=4),
    first_row_id=MAYBE_LONG,
    write_cols=MAYBE_TEXTS,
    write_cols_sequences=st.none() | st.lists(st.integers(0, 9), max_size=2).map(tuple),
)
ENTRIES = st.builds(
    ManifestEntry,
    st.sampled_from(FileKind),
    st.sampled_from([partition("a"), partition("b"), partition(None)]),
    st.integers(-2, 3),
    st.just(4),
    FILES,
)
# few identities, so that they meet
SMALL = st.builds(
    lambda kind, place, level, name, extra, path: ManifestEntry(  # type: ignore[call-arg]
        kind, *place, 1, data_file(name, level=level, extra_files=extra, external_path=path)
    ),
    st.sampled_from(FileKind),
    st.tuples(st.sampled_from([partition("a"), partition("b")]), st.integers(0, 1)),
    st.sampled_from([0, 5]),
    NAMES,
    st.sampled_from([(), ("x.index",)]),
    st.sampled_from([None, "/else"]),
)


@settings(UNHURRIED, max_examples=examples(50))
@given(st.lists(ENTRIES, max_size=5))
def test_entries_come_back_as_they_went_in(entries):
    assert EntryTable.of(entries).to_entries() == entries


@settings(UNHURRIED, max_examples=25)
@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=4))
def test_concat_keeps_order_and_partitions(parts):
    table = EntryTable.concat([EntryTable.of(part) for part in parts])
    assert table.to_entries() == [entry for part in parts for entry in part]
    assert len(set(table.partitions)) == len(table.partitions)


def model_fold(entries):
    live = {}
    for entry in entries:
        if (entry.kind is FileKind.ADD) == (entry.identity in live):
            return None
        if entry.kind is FileKind.ADD:
            live[entry.identity] = entry
        else:
            del live[entry.identity]
    return list(live.values())


@settings(UNHURRIED, max_examples=examples(150))
@given(st.lists(SMALL, max_size=8))
def test_fold_gives_what_a_dict_gives(entries):
    half = len(entries) // 2
    tables = [EntryTable.of(entries[:half]), EntryTable.of(entries[half:])]
    expected = model_fold(entries)
    if expected is None:
        with pytest.raises(CorruptError, match="contradict"):
            EntryTable.fold(tables)
    else:
        assert EntryTable.fold(tables).to_entries() == expected


@settings(UNHURRIED, max_examples=examples(150))
@given(st.lists(SMALL, max_size=10), st.integers(0, 10))
def test_cancelling_a_part_does_not_change_what_all_fold_to(entries, start):
    legal = []  # keep what is legal, so that most examples tell something
    for entry in entries:
        if model_fold([*legal, entry]) is not None:
            legal.append(entry)
    head, tail = EntryTable.of(legal[:start]), EntryTable.of(legal[start:])
    folded = EntryTable.fold([head, EntryTable.cancel([tail])])
    assert sorted(map(str, folded.to_entries())) == sorted(map(str, model_fold(legal)))


def test_the_level_is_part_of_a_file_s_identity():
    upgrade = [added("f"), deleted("f"), added("f", level=5)]
    assert [e.file.level for e in EntryTable.fold([EntryTable.of(upgrade)]).to_entries()] == [5]


def test_contradictions_name_the_file():
    with pytest.raises(CorruptError, match="'data-7' of bucket 0, level 0 is added twice"):
        EntryTable.fold([EntryTable.of([added("data-7"), added("data-7")])])
    with pytest.raises(CorruptError, match=r"'data-7'.*deleted, but does not exist"):
        EntryTable.fold([EntryTable.of([deleted("data-7")])])
    with pytest.raises(CorruptError, match="'data-7'"):
        EntryTable.cancel([EntryTable.of([deleted("data-7"), deleted("data-7")])])


def test_identities_stay_apart_when_they_do_not_fit_one_number():
    wide = [
        added(
            f"f{i}", place=(partition(str(i % 50)), i % 2 * (2**31 - 1)), level=i % 2 * (2**31 - 1)
        )
        for i in range(200)
    ]
    table = EntryTable.of(wide)
    assert EntryTable.fold([table]).num_rows == 200
    gone = EntryTable.of([deleted(e.file.file_name, place=(e.partition, e.bucket),
                                  level=e.file.level) for e in wide[:150]])  # fmt: skip
    assert EntryTable.fold([table, gone]).to_entries() == wide[150:]


def test_columns_are_numpy_where_never_null():
    table = EntryTable.of([added("a", rows=3), added("b", rows=4)])
    assert isinstance(table["row_count"], np.ndarray)
    assert table["row_count"].tolist() == [3, 4]
    assert table["file_name"].to_pylist() == ["a", "b"]
    assert table.take(np.array([False, True]))["file_name"].to_pylist() == ["b"]
    assert table.take(np.array([1, 0]))["file_name"].to_pylist() == ["b", "a"]


def test_twenty_thousand_entries_fold_within_a_frame():
    entries = [
        added(f"data-{i:08}-uuid-uuid-uuid-0.parquet", place=(partition(str(i % 40)), i % 8))
        for i in range(20_000)
    ]
    table = EntryTable.of(entries)
    tables = [
        EntryTable(table.batch.slice(i, 500), table.partitions) for i in range(0, 20_000, 500)
    ]
    best = min(_cpu_ms(lambda: EntryTable.fold(tables)) for _ in range(5))
    assert best < 60, f"{best:.1f} ms"


def _cpu_ms(work):
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
