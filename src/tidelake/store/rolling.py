"""A stream of rows cut into data files of about the target size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from tidelake.metadata.data_file import DataFileMeta
from tidelake.telemetry import check_wanted

WRITE_ROWS = 65_536
"""Rows between two checks of the file's size."""


class OneFile(Protocol):
    """One data file being written, with its later metadata."""

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows held in memory."""
        ...

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        ...

    def close(self) -> DataFileMeta:
        """Finish the file."""
        ...

    def abort(self) -> None:
        """Delete the unfinished file."""
        ...


class RowsOut(Protocol):
    """Takes rows and makes data files of them."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        ...

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish; returns the files."""
        ...


class RollingWriter:
    """Writes rows into files and begins the next when one has reached the target size.

    Parameters
    ----------
    open_file : callable
        Opens the next file; takes the number of rows in the files before it.
    """

    def __init__(self, open_file: Callable[[int], OneFile], *, target_size_bytes: int) -> None:
        self._open_file = open_file
        self._target_size_bytes = target_size_bytes
        self._file: OneFile | None = None
        self._done: list[DataFileMeta] = []
        self._row_count = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows that the open file holds in memory."""
        return 0 if self._file is None else self._file.buffered_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        for offset in range(0, rows.num_rows, WRITE_ROWS):
            check_wanted()
            if self._file is None:
                self._file = self._open_file(self._row_count)
            part = rows.slice(offset, WRITE_ROWS)
            self._file.write(part)
            self._row_count += part.num_rows
            if self._file.bytes_written_estimate >= self._target_size_bytes:
                self._close_file()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the open file; returns the files since the last call, in order of their rows."""
        if self._file is not None:
            self._close_file()
        done, self._done = tuple(self._done), []
        return done

    def abort(self) -> None:
        """Delete the unfinished file."""
        if self._file is not None:
            self._file.abort()
            self._file = None

    def _close_file(self) -> None:
        assert self._file is not None
        self._done.append(self._file.close())
        self._file = None
