"""Changelog files that a bucket's writer leaves beside its data files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from unit.store.bucket_world import Bucket, schema_of

from tidelake.errors import StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import UNLIMITED, Env, Memory
from tidelake.testing import FaultMode, FaultyFileIO

INSERT, BEFORE, AFTER, DELETE = range(4)


def changes(bucket, files):
    """The rows of changelog files: key, kind, value, sequence number."""
    return [
        (row["k"], row["_VALUE_KIND"], row["v"], row["_SEQUENCE_NUMBER"])
        for file in files
        for row in bucket.stored(file)
    ]


def write(writer, bucket, rows):
    kinds = np.array([kind for _, kind, _ in rows], np.int8)
    writer.write(bucket.batch([(k, None, v) for k, _, v in rows]), kinds)


def logging(**options):
    return schema_of(options={"changelog-producer": "input"} | options)


def test_input_is_kept_as_it_came_sorted_by_key_and_arrival():
    bucket = Bucket(logging())
    writer = bucket.writer()
    write(writer, bucket, [(2, INSERT, 20), (1, INSERT, 10), (2, BEFORE, 20), (2, AFTER, 21)])
    write(writer, bucket, [(1, DELETE, 10)])
    message = writer.prepare_commit()
    assert changes(bucket, message.changelog) == [
        (1, INSERT, 10, 1),
        (1, DELETE, 10, 4),
        (2, INSERT, 20, 0),
        (2, BEFORE, 20, 2),
        (2, AFTER, 21, 3),
    ]
    [data], [log] = message.new_files, message.changelog
    assert (data.row_count, log.row_count, log.delete_row_count) == (2, 5, 2)
    assert (log.level, log.min_key, log.max_key) == (0, data.min_key, data.max_key)
    assert message.compact_changelog == ()
    writer.close()


def test_a_user_sequence_orders_the_changes_of_a_key_as_it_orders_the_merge():
    bucket = Bucket(logging(**{"sequence.field": "v"}))
    writer = bucket.writer()
    write(writer, bucket, [(1, INSERT, 5), (1, INSERT, 3), (1, INSERT, 4)])
    assert [v for _, _, v, _ in changes(bucket, writer.prepare_commit().changelog)] == [3, 4, 5]
    writer.close()


def test_every_spill_begins_a_changelog_file_and_no_row_is_lost_or_doubled(tmp_path):
    bucket = Bucket(logging(), spill_dir=str(tmp_path))
    writer = bucket.writer()
    expected = []
    for number in range(4):
        write(writer, bucket, [(1, AFTER, number), (0, AFTER, number)])
        expected += [(0, AFTER, number, 2 * number + 1), (1, AFTER, number, 2 * number)]
        if number != 2:
            writer.spill()
    message = writer.prepare_commit()
    assert len(message.changelog) == 3
    assert sorted(changes(bucket, message.changelog)) == sorted(expected)
    assert sum(f.row_count for f in message.new_files) == 2
    assert writer.prepare_commit().is_empty
    writer.close()


def test_a_flush_that_failed_and_is_tried_again_logs_each_row_once():
    failed = 0
    for call in range(1, 5):
        fileio = FaultyFileIO(MemoryFileIO(), {call: FaultMode.EIO_BEFORE})
        bucket = Bucket(logging(), fileio=fileio)
        writer = bucket.writer()
        write(writer, bucket, [(1, INSERT, 1), (1, AFTER, 2)])
        try:
            writer.flush()
        except StorageError:
            failed += 1
        write(writer, bucket, [(1, AFTER, 3)])
        message = writer.prepare_commit()
        assert [v for _, _, v, _ in changes(bucket, message.changelog)] == [1, 2, 3]
        writer.close()
        named = {f.file_name for f in (*message.new_files, *message.changelog)}
        assert bucket.data_files() == named
    assert failed == 4


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_changelog_files_have_a_prefix_a_format_a_compression_and_statistics_of_their_own(
    file_format,
):
    own = {
        "changelog-file.prefix": "log-",
        "changelog-file.format": file_format,
        "changelog-file.compression": "snappy",
        "changelog-file.stats-mode": "none",
        "file.format.per.level": "0:orc",
    }
    bucket = Bucket(logging(**own))
    writer = bucket.writer()
    write(writer, bucket, [(1, INSERT, 1)])
    message = writer.prepare_commit()
    [data], [log] = message.new_files, message.changelog
    assert data.file_name.startswith("data-")
    assert data.file_name.endswith(".orc")
    assert log.file_name.startswith("log-")
    assert log.file_name.endswith(f".{file_format}")
    assert data.value_stats.null_counts == (0, 1, 0)
    assert log.value_stats_cols == ()
    assert changes(bucket, [log]) == [(1, INSERT, 1, 0)]
    writer.close()


def test_without_a_producer_there_is_no_changelog():
    bucket = Bucket(schema_of())
    writer = bucket.writer()
    write(writer, bucket, [(1, INSERT, 1)])
    assert writer.prepare_commit().changelog == ()
    writer.close()


@pytest.mark.parametrize("producer", ["full-compaction", "lookup"])
def test_data_and_changelog_files_share_the_memory_of_a_row_group(producer):
    limited = replace(Memory.of(64 << 20), row_group_bytes=64 << 10)

    def row_groups(producer, memory):
        options = {"changelog-producer": producer, "write-only": "true"}
        bucket = Bucket(schema_of(options=options), env=Env.seeded(1).with_memory(memory))
        for value in range(2):
            writer = bucket.writer()
            write(writer, bucket, [(key, INSERT, value) for key in range(8_000)])
            bucket.commit(writer.prepare_commit())
        writer = bucket.writer()
        writer.compact(full=True)
        message = writer.prepare_commit()
        writer.close()
        counts = []
        for file in (*message.compact_after, *message.compact_changelog):
            footer = pq.read_metadata(bucket.fileio.open_input(bucket.path(file)))
            counts.append([footer.row_group(g).num_rows for g in range(footer.num_row_groups)])
        return counts

    [alone] = row_groups("none", limited)
    data, log = row_groups(producer, limited)
    assert sum(alone) == sum(data) == sum(log) == 8_000
    assert max(data) == max(log) == pytest.approx(max(alone) / 2, abs=1)
    assert row_groups(producer, UNLIMITED) == [[8_000], [8_000]]
