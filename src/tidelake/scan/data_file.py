"""Reads one data file of a split, unmerged."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import UnsupportedError
from tidelake.format import DataFileRead, ReadAhead, kv_fields, orc_zone_moves, read_batches
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import read_deletions
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.metadata.partition_columns import partition_columns
from tidelake.scan.context import ReadContext
from tidelake.scan.split import Split
from tidelake.types import DataField
from tidelake.types.predicate import Predicate


def file_columns(context: ReadContext, file: DataFileMeta) -> tuple[DataField, ...]:
    """The columns of the table that a file holds: those of its schema, or some of them."""
    fields = context.file_schema(file.schema_id, file_name=file.file_name).fields
    if file.write_cols is None:
        return fields
    return tuple(field for field in fields if field.name in file.write_cols)


def check_has_all(context: ReadContext, file: DataFileMeta) -> None:
    """Refuse a file with some of the columns where rows of one file are wanted.

    Raises
    ------
    UnsupportedError
        A commit of a table with data evolution wrote it.
    """
    if file.write_cols is None:
        return
    schema = context.file_schema(file.schema_id, file_name=file.file_name)
    if len(file_columns(context, file)) < len(schema.fields):
        message = (
            f"File '{file.file_name}' of table {context.paths.location} holds the columns"
            f" {', '.join(file.write_cols)} of rows whose others are in older files (data"
            " evolution): the table can be read, but not its changes one by one."
        )
        raise UnsupportedError(message, kind="data_evolution", file=file.file_name)


def read_file(  # noqa: PLR0913 - all that is known of one file
    context: ReadContext,
    split: Split,
    file: DataFileMeta,
    fields: Sequence[DataField],
    *,
    predicate: Predicate | None = None,
    deleted: Positions | None = None,
    rows: Positions | None = None,
    batch_bytes: int | None = None,
    ahead: ReadAhead | None = None,
    file_fields: Sequence[DataField] | None = None,
) -> DataFileRead:
    """Read one data file of a split unmerged, without the rows of the given ordinals.

    Parameters
    ----------
    context, split, file
        The file, and its split; the split's deletion vectors are ignored.
    predicate : Predicate, optional
        Bound to ``context.schema``.
    deleted : int64 array, optional
        Ascending ordinals of rows to leave out.
    rows : int64 array, optional
        Ascending ordinals of the only rows to read.
    batch_bytes : int, optional
        The size of a batch; by default from the memory.
    ahead : ReadAhead, optional
        What may be fetched early of a remote storage; by default what one task may.

    file_fields : sequence of DataField, optional
        The columns that the file has; by default it must have those of its schema.

    Raises
    ------
    CorruptError
        The file is damaged or does not match the manifest; the message names it.
    UnsupportedError
        The file holds some of the columns, and `file_fields` is not given.
    """
    if file_fields is None:
        check_has_all(context, file)
    schema = context.file_schema(file.schema_id, file_name=file.file_name)
    return read_batches(
        context.fileio,
        context.paths.data_file(split.partition, split.bucket, file),
        fields,
        predicate=predicate,
        predicate_fields=context.schema.fields,
        file_fields=file_fields or (kv_fields(schema) if schema.primary_keys else schema.fields),
        file_size_bytes=file.file_size_bytes,
        row_count=file.row_count,
        deleted=deleted,
        wanted=rows,
        batch_bytes=batch_bytes or context.env.memory.batch_bytes,
        zone=context.env.zone,
        orc_zone_moves=orc_zone_moves(context.options),
        ahead=ReadAhead.of(context.env) if ahead is None else ahead,
        cores=context.env.cores,
        table=context.paths.location,
        constants=partition_columns(context.paths, context.schema, split.partition),
    )


def deleted_rows(context: ReadContext, split: Split, file: DataFileMeta) -> Positions | None:
    """The ordinals of a file's deleted rows by its deletion vector; None without one.

    Raises
    ------
    CorruptError, UnsupportedError, NotFoundError
        As :func:`tidelake.metadata.index.deletion_file.read_deletions`.
    """
    where = split.deletions.get(file.file_name)
    if where is None:
        return None
    return read_deletions(context.fileio, where, file_name=file.file_name, row_count=file.row_count)
