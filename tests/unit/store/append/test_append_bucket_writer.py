from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.store.bucket_world import Bucket, kinds, schema_of

from tidelake.errors import ClosedError, InvalidInputError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.data_file import EMPTY_ROW, EMPTY_STATS
from tidelake.store.append import append_file
from tidelake.testing import FaultMode, FaultyFileIO

COLUMNS = (("id", "BIGINT"), ("name", "STRING"))


def append_bucket(*, total_buckets: int = 1, **options: str) -> Bucket:
    schema = schema_of(COLUMNS, primary_keys=(), options=options)
    return Bucket(schema, total_buckets=total_buckets)


def numbered(start: int, count: int) -> list[tuple[int, str]]:
    return [(i, f"row {i}") for i in range(start, start + count)]


def ids(bucket: Bucket) -> list[int]:
    """The live rows in the order of their sequence numbers."""
    files = sorted(bucket.live, key=lambda f: f.min_sequence_number)
    return [row["id"] for file in files for row in bucket.stored(file)]


def test_rows_keep_their_order_and_are_numbered_from_zero():
    bucket = append_bucket()
    writer = bucket.writer()
    writer.write(bucket.batch(numbered(0, 3)))
    writer.write(bucket.batch(numbered(3, 1)), kinds(0))
    [file] = (message := writer.prepare_commit()).new_files
    bucket.commit(message)
    assert ids(bucket) == [0, 1, 2, 3]
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 3)
    assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
    assert (file.level, file.delete_row_count, file.file_source) == (0, 0, 0)
    assert file.value_stats_cols is None
    assert file.value_stats.null_counts == (0, 0)
    assert file.file_size_bytes == bucket.fileio.size(bucket.path(file))


def test_a_bucketed_table_goes_on_numbering_and_a_table_without_buckets_restarts():
    for total_buckets, expected in ((2, [0, 2, 4]), (-1, [0, 0, 0])):
        bucket = append_bucket(total_buckets=total_buckets)
        writer = bucket.writer()
        for commit in range(3):
            if commit == 2:
                writer = bucket.writer()
            writer.write(bucket.batch(numbered(2 * commit, 2)))
            bucket.commit(writer.prepare_commit())
        assert [f.min_sequence_number for f in bucket.live] == expected


def test_updates_and_deletes_are_refused():
    bucket = append_bucket()
    with pytest.raises(InvalidInputError, match="only inserts"):
        bucket.writer().write(bucket.batch(numbered(0, 2)), kinds(0, 3))


def test_rolled_files_of_a_bucket_are_numbered_one_after_the_other():
    bucket = append_bucket(**{"target-file-size": "100 kb"})
    writer = bucket.writer()
    writer.write(bucket.batch(numbered(0, 200_000)))
    message = writer.prepare_commit()
    files = message.new_files
    assert len(files) > 1
    for before, after in itertools.pairwise(files):
        assert after.min_sequence_number == before.max_sequence_number + 1
    bucket.commit(message)
    assert ids(bucket) == list(range(200_000))


def test_full_row_groups_go_to_the_file_without_a_spill(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(append_file, "ROW_GROUP_BYTES", 10_000)
    bucket = append_bucket()
    bucket.spill_dir = str(tmp_path)
    writer = bucket.writer()
    for part in range(20):
        writer.write(bucket.batch(numbered(part * 1000, 1000)))
    assert list(tmp_path.iterdir()) == []
    assert bucket.data_files()  # it is open before anything is flushed
    bucket.commit(writer.prepare_commit())
    assert ids(bucket) == list(range(20_000))
    assert len(bucket.live) == 1


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["", "spill", "flush"])), max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([500, 32 << 20]),
)
def test_spilled_rows_keep_their_place(tmp_path_factory, steps, always, ordered, group):
    place = tmp_path_factory.mktemp("spill")
    options = {"write-buffer-for-append": str(always).lower(), "write-only": "true"}
    bucket = append_bucket(total_buckets=3 if ordered else -1, **options)
    bucket.spill_dir = str(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_file, "ROW_GROUP_BYTES", group)
        writer = bucket.writer()
        count = 0
        for rows, then in steps:
            writer.write(bucket.batch(numbered(count, rows)))
            count += rows
            if then:
                before = writer.buffered_bytes
                getattr(writer, then)()
                assert writer.buffered_bytes <= before // 2
        bucket.commit(writer.prepare_commit())
    assert list(place.iterdir()) == []
    found = [row["id"] for file in bucket.live for row in bucket.stored(file)]
    assert found == list(range(count))


def test_small_neighbours_are_put_together_in_order():
    bucket = append_bucket(**{"compaction.min.file-num": "3"})
    writer = bucket.writer()
    for commit in range(7):
        writer.write(bucket.batch(numbered(10 * commit, 10)))
        bucket.commit(writer.prepare_commit())
        assert ids(bucket) == list(range(10 * commit + 10))
        assert len(bucket.live) < 3
    assert {f.file_source for f in bucket.live} == {0, 1} or len(bucket.live) == 1
    last = max(f.max_sequence_number for f in bucket.live)
    assert last == 69
    writer.close()
    assert {f.file_name for f in bucket.live} <= bucket.data_files()


def test_full_compaction_of_a_bucket_makes_one_file():
    bucket = append_bucket(**{"write-only": "true"})
    for commit in range(4):
        writer = bucket.writer()
        writer.write(bucket.batch(numbered(commit, 1)))
        bucket.commit(writer.prepare_commit())
    writer = bucket.writer()
    writer.compact(True)
    message = writer.prepare_commit()
    bucket.commit(message)
    assert len(message.compact_before) == 4
    assert len(bucket.live) == 1
    assert ids(bucket) == [0, 1, 2, 3]


def test_without_buckets_only_an_explicit_compaction_puts_files_together():
    bucket = append_bucket(total_buckets=-1)
    writer = bucket.writer()
    for commit in range(8):
        writer.write(bucket.batch(numbered(commit, 1)))
        bucket.commit(writer.prepare_commit())
    assert len(bucket.live) == 8
    writer.compact(False)
    bucket.commit(writer.prepare_commit())
    [file] = bucket.live
    assert sorted(ids(bucket)) == list(range(8))
    assert (file.min_sequence_number, file.max_sequence_number, file.file_source) == (0, 7, 1)


def test_a_write_that_failed_half_way_cannot_be_gone_on_with():
    storage = FaultyFileIO(MemoryFileIO(), {1: FaultMode.EIO_BEFORE})
    bucket = append_bucket()
    bucket.fileio = storage
    writer = bucket.writer()
    writer.write(bucket.batch(numbered(0, 5)))
    with pytest.raises(StorageError):
        writer.flush()
    with pytest.raises(ClosedError, match="close the writer"):
        writer.flush()
    writer.close()
    assert bucket.data_files() == set()


def test_an_empty_write_makes_no_file():
    bucket = append_bucket()
    writer = bucket.writer()
    writer.write(bucket.batch([]))
    assert writer.prepare_commit().is_empty
    assert bucket.data_files() == set()
    writer.close()
    with pytest.raises(ClosedError):
        writer.write(pa.record_batch({"id": [1], "name": ["a"]}))
