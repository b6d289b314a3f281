"""What becomes of a table of another format: schemas, entries, and a job that brings its files.

1. The footers of all files are read. Files of the same columns share a version of the schema; the
   last version is the table's own. So a column that was added, dropped or widened is read as after
   an ``ALTER TABLE`` of Paimon's.
2. A column keeps the id that its file has; without ids the columns of a name are one.
3. Entries have the statistics of the footers. A file gets a name of Paimon's and keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import InvalidInputError
from tidelake.fileio import FileIO
from tidelake.format.parquet.foreign_footer import ForeignFooter, foreign_footer
from tidelake.format.stats import UNKNOWN_STATS
from tidelake.metadata.at_once import at_once
from tidelake.metadata.data_file import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
)
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.store.file_meta import value_stats
from tidelake.table.cloning.file_copies import FileCopies, FileCopy
from tidelake.table.cloning.snapshot_clone import OneSnapshot
from tidelake.table.migration.foreign_table import ForeignFile, IncomingTable
from tidelake.telemetry import Env
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.field_ids import highest_id

ONLY_BUCKET, NO_BUCKETS = 0, -1


@dataclass(frozen=True, slots=True)
class ForeignRows:
    """A table of another format with the footers of its files.

    Parameters
    ----------
    fields : tuple of DataField
        The columns of the new table.
    versions : tuple of tuple of DataField
        The columns of files where they differ, each once, and last those of the table.
    of_file : tuple of int
        For each file the number of its version.
    """

    table: IncomingTable
    footers: tuple[ForeignFooter, ...]
    fields: tuple[DataField, ...]
    versions: tuple[tuple[DataField, ...], ...]
    of_file: tuple[int, ...]

    @property
    def rows_count(self) -> int:
        """Rows of all files."""
        return sum(footer.row_count for footer in self.footers)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.table.files)


def read_footers(fileio: FileIO, table: IncomingTable, env: Env) -> ForeignRows:
    """Read all footers, and find the columns of the new table; files without rows are left out.

    Raises
    ------
    CorruptError
        A file is no Parquet file, or damaged.
    UnsupportedError, InvalidInputError
        A file cannot join a table, or files contradict each other.
    """
    calls = [partial(foreign_footer, fileio, file.path) for file in table.files]
    found = zip(table.files, at_once(fileio, env.reads.files, calls), strict=True)
    kept = [(file, footer) for file, footer in found if footer.row_count]
    table = replace(table, files=tuple(file for file, _ in kept))
    footers = tuple(footer for _, footer in kept)
    if table.by_name:
        table, footers = _numbered(table, footers)
    keys = {field.name for field in table.partition_fields} if table.by_name else set()
    for file, footer in zip(table.files, footers, strict=True):
        if inside := sorted(keys & {field.name for field in footer.fields}):
            what = f"it holds partition column '{inside[0]}' itself, maybe with another value"
            raise _contradicts(file, what)
        if not (table.by_name or footer.has_ids):
            raise _contradicts(file, "it has no field ids, by which the table finds its columns")
    own = [_with_partition(table, footer.fields) for footer in footers]
    fields = table.fields or _all_seen(own, table.partition_fields)
    for file, columns in zip(table.files, own, strict=True):
        _check_columns(table, fields, file, columns)
    versions = [columns for columns in dict.fromkeys(own) if columns != fields]
    versions.append(fields)
    number = {columns: i for i, columns in enumerate(versions)}
    of_file = tuple(number[columns] for columns in own)
    return ForeignRows(table, footers, fields, tuple(versions), of_file)


def _numbered(
    table: IncomingTable, footers: Sequence[ForeignFooter]
) -> tuple[IncomingTable, tuple[ForeignFooter, ...]]:
    """Give columns of one name one id: that of the files that have ids, or a new one.

    Where the table names its columns (Delta), files may spell them in other cases.
    """
    key = str if table.fields is None else str.lower
    ids: dict[str, int] = {}
    for file, footer in zip(table.files, footers, strict=True):
        if len({key(field.name) for field in footer.fields}) != len(footer.fields):
            raise _contradicts(file, "it has columns whose names differ in case alone")
        for field in footer.fields if footer.has_ids else ():
            if ids.setdefault(key(field.name), field.id) != field.id:
                raise _contradicts(file, f"column '{field.name}' has another field id")
    if len(set(ids.values())) != len(ids):
        message = f"Files of {table.location} have one field id for columns of several names."
        raise InvalidInputError(message, kind="migrate_columns", path=table.location)
    first_free = max(ids.values(), default=-1) + 1
    declared_fields = (*(table.fields or ()), *table.partition_fields)
    for field in (*(f for footer in footers for f in footer.fields), *declared_fields):
        if key(field.name) not in ids:
            ids[key(field.name)] = first_free
            first_free += 1

    def own(fields: Sequence[DataField]) -> tuple[DataField, ...]:
        return tuple(replace(field, id=ids[key(field.name)]) for field in fields)

    fields = None if table.fields is None else own(table.fields)
    table = replace(table, fields=fields, partition_fields=own(table.partition_fields))
    return table, tuple(replace(footer, fields=own(footer.fields)) for footer in footers)


def _with_partition(table: IncomingTable, fields: Sequence[DataField]) -> tuple[DataField, ...]:
    """The columns of a file, and the partition columns that it lacks."""
    names = {field.name for field in fields}
    return (*fields, *(f for f in table.partition_fields if f.name not in names))


def _all_seen(
    own: Sequence[Sequence[DataField]], partition_fields: Sequence[DataField]
) -> tuple[DataField, ...]:
    """The columns of all files, as they come; those of the partition last."""
    names = {field.name for field in partition_fields}
    found = {f.name: f for columns in own for f in reversed(columns) if f.name not in names}
    first = {f.name: None for columns in own for f in columns if f.name not in names}
    return (*(found[name] for name in first), *partition_fields)


def _check_columns(
    table: IncomingTable,
    fields: Sequence[DataField],
    file: ForeignFile,
    columns: Sequence[DataField],
) -> None:
    wanted = {field.id: field for field in fields}
    for column in columns:
        field = wanted.get(column.id)
        if field is not None and not _becomes(column.type, field.type):
            raise _contradicts(
                file, f"column '{column.name}' is {column.type}, and {field.type} in the table"
            )
    missing = {f.name for f in table.partition_fields} - {column.name for column in columns}
    if missing:
        raise _contradicts(file, f"it has partition column '{min(missing)}' under another name")


def _becomes(found: DataType, wanted: DataType) -> bool:
    """Whether values of a type in a file are read as another without loss, by Paimon's casts."""
    if found == wanted:
        return True
    if TypeRoot.DECIMAL is found.root is wanted.root:
        return found.scale == wanted.scale and (found.precision or 0) <= (wanted.precision or 0)
    for wider in _WIDER:
        if found.root in wider and wanted.root in wider:
            return wider.index(found.root) <= wider.index(wanted.root)
    return False


