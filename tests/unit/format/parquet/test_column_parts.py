"""A large file decoded on several cores gives what one thread gives, and leaves nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.format.rows import PATH, field, sample_batch, scalar_fields, write

from tidelake.errors import CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, read_batches
from tidelake.format.parquet import column_parts
from tidelake.telemetry import Executor, SerialExecutor, ThreadExecutor
from tidelake.types.predicate import Compare

CORES = ThreadExecutor(3, level=1)
ROWS = 2000


@pytest.fixture(autouse=True)
def parts_of_small_files(monkeypatch):
    monkeypatch.setattr(column_parts, "PART_BYTES_MIN", 1)


def large(options: FormatOptions | None = None) -> MemoryFileIO:
    """A file of every scalar type in several row groups."""
    options = FormatOptions(row_group_rows=600) if options is None else options
    return write(sample_batch(rows=ROWS), scalar_fields(), options=options)[0]


class Threads:
    """The names of the threads that ask for columns."""

    def __init__(self, monkeypatch) -> None:
        self.names: set[str] = set()
        iter_batches = pq.ParquetFile.iter_batches

        def noted(*args, **kwargs) -> Iterator[pa.RecordBatch]:
            for batch in iter_batches(*args, **kwargs):
                self.names.add(threading.current_thread().name)
                yield batch

        monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"deleted": np.arange(0, ROWS, 7)},
        {"predicate": Compare(">", "c4", 0)},
        {"row_count": ROWS},
    ],
)
def test_rows_and_batches_are_those_of_one_thread(options, monkeypatch):
    files, fields = large(), scalar_fields()

    def read(cores: Executor) -> list[pa.RecordBatch]:
        return list(read_batches(files, PATH, fields, batch_rows=250, cores=cores, **options))

    alone = read(SerialExecutor())
    threads = Threads(monkeypatch)
    beside = read(CORES)
    assert threads.names - {threading.current_thread().name}
    assert [b.num_rows for b in beside] == [b.num_rows for b in alone]
    assert pa.Table.from_batches(beside).equals(pa.Table.from_batches(alone), check_metadata=True)


def test_a_file_of_one_batch_or_a_small_memory_takes_no_thread(monkeypatch):
    files, fields = large(), scalar_fields()
    threads = Threads(monkeypatch)
    list(read_batches(files, PATH, fields, cores=CORES))
    list(read_batches(files, PATH, fields, batch_rows=250, batch_bytes=4 << 20, cores=CORES))
    assert threads.names == {threading.current_thread().name}


def test_two_batches_together_take_what_one_may():
    fields = [field(0, "a", "STRING")]
    values = pa.record_batch({"a": pa.array([str(n) * 1000 for n in range(1000, 5000)])})
    files, _ = write(values, fields)

    def largest(cores: Executor) -> int:
        read = read_batches(files, PATH, fields, batch_rows=3000, batch_bytes=8 << 20, cores=cores)
        return max(batch.num_rows for batch in read)

    assert largest(CORES) == pytest.approx(largest(SerialExecutor()) / 2, rel=0.01)


def test_columns_are_divided_by_their_bytes():
    table = pa.table(
        {
            "small": pa.array(np.zeros(1000, np.int8)),
            "wide": pa.array([f"{n:0200}" for n in range(1000)]),
            "other": pa.array(np.zeros(1000, np.int8)),
            "nested": pa.array([{"x": n, "y": n} for n in range(1000)]),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    parts = column_parts.column_parts(metadata, [0], table.column_names, ThreadExecutor(2))
    assert parts[0] == ["wide"]
    assert sorted(parts[1]) == ["nested", "other", "small"]
    assert len(column_parts.column_parts(metadata, [0], ["wide"], CORES)) == 1


def test_small_parts_stay_together(monkeypatch):
    monkeypatch.setattr(column_parts, "PART_BYTES_MIN", 1 << 30)
    data = large().read_bytes(PATH)
    metadata = pq.read_metadata(pa.BufferReader(data))
    names = [f.name for f in scalar_fields()]
    assert column_parts.column_parts(metadata, [0], names, CORES) == [names]


def test_parts_cut_differently_are_joined_row_by_row():
    def cut(name: str, sizes: list[int]) -> Iterator[pa.RecordBatch]:
        begin = 0
        for size in sizes:
            yield pa.record_batch({name: np.arange(begin, begin + size)})
            begin += size

    with ExitStack() as stack:
        parts = [cut("a", [5, 5]), cut("b", [2, 3, 4, 1]), cut("c", [10])]
        joined = list(column_parts.side_by_side(stack, CORES, parts))
    assert [b.num_rows for b in joined] == [2, 3, 4, 1]
    rows = pa.Table.from_batches(joined)
    for name in "abc":
        assert rows[name].to_pylist() == list(range(10))


def test_a_damaged_byte_is_found_on_every_thread():
    files, fields = large(), scalar_fields()
    data = bytearray(files.read_bytes(PATH))
    metadata = pq.read_metadata(pa.BufferReader(bytes(data)))
    for place in (0, 11, 16):
        chunk = metadata.row_group(2).column(place)
        damaged = bytearray(data)
        at = chunk.data_page_offset + chunk.total_compressed_size - 1
        damaged[at] ^= 0xFF
        broken = MemoryFileIO()
        broken.write_once(PATH, bytes(damaged))
        found = []
        with pytest.raises(CorruptError, match=PATH):
            found += read_batches(broken, PATH, fields, batch_rows=250, cores=CORES)


def test_a_read_that_is_left_or_fails_has_no_thread_at_work(monkeypatch):
    files, fields = large(), scalar_fields()
    running: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def slow(*args, **kwargs) -> Iterator[pa.RecordBatch]:
        for batch in iter_batches(*args, **kwargs):
            running.append(1)
            time.sleep(0.02)
            running.pop()
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", slow)
    read = iter(read_batches(files, PATH, fields, batch_rows=100, cores=CORES))
    next(read)
    read.close()
    assert running == []
    failing = iter(read_batches(files, PATH, fields, batch_rows=100, cores=CORES))
    next(failing)
    with pytest.raises(ZeroDivisionError):
        failing.throw(ZeroDivisionError())
    assert running == []
