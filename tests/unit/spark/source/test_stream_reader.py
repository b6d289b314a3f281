"""``readStream.format("tidelake")`` without Spark: what it holds, and what a consumer records."""

from __future__ import annotations

import pickle

import pytest
from proving.expiring import ALL, make

from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.source.stream_reader import TidelakeStreamReader
from tidelake.table.stream.lease import READ_RETAINED_MS

NAMES = ("k", "v", "p")
ONE_BY_ONE = {
    "scan.mode": "from-snapshot",
    "scan.snapshot-id": 1,
    "read.stream.maxFilesPerTrigger": 1,
}


@pytest.fixture
def table():
    made = make(MemoryFileIO())
    for number in range(5):
        made.write([{"k": number, "v": number, "p": "a"}])
    return made


@pytest.fixture
def opened(table):
    """Opens readers, as Spark does in a process for each query; all stop with the test."""
    readers = []

    def reader(**options):
        given = table.with_options({**ONE_BY_ONE, **options})
        readers.append(TidelakeStreamReader(given, NAMES, None))
        return readers[-1]

    yield reader
    for one in readers:
        one.stop()


def log_of(table):
    return ConsumerLog(table.fileio, table.handle.paths)


def keys(reader, start, end):
    shipped = pickle.loads(pickle.dumps(reader))
    found = [b for one in reader.partitions(start, end) for b in shipped.read(one)]
    return [row["k"] for batch in found for row in batch.to_pylist()]


def test_a_running_reader_holds_what_it_has_not_read(table, opened):
    reader = opened()
    first = reader.latestOffset({}, None)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()
    assert keys(reader, {}, first) == [0]
    second = reader.latestOffset(first, None)
    reader.commit({})  # before the first batch Spark commits where it began
    reader.commit(first)
    assert table.maintenance.expire_snapshots(**ALL).ids == (1,)
    assert keys(reader, first, second) == [1]
    reader.stop()
    assert log_of(table).states() == {}


def test_a_killed_reader_is_forgotten_after_an_hour(table, opened):
    reader = opened()
    reader.latestOffset({}, None)
    table.handle.env.clock.sleep_ms(READ_RETAINED_MS // 2)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()
    table.handle.env.clock.sleep_ms(READ_RETAINED_MS)
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2, 3, 4)


def test_a_consumer_records_what_was_read(table, opened):
    reader = opened(**{"consumer-id": "c"})
    first = reader.latestOffset({}, None)
    assert keys(reader, {}, first) == [0]
    assert log_of(table).next_ids() == {"c": 1}
    reader.commit(first)
    reader.stop()
    assert log_of(table).next_ids() == {"c": 2}
    again = opened(**{"consumer-id": "c"})
    assert keys(again, {}, again.latestOffset({}, None)) == [1]
