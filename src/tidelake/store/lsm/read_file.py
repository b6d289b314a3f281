"""Reads a bucket's files one after the other, as rows inside the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from tidelake.format import (
    DataFileRead,
    ReadAhead,
    files_in_turn,
    held_bytes,
    orc_zone_moves,
    read_batches,
)
from tidelake.merge import RunSource
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.store.context import StoreContext
from tidelake.store.lsm.keyed_file import row_fields
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class BucketReader:
    """Reads the files of one bucket.

    Parameters
    ----------
    path_of : callable
        A file's path.
    deleted_of : callable
        The ordinals, ascending, of a file's deleted rows.
    """

    context: StoreContext
    path_of: Callable[[DataFileMeta], str]
    deleted_of: Callable[[DataFileMeta], Positions]

    def batches(
        self,
        files: Sequence[DataFileMeta],
        fields: Sequence[DataField],
        batch_bytes: int,
        *,
        runs_count: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        """Read files.

        Parameters
        ----------
        files : sequence of DataFileMeta
            The files, in key order if they make a run.
        batch_bytes : int
            Most bytes of a batch.
        runs_count : int
            Runs that are read side by side, which share the memory for what is fetched early.

        Yields
        ------
        pyarrow.RecordBatch
            All rows of the files except deleted ones; never empty.

        Raises
        ------
        CorruptError
            A file, or a deletion vector, is damaged or does not match its metadata.
        """

        def read(file: DataFileMeta, ahead: ReadAhead) -> DataFileRead:
            deleted = self.deleted_of(file)
            return self._read(file, fields, batch_bytes, deleted if len(deleted) else None, ahead)

        yield from self._in_turn(files, read, runs_count)

    def physical_batches(
        self, files: Sequence[DataFileMeta], fields: Sequence[DataField], batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Read files with their deleted rows, for callers that count rows by position."""

        def read(file: DataFileMeta, ahead: ReadAhead) -> DataFileRead:
            return self._read(file, fields, batch_bytes, None, ahead)

        yield from self._in_turn(files, read, runs_count=1)

    def _in_turn(
        self,
        files: Sequence[DataFileMeta],
        read: Callable[[DataFileMeta, ReadAhead], DataFileRead],
        runs_count: int,
    ) -> Iterator[pa.RecordBatch]:
        with closing(
            files_in_turn(
                files,
                read,
                size_bytes=lambda file: file.file_size_bytes,
                ahead=ReadAhead.of(self.context.env).shared_by(runs_count),
                is_remote=self.context.fileio.is_remote,
            )
        ) as turns:
            for _, rows in turns:
                yield from rows

    def source(
        self, files: Sequence[DataFileMeta], *, level: int, runs_count: int = 1
    ) -> RunSource:
        """Return the rows of a run for a merge of so many, which reads them on demand."""
        fields = row_fields(self.context.schema)
        return RunSource(
            lambda batch_bytes: self.batches(files, fields, batch_bytes, runs_count=runs_count),
            size_bytes=sum(f.file_size_bytes for f in files),
            held_bytes=self.held_bytes(files),
            level=level,
        )

    def held_bytes(
        self, files: Sequence[DataFileMeta], fields: Sequence[DataField] | None = None
    ) -> int:
        """The most bytes that reading the files in turn holds; for whole rows by default."""
        fields = row_fields(self.context.schema) if fields is None else fields
        return max(
            held_bytes(
                f.file_name, fields, file_size_bytes=f.file_size_bytes, row_count=f.row_count
            )
            for f in files
        )

    def _read(
        self,
        file: DataFileMeta,
        fields: Sequence[DataField],
        batch_bytes: int,
        deleted: Positions | None,
        ahead: ReadAhead,
    ) -> DataFileRead:
        context = self.context
        return read_batches(
            context.fileio,
            self.path_of(file),
            fields,
            file_fields=context.file_fields(file),
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
            deleted=deleted,
            batch_bytes=batch_bytes,
            zone=context.env.zone,
            orc_zone_moves=orc_zone_moves(context.options),
            ahead=ahead,
            cores=context.env.cores,
            table=context.paths.location,
        )
