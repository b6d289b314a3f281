"""Data files of a remote storage: the same rows as of a local one, in few rounds of requests."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelake.errors import CorruptError, NotFoundError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, ReadAhead, files_in_turn, open_writer, read_batches
from tidelake.format.fetching.fetched_file import FetchedBytes
from tidelake.format.parquet import column_fetch
from tidelake.format.parquet.column_fetch import HOLE_BYTES, JOINED_BYTES, joined, windows_of
from tidelake.format.parquet.reader import REMOTE_TAIL_BYTES, WHOLE_FILE_BYTES
from tidelake.telemetry import ReadThreads
from tidelake.testing import DelayedFileIO
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import bind, parse_filter

MIB = 1 << 20
ROWS = 30_000
COLUMNS = 12
ALONE = ReadAhead()
FIELDS = tuple(DataField(i, f"c{i}", parse_type("BIGINT")) for i in range(COLUMNS))


@pytest.fixture(scope="module")
def inner():
    """A Parquet file of 2.9 MB in ten row groups, and its values in ORC and Avro."""
    rng = np.random.default_rng(1)
    values = {f.name: rng.integers(0, 2**62, ROWS) for f in FIELDS}
    table = pa.table(values | {"c0": np.arange(ROWS)})
    files = MemoryFileIO()
    sink = pa.BufferOutputStream()
    fields = [
        pa.field(f.name, pa.int64(), metadata={"PARQUET:field_id": str(f.id)}) for f in FIELDS
    ]
    pq.write_table(
        table.cast(pa.schema(fields)), sink, row_group_size=ROWS // 10, use_dictionary=False,
        compression="none",
    )  # fmt: skip
    files.write_once("/t/data-1.parquet", sink.getvalue().to_pybytes())
    for file_format in ("orc", "avro", "parquet"):
        options = FormatOptions(file_format=file_format)
        path = f"/t/small.{file_format}"
        writer = open_writer(files, path, FIELDS, options, stats_columns=frozenset())
        for batch in table.slice(0, 3_000).to_batches():
            writer.write(batch)
        writer.close()
    return files, table


def read(files, path, fields, *, size=None, ahead=ALONE, **more):
    size = files.size(path) if size is None else size
    if isinstance(files, DelayedFileIO):
        files.reset()
    batches = read_batches(files, path, fields, file_size_bytes=size, ahead=ahead, **more)
    return pa.Table.from_batches(
        list(batches), schema=pa.schema([(f.name, pa.int64()) for f in fields])
    )


@pytest.mark.parametrize("threads", [ReadThreads.none(), ReadThreads()])
@pytest.mark.parametrize("bytes_max", [1, 100_000, 700_000, 64 * MIB])
def test_rows_are_those_of_the_file_whatever_may_be_held(inner, threads, bytes_max):
    files, table = inner
    wanted = (FIELDS[1], FIELDS[7], FIELDS[9])
    remote = DelayedFileIO(files, delay_ms=0)
    found = read(remote, "/t/data-1.parquet", wanted, ahead=ReadAhead(threads, bytes_max))
    assert found.equals(table.select([f.name for f in wanted]))
    assert remote.counts.bytes_read < 3.2 * MIB


def test_wanted_columns_come_in_two_rounds_and_little_else(inner):
    files, _ = inner
    remote = DelayedFileIO(files, delay_ms=0)
    found = read(remote, "/t/data-1.parquet", (FIELDS[0], FIELDS[11]))
    assert found.num_rows == ROWS
    assert remote.counts.rounds == 2
    size = files.size("/t/data-1.parquet")
    assert remote.counts.bytes_read <= size
    # the holes between the two are smaller than a request is worth
    assert remote.counts.requests == 2


def test_row_groups_without_a_match_are_not_fetched(inner):
    files, table = inner
    remote = DelayedFileIO(files, delay_ms=0)
    assert read(remote, "/t/data-1.parquet", FIELDS).equals(table)
    everything = remote.counts.bytes_read
    assert everything >= files.size("/t/data-1.parquet") - 1_000
    some = bind(parse_filter("c0 between 4000 and 4009"), FIELDS)
    found = read(remote, "/t/data-1.parquet", FIELDS, predicate=some)
    assert found.equals(table.slice(4_000, 10))
    assert remote.counts.bytes_read < everything / 4
    assert remote.counts.rounds == 2


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_small_file_of_any_format_is_one_request(inner, file_format):
    files, table = inner
    remote = DelayedFileIO(files, delay_ms=0)
    found = read(remote, f"/t/small.{file_format}", FIELDS[3:5], file_fields=FIELDS)
    assert found.equals(table.slice(0, 3_000).select(["c3", "c4"]))
    assert remote.counts.requests == 1


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_a_file_beyond_the_memory_comes_in_pieces(inner, file_format):
    files, table = inner
    remote = DelayedFileIO(files, delay_ms=0)
    ahead = ReadAhead(bytes_max=10_000)
    found = read(remote, f"/t/small.{file_format}", FIELDS, file_fields=FIELDS, ahead=ahead)
    assert found.equals(table.slice(0, 3_000))
    assert remote.counts.requests > 5


def test_files_of_a_chain_are_opened_side_by_side(inner):
    files, _ = inner
    for number in range(20):
        if not files.exists(f"/chain/{number}.parquet"):
            files.write_once(f"/chain/{number}.parquet", files.read_bytes("/t/small.parquet"))
    remote = DelayedFileIO(files, delay_ms=5)
    size = files.size("/t/small.parquet")

    def begin(number, ahead):
        path = f"/chain/{number}.parquet"
        return read_batches(remote, path, FIELDS[:2], file_size_bytes=size, ahead=ahead)

    def in_turn(ahead):
        remote.reset()
        chain = files_in_turn(
            range(20), begin, size_bytes=lambda _: size, ahead=ahead, is_remote=True
        )
        return [(number, sum(b.num_rows for b in rows)) for number, rows in chain]

    expected = [(number, 3_000) for number in range(20)]
    assert in_turn(ReadAhead(ReadThreads(), 64 * MIB)) == expected
    assert remote.counts.requests == 20
    assert remote.counts.in_flight_max > 4
    assert remote.counts.rounds <= 8
    # memory for few bytes: no more than two files are in it
    assert in_turn(ReadAhead(ReadThreads(), 2 * size)) == expected
    assert remote.counts.in_flight_max <= 2
    assert in_turn(ReadAhead(ReadThreads.none(), 64 * MIB)) == expected
    assert remote.counts.rounds == 20


def test_a_missing_file_of_a_chain_fails_in_its_turn(inner):
    files, _ = inner
    remote = DelayedFileIO(files, delay_ms=0)
    size = files.size("/t/small.parquet")

    def begin(name, ahead):
        return read_batches(remote, f"/t/{name}", FIELDS[:1], file_size_bytes=size, ahead=ahead)

    rows = files_in_turn(
        ["small.parquet", "none.parquet"],
        begin,
        size_bytes=lambda _: size,
        ahead=ReadAhead(ReadThreads()),
        is_remote=True,
    )
    name, first = next(rows)
    assert (name, sum(b.num_rows for b in first)) == ("small.parquet", 3_000)
    with pytest.raises(NotFoundError, match=r"none\.parquet"):
        next(rows)


class Answering(DelayedFileIO):
    """A storage whose answers to ranges a test changes."""

    def __init__(self, inner, change):
        super().__init__(inner, delay_ms=0)
        self._change = change

    def read_ranges(self, path, ranges):
        return [self._change(part) for part in super().read_ranges(path, ranges)]


@pytest.mark.parametrize("path", ["/t/data-1.parquet", "/t/small.orc", "/t/small.avro"])
def test_an_answer_shorter_or_longer_than_its_range_is_refused(inner, path):
    files, _ = inner
    size = files.size(path)
    short = Answering(files, lambda part: part.slice(0, part.size - 1))
    with pytest.raises(CorruptError, match=r"holds only .*truncated"):
        read(short, path, FIELDS, size=size, file_fields=FIELDS)
    longer = Answering(files, lambda part: pa.py_buffer(part.to_pybytes() + b"x"))
    with pytest.raises(StorageError, match=r"sent \d+ bytes") as caught:
        read(longer, path, FIELDS, size=size, file_fields=FIELDS)
    assert caught.value.kind == "wrong_range"


@pytest.mark.parametrize("path", ["/t/data-1.parquet", "/t/small.orc", "/t/small.avro"])
def test_a_file_that_shrank_is_damaged(inner, path):
    files, _ = inner
    shrunk = MemoryFileIO()
    data = files.read_bytes(path)
    shrunk.write_once(path, data[:-10])
    with pytest.raises(CorruptError, match="truncated"):
        read(DelayedFileIO(shrunk, delay_ms=0), path, FIELDS, size=len(data), file_fields=FIELDS)


@pytest.mark.parametrize("path", ["/t/data-1.parquet", "/t/small.orc", "/t/small.avro"])
def test_another_length_in_the_manifest_is_noticed(inner, path):
    files, _ = inner
    size = files.size(path)
    remote = DelayedFileIO(files, delay_ms=0)
    with pytest.raises(CorruptError):
        read(remote, path, FIELDS, size=size - 100, file_fields=FIELDS)


def test_a_footer_that_points_outside_the_file_is_damage(inner):
    _, table = inner
    sink = pa.BufferOutputStream()
    fields = [pa.field("c0", pa.int64(), metadata={"PARQUET:field_id": "0"})]
    pq.write_table(table.select(["c0"]).cast(pa.schema(fields)), sink, compression="none")
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length :]
    cut = MemoryFileIO()  # the pages are gone, the footer is whole
    cut.write_once("/a.parquet", b"PAR1" + footer)
    with pytest.raises(CorruptError, match="would end at byte"):
        read(DelayedFileIO(cut, delay_ms=0), "/a.parquet", FIELDS[:1])


def test_int96_times_are_read_from_what_was_fetched():
    field = DataField(0, "t", parse_type("TIMESTAMP(9)"))
    times = [datetime.datetime(1800, 1, 1) + datetime.timedelta(days=400 * n) for n in range(200)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_deprecated_int96_timestamps=True, row_group_size=50)
    files = MemoryFileIO()
    files.write_once("/a.parquet", sink.getvalue().to_pybytes())
    remote = DelayedFileIO(files, delay_ms=0)
    size = files.size("/a.parquet")
    rows = read_batches(remote, "/a.parquet", [field], file_size_bytes=size)
    found = pa.Table.from_batches(list(rows))
    local = pa.Table.from_batches(list(read_batches(files, "/a.parquet", [field])))
    assert found.equals(local)
    assert remote.counts.requests == 1


def test_neighbours_are_joined_over_small_holes_only():
    ranges = [(0, 100), (100 + HOLE_BYTES, 10), (111 + 2 * HOLE_BYTES, 5)]
    assert joined(ranges) == [(0, 110 + HOLE_BYTES), (111 + 2 * HOLE_BYTES, 5)]
    large = [(0, JOINED_BYTES - 5), (JOINED_BYTES - 5, 10)]
    assert joined(large) == large
    assert joined([(0, 10), (5, 10)]) == [(0, 15)]


def test_row_groups_come_together_up_to_half_the_memory():
    chunks = [(g, [(100 * g, 10), (100 * g + 10, 30)]) for g in range(5)]
    found = windows_of(chunks, 500)
    assert [window.groups for window in found] == [(0, 1, 2), (3, 4)]
    assert found[0].chunks == ((0, 10), (10, 30), (100, 10), (110, 30), (200, 10), (210, 30))
    assert [window.ranges for window in found] == [((0, 240),), ((300, 140),)]
    far = [(g, [(2 * HOLE_BYTES * g, 40)]) for g in (0, 1, 2)]
    assert [window.groups for window in windows_of(far, 160)] == [(0, 1), (2,)]
    # a group that lies before another one begins a window, whose parts are ascending
    back = windows_of([chunks[1], chunks[0], chunks[2]], 10_000)
    assert [(w.groups, w.ranges) for w in back] == [((1,), ((100, 40),)), ((0, 2), ((0, 240),))]


def test_the_work_for_many_row_groups_grows_with_their_chunks(monkeypatch):
    seen = []

    def counted(ranges):
        seen.append(len(ranges))
        return joined(ranges)

    monkeypatch.setattr(column_fetch, "joined", counted)
    chunks = [(g, [(10_000 * g + 100 * c, 100) for c in range(100)]) for g in range(100)]
    [window] = windows_of(chunks, 64 * MIB)
    assert (len(window.chunks), window.ranges) == (10_000, ((0, 1_000_000),))
    assert sum(seen) < 3 * 10_000


def test_a_file_beyond_the_memory_does_not_come_whole(inner):
    files, table = inner
    path = "/t/small.parquet"
    size = files.size(path)
    assert REMOTE_TAIL_BYTES < size < WHOLE_FILE_BYTES
    asked = []

    class Asked(DelayedFileIO):
        def read_ranges(self, path, ranges):
            asked.append([length for _, length in ranges])
            return super().read_ranges(path, ranges)

    remote = Asked(files, delay_ms=0)
    for bytes_max, first in ((64 << 10, REMOTE_TAIL_BYTES), (size, size)):
        asked.clear()
        found = read(remote, path, FIELDS[:2], ahead=ReadAhead(bytes_max=bytes_max))
        assert found.equals(table.slice(0, 3_000).select(["c0", "c1"]))
        assert asked[0] == [first]


def test_fetched_bytes_serve_any_read():
    files = MemoryFileIO()
    data = np.random.default_rng(2).bytes(10_000)
    files.write_once("/a", data)
    rng = np.random.default_rng(3)
    source = FetchedBytes(files, "/a", len(data), piece_bytes=300)
    source.fetch_end(500)
    for round_number in range(30):
        starts = np.sort(rng.choice(9_000, 6, replace=False))
        lengths = np.minimum(np.diff(np.append(starts, 9_400)), rng.integers(1, 900, 6))
        ranges = [(int(s), int(n)) for s, n in zip(starts, lengths, strict=True)]
        source.replace(source.fetch(ranges), ranges if round_number % 2 else [])
        for _ in range(40):
            start, length = int(rng.integers(0, 10_100)), int(rng.integers(0, 1_500))
            assert source.read(start, length).to_pybytes() == data[start : start + length]
    with source.open() as file:
        assert file.size() == 10_000
        assert file.read() == data
        file.seek(-10, 2)
        assert file.read(100) == data[-10:]
