"""Data files of every format: the name's ending selects the reader, the options the writer.

A table's files may have several formats: one for each level, or former values of the option. So the
end of its name (``data-<uuid>-3.orc``, ``data-<uuid>-3.zst.parquet``) decides how a file is read,
and no code above this module needs its format.
A changelog file may be a part of another file (:mod:`tidelake.format.compacted`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.fileio import ByteRange, FileIO
from tidelake.format.avro.reader import read_avro
from tidelake.format.avro.writer import AvroFileWriter
from tidelake.format.compacted import open_slice, ranges_within, slice_of
from tidelake.format.fetching.read_ahead import ReadAhead
from tidelake.format.file_reader import (
    BATCH_BYTES_MAX,
    BATCH_ROWS,
    FileReader,
    Positions,
    ReadRequest,
)
from tidelake.format.file_writer import DataFileWriter, FileWriter
from tidelake.format.format_options import FormatOptions
from tidelake.format.orc.reader import read_orc
from tidelake.format.orc.stripes import NEAR_NS
from tidelake.format.orc.writer import OrcFileWriter
from tidelake.format.parquet.reader import read_parquet
from tidelake.format.parquet.writer import ParquetFileWriter
from tidelake.format.read_error import corrupt, reading
from tidelake.format.system_fields import TRACKING_FIELDS, is_system_name, key_field
from tidelake.format.value_casts import Retyping
from tidelake.telemetry import Executor, SerialExecutor, check_wanted
from tidelake.types import DataField
from tidelake.types.predicate import Predicate, columns_of, evaluate

ALONE = ReadAhead()
"""A read of one file, with no threads beside it."""
HERE = SerialExecutor()

_READERS: Mapping[str, FileReader] = {"parquet": read_parquet, "orc": read_orc, "avro": read_avro}
_WRITERS: Mapping[str, FileWriter] = {
    "parquet": ParquetFileWriter,
    "orc": OrcFileWriter,
    "avro": AvroFileWriter,
}


def format_of(file_name: str) -> str:
    """The format by the name of a data file.

    Examples
    --------
    >>> format_of("data-1.zst.parquet")
    'parquet'
    >>> format_of("compacted-changelog-6f2c$0-1000.cc-parquet")
    'parquet'
    """
    return file_name.rpartition(".")[2].lower().removeprefix("cc-")


def orc_times_shift(file_name: str, low_ns: int) -> bool:
    """Whether times of a file may be read as others than those that its statistics are of.

    Java's ORC stores the last second before 1970 as the following one (ORC-763), in the zone of the
    writer, and takes statistics before. Older times may be refused (before 1920, of some zones), or
    be of another calendar.

    Parameters
    ----------
    low_ns : int
        The smallest time by its statistics, nanoseconds since 1970.

    Examples
    --------
    >>> orc_times_shift("data-1.orc", 0), orc_times_shift("data-1.parquet", 0)
    (True, False)
    """
    return format_of(file_name) == "orc" and low_ns < NEAR_NS


NO_CONSTANTS: Mapping[int, pa.Scalar] = MappingProxyType({})


def read_batches(  # noqa: PLR0913 - all that is known of one file
    fileio: FileIO,
    path: str,
    fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    predicate_fields: Sequence[DataField] = (),
    file_fields: Sequence[DataField] = (),
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES_MAX,
    file_size_bytes: int | None = None,
    row_count: int | None = None,
    deleted: Positions | None = None,
    wanted: Positions | None = None,
    zone: str | None = None,
    orc_zone_moves: bool = True,
    ahead: ReadAhead = ALONE,
    cores: Executor = HERE,
    table: str = "",
    constants: Mapping[int, pa.Scalar] = NO_CONSTANTS,
) -> DataFileRead:
    """Read a data file.

    Parameters
    ----------
    fields : sequence of DataField
        The columns wanted, in order. If empty, the batches have no columns but a correct
        ``num_rows``.
    predicate : Predicate, optional
        Bound; all returned rows satisfy it.
    predicate_fields : sequence of DataField
        Fields of the predicate's columns that `fields` lacks; more do no harm.
    file_fields : sequence of DataField
        The columns of the schema that the file was written with, if known: one that the file
        lacks is damage, and not a column added later. In ORC and Avro files a column is found by
        its name there; one of another type is cast.
    batch_rows : int
        Most rows per batch.
    batch_bytes : int
        A batch has fewer rows if it would be larger, by their mean size in the file. With a text
        dictionary that size is unknown, and batches are smaller.
    deleted : int64 array, optional
        Ascending ordinals of rows to leave out: those of the file's deletion vector.
    wanted : int64 array, optional
        Ascending ordinals of the only rows to give, less those to leave out.
    orc_zone_moves : bool
        Whether Java's ORC writers moved instants by their own time zone
        (:func:`tidelake.format.format_options.orc_zone_moves`).
    ahead : ReadAhead
        Of a remote storage: what may be fetched before it is asked for.
    cores : Executor
        Where columns may be decoded beside the caller's work.
    constants : mapping of int to pyarrow.Scalar
        Values of columns by field id, for a Parquet file that lacks them: of a table that was
        migrated in place, the partition's.

    Returns
    -------
    DataFileRead
        Gives batches, none of them empty: the wanted columns with the Arrow types of
        `fields`, in the file's row order. It raises what follows.

    Raises
    ------
    NotFoundError
        The file does not exist.
    CorruptError
        The file is damaged or does not match the manifest; the message names it.
    NotEnoughMemoryError
        Memory ran out.
    UnsupportedError
        The file's format is not covered, or a column's type in it cannot become the wanted one.
    InvalidInputError
        A value of a column whose type was changed cannot be cast.

    Notes
    -----
    Runs on executors; calls share nothing. Nothing is opened before the first batch is requested,
    or before :meth:`DataFileRead.opened`.
    """
    needed = _needed_fields(fields, predicate, predicate_fields)
    never_null = _never_null(needed, file_fields)
    if wanted is not None and deleted is not None:
        wanted, deleted = np.setdiff1d(wanted, deleted, assume_unique=True), None
    retyping = Retyping.of(path, needed, file_fields, zone=zone, table=table)
    request = ReadRequest(
        path,
        needed if retyping is None else retyping.asked,
        file_fields=tuple(file_fields),
        predicate=predicate if retyping is None else retyping.pushed(predicate),
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        file_size_bytes=file_size_bytes,
        row_count=row_count,
        deleted=deleted,
        wanted=wanted,
        orc_zone_moves=orc_zone_moves,
        ahead=ahead,
        cores=cores,
        constants=constants,
    )
    return DataFileRead(fileio, request, fields, needed, predicate, retyping, never_null)


class DataFileRead:
    """The rows of one data file, which is opened when they are wanted, or before.

    Iterable once; made by :func:`read_batches`.
    """

    def __init__(
        self,
        fileio: FileIO,
        request: ReadRequest,
        fields: Sequence[DataField],
        needed: tuple[DataField, ...],
        predicate: Predicate | None,
        retyping: Retyping | None,
        never_null: Sequence[str],
    ) -> None:
        self._fileio = fileio
        self._request = request
        self._fields = fields
        self._needed = needed
        self._predicate = predicate
        self._retyping = retyping
        self._never_null = never_null
        self._stack = ExitStack()
        self._opened: Iterator[pa.RecordBatch] | None = None

    def opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file now unless it is open; of a remote one, fetch the first columns too.

        Returns
        -------
        iterator of RecordBatch
            The columns as the file's reader gives them; iterate over this object instead.
        """
        if self._opened is None:
            path = self._request.path
            with ExitStack() as stack:
                with reading(path):
                    self._opened = _reader_of(path)(stack, _Parts(self._fileio), self._request)
                self._stack = stack.pop_all()
        return self._opened

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """Give the batches; the file is closed after the last one."""
        path, names = self._request.path, [f.name for f in self._fields]
        try:
            batches = self.opened()
            while True:
                check_wanted()  # also of batches without a row that matches: these are not given
                with reading(path):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    batch = self._finished(batch).select(names)
                if batch.num_rows:
                    yield batch
        finally:
            self._opened = None
            self._stack.close()

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Check a batch, cast it, and leave out rows."""
        if self._retyping is not None:
            batch = self._retyping.cast(batch)
        _check_no_nulls(batch, self._never_null, self._request.path)
        if self._predicate is not None:
            batch = batch.filter(evaluate(self._predicate, batch, self._needed))
        return batch


@dataclass(frozen=True, slots=True)
class _Parts:
    """Storage whose paths may stand for parts of files."""

    fileio: FileIO

    def open_input(self, path: str) -> pa.NativeFile:
        """Open the file, or the part of one."""
        part = slice_of(path)
        return self.fileio.open_input(path) if part is None else open_slice(self.fileio, part)

    @property
    def is_remote(self) -> bool:
        """Whether the storage is."""
        return self.fileio.is_remote

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the file, or of the part of one."""
        part = slice_of(path)
        if part is None:
            return self.fileio.read_ranges(path, ranges)
        return self.fileio.read_ranges(part.path, ranges_within(part, ranges))


