"""Compactions that look rows up in older levels, bucket by bucket."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.store.bucket_world import Bucket, schema_of

from tidelake.errors import NotFoundError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD, held_bytes
from tidelake.merge import rows_with_keys
from tidelake.store.lsm import lookup
from tidelake.telemetry import UNLIMITED, Env, Memory
from tidelake.testing import FaultMode, FaultyFileIO
from tidelake.types import DataField, parse_type

FIRST_ROW = {"merge-engine": "first-row"}
KEY_FIELDS = [SEQUENCE_FIELD, KIND_FIELD, DataField(0, "k", parse_type("BIGINT"))]
SMALL = {"num-sorted-run.compaction-trigger": "3", "num-levels": "5"}


def above_level_0(bucket: Bucket) -> list[tuple[int, int]]:
    """Keys and values of all files but those of level 0."""
    files = [f for f in bucket.live if f.level]
    return [(row["k"], row["v"]) for file in files for row in bucket.stored(file)]


def write(bucket: Bucket, rows: list[tuple[int, int]], **options: str) -> Any:
    schema = bucket.schema
    if options:
        bucket.schema = schema_of(options={**schema.options, **options})
    writer = bucket.writer()
    bucket.schema = schema
    writer.write(bucket.batch([(k, f"n{k}", v) for k, v in rows]))
    message = writer.prepare_commit()
    writer.close()
    bucket.commit(message)
    return message


WRITES = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 20), st.integers()), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=9,
).map(lambda writes: [(o, [(k, v % 2**31) for k, v in rows]) for o, rows in writes])


@settings(max_examples=examples(60), deadline=None)
@given(WRITES, st.sampled_from(["1 b", "1 kb", "1 mb"]))
def test_first_row_keeps_one_row_of_a_key_above_level_0(writes, target):
    bucket = Bucket(schema_of(options={**FIRST_ROW, **SMALL, "target-file-size": target}))
    first: dict[int, int] = {}
    for only_write, rows in [*writes, (False, [(99, 0)])]:
        write(bucket, rows, **({"write-only": "true"} if only_write else {}))
        for key, value in rows:
            first.setdefault(key, value)
        if not only_write:
            assert not any(f.level == 0 for f in bucket.live)
            assert Counter(above_level_0(bucket)) == Counter(first.items())


def test_a_file_whose_keys_are_all_known_leaves_nothing():
    bucket = Bucket(schema_of(options=FIRST_ROW))
    write(bucket, [(k, k) for k in range(10_000)])
    before = list(bucket.live)
    message = write(bucket, [(k, -1) for k in range(50)])
    assert message.compact_before == message.new_files
    assert message.compact_after == ()
    assert bucket.live == before


def test_a_lookup_reads_no_file_whose_keys_lie_elsewhere():
    """The file is gone: who reads it fails."""
    bucket = Bucket(schema_of(options=FIRST_ROW))
    write(bucket, [(k, k) for k in range(10_000)])
    [gone] = bucket.live
    bucket.fileio.delete(bucket.path(gone))
    write(bucket, [(k, k) for k in range(10_000, 10_010)])
    assert [f.level for f in bucket.live if f != gone] == [gone.level - 1]
    with pytest.raises(NotFoundError, match=gone.file_name):
        write(bucket, [(9_999, 0)])


def test_a_failed_lookup_loses_nothing_and_can_be_tried_again():
    failed = 0
    for call in range(1, 30):
        memory = MemoryFileIO()
        bucket = Bucket(schema_of(options=FIRST_ROW), fileio=memory)
        write(bucket, [(k, k) for k in range(20)])
        bucket.fileio = FaultyFileIO(memory, {call: FaultMode.EIO_BEFORE})
        writer = bucket.writer()
        try:
            writer.write(bucket.batch([(k, "n", -1) for k in range(10, 30)]))
            message = writer.prepare_commit()
        except StorageError:
            failed += 1
            message = writer.prepare_commit()
        writer.close()
        bucket.fileio = memory
        bucket.commit(message)
        expected = {k: k if k < 20 else -1 for k in range(30)}
        assert Counter(above_level_0(bucket)) == Counter(expected.items())
    assert failed


def test_as_many_new_runs_are_searched_with_at_once_as_fit_the_memory(monkeypatch):
    searches = []

    def counted(run, given, spec, **others):
        searches.append(len(given))
        return rows_with_keys(run, given, spec, **others)

    monkeypatch.setattr(lookup, "rows_with_keys", counted)
    fitting = held_bytes("data.parquet", KEY_FIELDS, file_size_bytes=0, row_count=1)

    def logged(memory):
        searches.clear()
        env = Env.seeded(1).with_memory(memory)
        bucket = Bucket(schema_of(options={"changelog-producer": "lookup"}), env=env)
        write(bucket, [(k, k) for k in range(50_000)])
        for new in range(7):
            write(bucket, [(k, -new) for k in range(new, 1_000, 11)], **{"write-only": "true"})
        writer = bucket.writer()
        message = writer.prepare_commit()
        writer.close()
        rows = [row for file in message.compact_changelog for row in bucket.stored(file)]
        return [(row["k"], row["_VALUE_KIND"], row["v"]) for row in rows]

    pages_of_4 = replace(Memory.of(64 << 20), merge_pages_bytes=4 * fitting)
    expected = logged(UNLIMITED)
    assert len(expected) == 2 * sum(k % 11 < 7 for k in range(1_000))
    assert searches == [7]
    assert logged(pages_of_4) == expected
    assert searches == [3, 3, 1]
    assert logged(replace(pages_of_4, merge_pages_bytes=1)) == expected
    assert searches == [1] * 7
