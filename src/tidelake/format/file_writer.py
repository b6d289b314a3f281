"""The protocol of a writer of one file format, and the checks common to all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidelake.errors import ClosedError, InvalidInputError
from tidelake.fileio import FileIO
from tidelake.format.format_options import FormatOptions
from tidelake.format.stats import ColumnStats
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class DataFileFooter:
    """A written file's facts for the manifest.

    Parameters
    ----------
    stats : tuple of ColumnStats
        One per column given to :func:`tidelake.format.open_writer`, in order.
    """

    size_bytes: int
    row_count: int
    stats: tuple[ColumnStats, ...]


class DataFileWriter(Protocol):
    """A data file being written; see :func:`tidelake.format.open_writer`. For one thread."""

    @property
    def row_count(self) -> int:
        """Rows taken so far."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes that wait to be encoded."""
        ...

    @property
    def bytes_written_estimate(self) -> int:
        """The approximate length of the file if it were closed now."""
        ...

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows.

        Parameters
        ----------
        rows : pyarrow.RecordBatch or pyarrow.Table
            Requires: the columns are the file's, by order, name and Arrow type.

        Raises
        ------
        InvalidInputError
            A NOT NULL column holds a null.
        StorageError
            The storage failed; abort the file.
        """
        ...

    def close(self) -> DataFileFooter:
        """Finish the file; it is whole and durable when this returns."""
        ...

    def abort(self) -> None:
        """Abort and remove the file; does nothing after a close."""
        ...


class FileWriter(Protocol):
    """Opens a file of one format; as :func:`tidelake.format.open_writer`."""

    def __call__(
        self,
        fileio: FileIO,
        path: str,
        fields: Sequence[DataField],
        options: FormatOptions,
        *,
        stats_columns: frozenset[str],
    ) -> DataFileWriter:
        """Open a file."""
        ...


def check_open(path: str, *, closed: bool) -> None:
    """Refuse to continue with a file that was closed or aborted.

    Raises
    ------
    ClosedError
        It was.
    """
    if closed:
        message = f"File {path} was closed or aborted; nothing can be written to it any more."
        raise ClosedError(message, kind="file_closed", path=path)


def check_rows(
    path: str,
    fields: Sequence[DataField],
    schema: Iterable[pa.Field],
    rows: pa.RecordBatch | pa.Table,
) -> None:
    """Check that rows are those of the file's columns and hold no null where none may be.

    Raises
    ------
    InvalidInputError
        A NOT NULL column holds a null.
    """
    for field, expected, given in zip(fields, schema, rows.schema, strict=True):
        assert given.name == expected.name, (path, given.name, expected.name)
        assert given.type == expected.type, (path, given, expected)
        if not field.type.nullable and rows.column(field.name).null_count:
            count = rows.column(field.name).null_count
            message = (
                f"Column '{field.name}' is NOT NULL but {count} of {rows.num_rows} rows for"
                f" file {path} hold null: give them a value."
            )
            raise InvalidInputError(message, kind="null_in_not_null", column=field.name)