def _never_null(fields: Sequence[DataField], file_fields: Sequence[DataField]) -> list[str]:
    """Names of the key and system columns."""
    ids = {f.id for f in file_fields}
    return [
        f.name
        for f in fields
        if f not in TRACKING_FIELDS and (is_system_name(f.name) or key_field(f).id in ids)
    ]


def _check_no_nulls(batch: pa.RecordBatch, names: Sequence[str], path: str) -> None:
    """Refuse nulls where no writer puts any: a merge would compute with them."""
    for name in names:
        if batch.column(name).null_count:
            raise corrupt(path, f"its column '{name}' holds nulls")


def open_writer(
    fileio: FileIO,
    path: str,
    fields: Sequence[DataField],
    options: FormatOptions,
    *,
    stats_columns: frozenset[str],
) -> DataFileWriter:
    """Open a new data file.

    Parameters
    ----------
    fields : sequence of DataField
        The file's columns in order, system columns included, all of scalar type.

    Returns
    -------
    DataFileWriter
        To be closed or aborted by the caller.

    Raises
    ------
    UnsupportedError
        A column cannot be written as Paimon does; no file was made.
    AlreadyExistsError
        The name is taken.
    """
    writer = _WRITERS[options.file_format]
    return writer(fileio, path, fields, options, stats_columns=stats_columns)


def _reader_of(path: str) -> FileReader:
    reader = _READERS.get(format_of(path))
    if reader is None:
        message = (
            f"Data file {path} has a format that this version cannot read; it reads"
            f" {', '.join(sorted(_READERS))}. Read the table with Java Paimon."
        )
        raise UnsupportedError(message, kind="file_format", path=path)
    return reader


def _needed_fields(
    fields: Sequence[DataField],
    predicate: Predicate | None,
    predicate_fields: Sequence[DataField],
) -> tuple[DataField, ...]:
    if predicate is None:
        return tuple(fields)
    names = {f.name for f in fields}
    more = {f.name: f for f in predicate_fields if f.name not in names}
    lacking = sorted(columns_of(predicate) - names)
    assert all(name in more for name in lacking), f"no field for {lacking} of the predicate"
    return (*fields, *(more[name] for name in lacking))