_WIDER = (
    (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT),
    (TypeRoot.FLOAT, TypeRoot.DOUBLE),
)


def _contradicts(file: ForeignFile, what: str) -> InvalidInputError:
    message = (
        f"File {file.path} does not go with the others: {what}. Move such rows by reading and"
        " writing them."
    )
    return InvalidInputError(message, kind="migrate_columns", path=file.path)


def schemas_of(rows: ForeignRows, made: TableSchema) -> tuple[TableSchema, ...]:
    """The versions of the new table's schema; `made` has its keys and options."""
    highest = max(highest_id(columns) for columns in rows.versions)
    return tuple(
        replace(made, id=i, fields=columns, highest_field_id=highest)
        for i, columns in enumerate(rows.versions)
    )


def copies_of_rows(
    fileio: FileIO, rows: ForeignRows, paths: TablePaths, options: Options, env: Env
) -> FileCopies:
    """The job that brings the files to the paths of the new table."""
    prefix = f"{options.get(declared.DATA_FILE_PREFIX)}{env.ids.uuid()}"
    dense = options.get(declared.METADATA_STATS_DENSE_STORE)
    now_ms = env.clock.now_ms() + env.clock.local_offset_ms()
    entries: list[ManifestEntry] = []
    copies: list[FileCopy] = []
    for i, (file, footer) in enumerate(zip(rows.table.files, rows.footers, strict=True)):
        columns = rows.versions[rows.of_file[i]]
        known = dict(zip((f.id for f in footer.fields), footer.stats, strict=True))
        values, covered = value_stats(
            columns, [known.get(f.id, UNKNOWN_STATS) for f in columns], dense=dense
        )
        name = f"{prefix}-{i}.parquet"
        partition = serialize_row(file.partition, paths.partition_types)
        meta = DataFileMeta(
            file_name=name,
            file_size_bytes=file.size_bytes,
            row_count=footer.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=values,
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=rows.of_file[i],
            level=0,
            creation_time_ms=now_ms,
            delete_row_count=0,
            file_source=int(FileSource.APPEND),
            value_stats_cols=covered,
        )
        entries.append(ManifestEntry(FileKind.ADD, partition, ONLY_BUCKET, NO_BUCKETS, meta))
        target = paths.data_file(partition, ONLY_BUCKET, name)
        copies.append(FileCopy(file.path, target, file.size_bytes))
    return FileCopies(tuple(copies), fileio, OneSnapshot(EntryTable.of(entries)))
