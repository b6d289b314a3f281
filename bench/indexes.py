"""Bytes that a point predicate reads with a bloom filter per file, against without.

Bytes are counted where they leave the storage, manifests included. The predicate's column is random
text, so statistics rule nothing out. Run by `python bench/run.py indexes [--size full]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import rows
from kernel import Line, scratch

import tidelake
from tidelake.fileio import LocalFileIO

FILES = {"small": 40, "full": 1_000}
ROWS = 5_000
"""Rows of a file, about."""
TIMES_FEWER = {"small": 10, "full": 20}
"""Of few files the one that holds the row weighs much."""
ASKED = 4


class CountingFileIO(LocalFileIO):
    """Local files; counts the bytes that are read of them."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read_bytes(self, path: str, **bound: int) -> bytes:
        data = super().read_bytes(path, **bound)
        self.bytes_read += len(data)
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.bytes_read += length
        return super().read_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_CountingFile(self, super().open_input(path)), mode="r")


class _CountingFile:
    def __init__(self, counter: CountingFileIO, inner: pa.NativeFile) -> None:
        self._counter = counter
        self._inner = inner

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(None if size < 0 else size)
        self._counter.bytes_read += len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        return self._inner.seek(place, whence)

    def tell(self) -> int:
        return self._inner.tell()

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def close(self) -> None:
        self._inner.close()


def make(place: Path, files_count: int, fileio: CountingFileIO) -> tuple[tidelake.Table, pa.Table]:
    """An append table of a file per bucket, and a few of its rows."""
    catalog = tidelake.open(str(place / "warehouse"), fileio=fileio)
    schema = rows.with_key(rows.shuffled_keys(1, 0), 0).schema
    table = catalog.create_table(
        "db.t",
        schema,
        options={
            "bucket": str(files_count),
            "bucket-key": "k",
            "file-index.bloom-filter.columns": "s20",
            "file-index.bloom-filter.s20.items": str(ROWS),
            "file-index.bloom-filter.s20.fpp": "0.001",
        },
    )
    data = rows.with_key(rows.shuffled_keys(files_count * ROWS, 1), 2)
    table.write(data)
    return table, data.slice(0, ASKED)


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    files_count = FILES[size_name]
    with scratch() as place:
        counter = CountingFileIO()
        table, wanted = make(place, files_count, counter)
        plain = table.copy({"file-index.read.enabled": "false"})

        def bytes_of(asked: tidelake.Table) -> int:
            counter.bytes_read = 0
            for row in wanted.to_pylist():
                found = asked.to_arrow(where=tidelake.col("s20") == row["s20"]).to_pylist()
                assert found == [row], "a point predicate finds another row"
            return counter.bytes_read

        without, with_filter = bytes_of(plain), bytes_of(table)
        times = without / with_filter
        assert times >= TIMES_FEWER[size_name], f"only {times:.1f} times fewer bytes"
        what = f"point predicate over {files_count:,} files of {ROWS:,} rows, bloom filter"
        note = f"{times:.0f} x fewer bytes ({with_filter / ASKED / 1e6:.1f} MB a query)"
        yield Line(
            "W6", what, "the same without indexes", None, f">= {TIMES_FEWER[size_name]} x", note
        )
