"""Compactions that mark the older row of a key in a deletion vector, bucket by bucket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proving.one_key import merged
from sizes import examples
from unit.store.bucket_world import Bucket, kinds, schema_of

import tidelake.store.lsm.read_file as read_file
from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import RowKind

MARKS = {"deletion-vectors.enabled": "true"}
SMALL = {"num-sorted-run.compaction-trigger": "3", "num-levels": "5"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.name.aggregate-function": "last_non_null_value",
    },
}
ADD, GONE = int(RowKind.INSERT), int(RowKind.DELETE)


def write(
    bucket: Bucket, rows: list[tuple[int, str | None, int | None]], kind=None, **options: str
):
    schema = bucket.schema
    if options:
        bucket.schema = schema_of(options={**schema.options, **options})
    writer = bucket.writer()
    bucket.schema = schema
    writer.write(bucket.batch(rows), None if kind is None else kinds(*kind))
    message = writer.prepare_commit()
    writer.close()
    bucket.commit(message)
    return message


def compact(bucket: Bucket, *, full: bool):
    writer = bucket.writer()
    writer.compact(full)
    message = writer.prepare_commit()
    writer.close()
    bucket.commit(message)
    return message


def many(keys: range, v: int = 0) -> list[tuple[int, str, int]]:
    return [(k, f"n{k}", v) for k in keys]


def held(bucket: Bucket) -> dict[int, tuple[str | None, int | None]]:
    """What is seen without a merge; each key once, and no delete."""
    rows = bucket.raw()
    assert {row["_VALUE_KIND"] for row in rows} <= {0, 2}
    found = {row["k"]: (row["name"], row["v"]) for row in rows}
    assert len(found) == len(rows)
    return found


def expected(engine: str, written: list[tuple[int, tuple[int, str | None, int | None]]]):
    by_key: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    for kind, (k, name, v) in written:
        row = (("+I", "-U", "+U", "-D")[kind], {"k": k, "name": name, "v": v})
        by_key.setdefault(k, []).append(row)
    state = {}
    for key, rows in by_key.items():
        if engine == "sequence":
            rows = sorted(rows, key=lambda r: -1 if r[1]["v"] is None else r[1]["v"])
        if engine in ("deduplicate", "sequence"):
            found = rows[-1]
        else:
            found = merged(rows, ENGINES[engine], keys=("k",))
        if found is not None and found[0] in ("+I", "+U"):
            state[key] = (found[1]["name"], found[1]["v"])
    return state


@st.composite
def histories(draw: Any) -> list[tuple[str, list[tuple[int, str | None, int | None, bool]]]]:
    rows = st.tuples(
        st.integers(0, 20),
        st.none() | st.sampled_from(["a", "b"]),
        st.none() | st.integers(0, 5),
        st.integers(0, 3).map(lambda n: n == 0),
    )
    how = st.sampled_from(["write", "write", "write", "write-only", "compact", "full"])
    return draw(
        st.lists(st.tuples(how, st.lists(rows, min_size=1, max_size=9)), min_size=1, max_size=9)
    )


@pytest.mark.parametrize("engine", sorted(ENGINES))
@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.sampled_from(["1 b", "1 kb", "1 mb"]), st.sampled_from(["true", "false"]))
def test_files_above_level_0_hold_each_row_once_and_whole(engine, history, target, bitmap64):
    options = {**MARKS, **SMALL, **ENGINES[engine], "target-file-size": target}
    bucket = Bucket(schema_of(options={**options, "deletion-vectors.bitmap64": bitmap64}))
    written: list[tuple[int, tuple[int, str | None, int | None]]] = []
    for how, rows in [*history, ("write", [(99, "z", 0, False)])]:
        if how in ("compact", "full"):
            compact(bucket, full=how == "full")
        else:
            # deletes of other engines take values back, or need sequence numbers to be kept
            kind = [GONE if gone and engine == "deduplicate" else ADD for *_, gone in rows]
            values = [tuple(row[:3]) for row in rows]
            more = {"write-only": "true"} if how == "write-only" else {}
            write(bucket, values, kind, **more)
            written += zip(kind, values, strict=True)
        if how != "write-only":
            assert not any(f.level == 0 for f in bucket.live)
            assert held(bucket) == expected(engine, written)


def test_a_write_marks_what_it_replaces_and_rewrites_nothing():
    bucket = Bucket(schema_of(options=MARKS))
    write(bucket, many(range(10_000)))
    [old] = bucket.live
    message = write(bucket, [(5, "x", 1), (7, "n7", 1), (20_000, "new", 1)], [0, GONE, 0])
    assert message.compact_before == message.new_files
    assert old in bucket.live
    assert bucket.deleted(old) == [5, 7]
    [new] = [f for f in bucket.live if f is not old]
    assert [row["k"] for row in bucket.stored(new)] == [5, 20_000]
    assert new.delete_row_count == 0
    assert len(bucket.vectors) == 1


def test_rows_of_a_delete_alone_leave_no_file():
    bucket = Bucket(schema_of(options=MARKS))
    write(bucket, many(range(10_000)))
    before = list(bucket.live)
    message = write(bucket, many(range(20, 30)), [GONE] * 10)
    assert message.compact_after == ()
    assert bucket.live == before
    assert bucket.deleted(before[0]) == list(range(20, 30))
    assert held(bucket).keys() == set(range(10_000)) - set(range(20, 30))


def test_a_row_that_is_deleted_is_not_found_again():
    bucket = Bucket(schema_of(options={**MARKS, **ENGINES["aggregation"]}))
    write(bucket, many(range(10_000), 1))
    write(bucket, [(5, None, 10)])
    write(bucket, [(5, None, 100)])
    assert held(bucket)[5] == ("n5", 111)
    write(bucket, many(range(0, 10_000, 2), 1))
    assert held(bucket)[5] == ("n5", 111)
    assert held(bucket)[4] == ("n4", 2)


def test_a_level_0_file_is_lifted_as_it_is_and_still_marks():
    bucket = Bucket(schema_of(options={**MARKS, "target-file-size": "1 b"}))
    write(bucket, many(range(10_000)))
    old = list(bucket.live)
    message = write(bucket, [(5, "x", 1), (9_000, "y", 1)])
    [new], [after] = message.new_files, message.compact_after
    assert after.file_name == new.file_name
    assert after.level > 0
    assert sum(len(bucket.deleted(f)) for f in old) == 2
    assert held(bucket)[5] == ("x", 1)


def test_a_file_with_deletes_is_not_lifted():
    bucket = Bucket(schema_of(options={**MARKS, "target-file-size": "1 b"}))
    write(bucket, many(range(100)))
    message = write(bucket, [(5, "x", 1), (9, "y", 1)], [0, GONE])
    assert message.compact_after[0].file_name != message.new_files[0].file_name
    assert all(f.delete_row_count == 0 for f in bucket.live)
    assert 9 not in held(bucket)


def test_the_vector_of_a_file_that_is_compacted_away_goes():
    bucket = Bucket(schema_of(options=MARKS))
    write(bucket, many(range(10_000)))
    write(bucket, many(range(100), 1))
    assert bucket.vectors
    message = compact(bucket, full=True)
    assert message.deletions.added == ()
    assert bucket.vectors == []
    assert len(bucket.live) == 1
    assert held(bucket) == {k: (f"n{k}", 1 if k < 100 else 0) for k in range(10_000)}


def test_a_full_compaction_writes_marked_files_of_the_last_level_anew_one_by_one():
    bucket = Bucket(schema_of(options={**MARKS, "target-file-size": "1 b"}))
    write(bucket, many(range(150_000)))
    files = sorted(bucket.live, key=lambda f: f.min_sequence_number)
    assert len(files) > 2
    write(bucket, [(5, "", 0), (149_999, "", 0)], [GONE, GONE])
    message = compact(bucket, full=True)
    assert set(message.compact_before) == {files[0], files[-1]}
    assert [f.row_count for f in message.compact_after] == [
        files[0].row_count - 1,
        files[-1].row_count - 1,
    ]
    assert bucket.vectors == []
    assert held(bucket).keys() == set(range(150_000)) - {5, 149_999}
    assert compact(bucket, full=True).is_empty


def test_a_lifted_file_keeps_its_vector():
    bucket = Bucket(schema_of(options={**MARKS, "num-levels": "4", "target-file-size": "1 b"}))
    write(bucket, many(range(10_000)), **{"num-levels": "3"})
    write(bucket, [(5, "", 0)], [GONE], **{"num-levels": "3"})
    [old] = bucket.live
    assert old.level == 2
    compact(bucket, full=True)
    assert [(f.file_name, f.level) for f in bucket.live] == [(old.file_name, 3)]
    assert bucket.deleted(bucket.live[0]) == [5]
    assert 5 not in held(bucket)


def test_several_messages_of_one_writer_follow_each_other():
    bucket = Bucket(schema_of(options=MARKS))
    writer = bucket.writer()
    for number in range(5):
        writer.write(bucket.batch(many(range(number * 10, 1_000, number + 1), number)))
        message = writer.prepare_commit()
        bucket.commit(message)
    writer.close()
    state: dict[int, tuple[str, int]] = {}
    for number in range(5):
        state |= {k: (f"n{k}", number) for k in range(number * 10, 1_000, number + 1)}
    assert held(bucket) == state


@pytest.fixture
def columns_read(monkeypatch) -> dict[str, set[tuple[str, ...]]]:
    """Which columns are read of each file."""
    seen: dict[str, set[tuple[str, ...]]] = {}
    original = read_file.read_batches

    def read_batches(fileio, path, fields, **named):
        seen.setdefault(path, set()).add(tuple(f.name for f in fields))
        return original(fileio, path, fields, **named)

    monkeypatch.setattr(read_file, "read_batches", read_batches)
    return seen


@pytest.mark.parametrize(
    ("options", "whole"),
    [({}, False), ({"sequence.field": "v"}, True), ({"changelog-producer": "lookup"}, True)],
)
def test_what_is_replaced_is_only_read_in_whole_where_its_values_matter(
    columns_read, options, whole
):
    bucket = Bucket(schema_of(options={**MARKS, **options}))
    write(bucket, many(range(10_000)))
    [old] = bucket.live
    columns_read.clear()
    write(bucket, [(5, "x", 1)])
    keys = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "k")
    assert columns_read[bucket.path(old)] == {keys} | ({(*keys, "name", "v")} if whole else set())


def test_a_failed_compaction_loses_no_row_and_can_be_tried_again():
    """Whichever call fails; marks of a compaction that did not happen would hide rows."""
    failed = 0
    for mode in (FaultMode.EIO_BEFORE, FaultMode.EIO_AFTER):
        for call in range(1, 45):
            memory = MemoryFileIO()
            options = {**MARKS, **ENGINES["aggregation"]}
            bucket = Bucket(schema_of(options=options), fileio=memory)
            write(bucket, many(range(2_000), 1))
            write(bucket, many(range(5, 9), 1))
            bucket.fileio = FaultyFileIO(memory, {call: mode})
            writer = bucket.writer()
            try:
                writer.write(bucket.batch(many(range(7, 30), 1)))
                message = writer.prepare_commit()
            except StorageError:
                failed += 1
                message = writer.prepare_commit()
            writer.close()
            bucket.fileio = memory
            bucket.commit(message)
            v = {k: 1 + (k in range(5, 9)) + (k in range(7, 30)) for k in range(2_000)}
            assert held(bucket) == {k: (f"n{k}", v[k]) for k in range(2_000)}, (mode, call)
    assert failed > 10


def test_index_files_of_a_writer_that_is_given_up_are_deleted():
    memory = MemoryFileIO()
    bucket = Bucket(schema_of(options=MARKS), fileio=memory)
    write(bucket, many(range(2_000)))
    before = {s.name for s in memory.list_dir("/t/index")} if bucket.vectors else set()
    calls = 0
    for call in range(1, 60):
        bucket.fileio = FaultyFileIO(memory, {call: FaultMode.EIO_AFTER})
        writer = bucket.writer()
        try:
            writer.write(bucket.batch([(5, "x", 1)]))
            writer.prepare_commit()
        except StorageError:
            calls += 1
            bucket.fileio.faults = {}
            writer.close()
            left = {s.name for s in memory.list_dir("/t/index")} - before
            assert not left, call
        else:
            break
    assert calls


def test_a_damaged_vector_stops_the_compaction_that_needs_it():
    bucket = Bucket(schema_of(options=MARKS))
    write(bucket, many(range(10_000)))
    write(bucket, [(5, "x", 1)])
    [vector] = bucket.vectors
    path = bucket.context.paths.index_file(b"\0" * 12, 0, vector.file_name)
    data = bytearray(bucket.fileio.read_bytes(path))
    data[-6] ^= 1
    bucket.fileio.replace(path, bytes(data))
    with pytest.raises(CorruptError, match=vector.file_name):
        write(bucket, [(5, "y", 1)])
    bucket.fileio.delete(path)
    with pytest.raises(NotFoundError, match=vector.file_name):
        compact(bucket, full=True)
