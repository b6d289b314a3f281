"""What becomes of a table of another format: schemas, entries, and a job that brings its files.

1. The footers of all files are read. Files of the same columns share a version of the schema; the
   last version is the table's own. So a column that was added, dropped or widened is read as after
   an ``ALTER TABLE`` of Paimon's.
2. A column keeps the id that its file has; without ids the columns of a name are one. So do the
   fields of rows inside a column.
3. Entries have the statistics of the footers. A file gets a name of Paimon's and keeps its bytes.
4. Deleted rows of a file become its deletion vector. It is read and checked with the footers, and
   written before the table's first snapshot, which names it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from tidelake.metadata.index.deletion_file import Frame
from tidelake.metadata.index.deletion_vector import encode_vector
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import TablePaths
from tidelake.options import Options, declared
from tidelake.store.file_meta import value_stats
from tidelake.table.cloning.file_copies import FileCopies, FileCopy
from tidelake.table.cloning.snapshot_clone import OneSnapshot
from tidelake.table.migration.foreign_table import ForeignFile, IncomingTable
from tidelake.table.migration.marked_rows import (
    NO_BUCKETS,
    ONLY_BUCKET,
    Marked,
    MarkedSnapshot,
)
from tidelake.telemetry import Env
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.field_ids import highest_id, paths_inside, with_ids_of


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
    vectors : tuple of (Frame or None)
        For each file its deleted rows as a vector of 64 bits; None if all are live.
    not_carried : tuple of str
        What the source declares and the new table does not have, a phrase each.
    """

    table: IncomingTable
    footers: tuple[ForeignFooter, ...]
    fields: tuple[DataField, ...]
    versions: tuple[tuple[DataField, ...], ...]
    of_file: tuple[int, ...]
    vectors: tuple[Frame | None, ...]
    not_carried: tuple[str, ...] = ()

    @property
    def not_null(self) -> tuple[str, ...]:
        """Columns that are NOT NULL in the new table, as in the source."""
        return tuple(field.name for field in self.fields if not field.type.nullable)

    @property
    def rows_count(self) -> int:
        """Live rows of all files."""
        deleted = sum(one.cardinality or 0 for one in self.vectors if one is not None)
        return sum(footer.row_count for footer in self.footers) - deleted

    @property
    def has_vectors(self) -> bool:
        """Whether any file has deleted rows."""
        return any(one is not None for one in self.vectors)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.table.files)


def read_footers(fileio: FileIO, table: IncomingTable, env: Env) -> ForeignRows:
    """Read all footers, and find the columns of the new table; files without rows are left out.

    Deleted rows are read too, as a file may have none but such.

    Raises
    ------
    CorruptError
        A file is no Parquet file, or it or its deletion vector is damaged.
    UnsupportedError, InvalidInputError
        A file cannot join a table, or files contradict each other.
    """
    read = partial(foreign_footer, int96_is_utc=table.int96_is_utc)
    calls = [partial(read, fileio, file.path) for file in table.files]
    found = list(zip(table.files, at_once(fileio, env.reads.files, calls), strict=True))
    marks = [partial(_vector, fileio, file, footer.row_count) for file, footer in found]
    vectors = at_once(fileio, env.reads.files, marks)
    kept = [
        (file, footer, vector)
        for (file, footer), vector in zip(found, vectors, strict=True)
        if footer.row_count > (0 if vector is None else vector.cardinality or 0)
    ]
    table = replace(table, files=tuple(file for file, _, _ in kept))
    footers = tuple(footer for _, footer, _ in kept)
    if table.by_name:
        table, footers = _numbered(table, footers)
    else:
        footers = _with_given_ids(table, footers)
    keys = {field.name for field in table.partition_fields} if table.by_name else set()
    for file, footer in zip(table.files, footers, strict=True):
        if inside := sorted(keys & {field.name for field in footer.fields}):
            what = f"it holds partition column '{inside[0]}' itself, maybe with another value"
            raise _contradicts(file, what)
    own = [_with_partition(table, footer.fields) for footer in footers]
    declared_fields = table.fields or _all_seen(own, table.partition_fields)
    fields = tuple(replace(f, type=all_nullable(f.type)) for f in declared_fields)
    for file, columns in zip(table.files, own, strict=True):
        _check_columns(table, fields, file, columns)
    required = {f.id for f in declared_fields if not f.type.nullable}
    proven = _without_nulls(required, table, footers)
    left = [f"NOT NULL of {f.name}" for f in declared_fields if f.id in required - proven]
    left += [f"NOT NULL inside {f.name}" for f in declared_fields if _is_stricter_inside(f.type)]
    versions = [columns for columns in dict.fromkeys(own) if columns != fields]
    versions.append(fields)
    number = {columns: i for i, columns in enumerate(versions)}
    of_file = tuple(number[columns] for columns in own)
    return ForeignRows(
        table,
        footers,
        _not_null(fields, proven),
        tuple(_not_null(columns, proven) for columns in versions),
        of_file,
        tuple(vector for _, _, vector in kept),
        (*left, *table.not_carried),
    )


def _vector(fileio: FileIO, file: ForeignFile, row_count: int) -> Frame | None:
    """The deleted rows of a file: a bit per row or less, where positions take eight bytes."""
    if file.deleted is None:
        return None
    positions = file.deleted.read(fileio, row_count=row_count)
    return (
        Frame(encode_vector(positions, bitmap64=True), len(positions)) if len(positions) else None
    )


def all_nullable(data_type: DataType) -> DataType:
    """A type with nulls, inside it too; keys of maps have none."""
    if not data_type.is_nested:
        return data_type.as_nullable()
    children = [all_nullable(child) for child in data_type.children]
    if data_type.root is TypeRoot.MAP:
        children[0] = children[0].not_null()
    return replace(data_type, nullable=True, children=tuple(children))


def _is_stricter_inside(data_type: DataType) -> bool:
    return data_type.as_nullable() != all_nullable(data_type)


def _not_null(fields: Sequence[DataField], ids: Collection[int]) -> tuple[DataField, ...]:
    return tuple(replace(f, type=f.type.not_null()) if f.id in ids else f for f in fields)


def _without_nulls(
    required: Collection[int], table: IncomingTable, footers: Sequence[ForeignFooter]
) -> frozenset[int]:
    """The columns among `required` of which every file has each row, and says that none is null."""
    left = set(required)
    keys = [field.id for field in table.partition_fields]
    for file, footer in zip(table.files, footers, strict=True):
        stats = zip((f.id for f in footer.fields), footer.stats, strict=True)
        known = {field_id for field_id, one in stats if one.null_count == 0}
        known |= {k for k, value in zip(keys, file.partition, strict=True) if value is not None}
        left &= known
    return frozenset(left)


def _with_given_ids(
    table: IncomingTable, footers: Sequence[ForeignFooter]
) -> tuple[ForeignFooter, ...]:
    """Give the columns of files without ids those that the table's log has for their names.

    A column that the log does not name was dropped; it gets an id that no other has.
    """
    unknown: dict[tuple[str, ...], int] = {}
    named = [one for one in footers if one.has_ids]
    highest = max(
        highest_id(table.fields or ()),
        *table.ids_of_names.values(),
        *(highest_id(footer.fields) for footer in named),
        0,
    )

    def id_of(path: tuple[str, ...]) -> int:
        known = table.ids_of_names.get(path)
        return unknown.setdefault(path, highest + 1 + len(unknown)) if known is None else known

    found = []
    for file, footer in zip(table.files, footers, strict=True):
        if not (footer.has_ids or table.ids_of_names):
            raise _contradicts(file, "it has no field ids, by which the table finds its columns")
        fields = footer.fields if footer.has_ids else with_ids_of(footer.fields, id_of)
        found.append(replace(footer, fields=fields))
    return tuple(found)


def _numbered(
    table: IncomingTable, footers: Sequence[ForeignFooter]
) -> tuple[IncomingTable, tuple[ForeignFooter, ...]]:
    """Give columns of one name one id: that of the files that have ids, or a new one.

    Where the table names its columns (Delta), files may spell them in other cases. Fields of rows
    inside a column count as columns.
    """
    ignores_case = table.fields is not None

    def key(path: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.lower() for name in path) if ignores_case else path

    ids: dict[tuple[str, ...], int] = {}
    for file, footer in zip(table.files, footers, strict=True):
        paths = [key(path) for path, _ in paths_inside(footer.fields)]
        if len(set(paths)) != len(paths):
            raise _contradicts(file, "it has columns whose names differ in case alone")
        for path, field_id in paths_inside(footer.fields) if footer.has_ids else ():
            if ids.setdefault(key(path), field_id) != field_id:
                raise _contradicts(file, f"column '{'.'.join(path)}' has another field id")
    if len(set(ids.values())) != len(ids):
        message = f"Files of {table.location} have one field id for columns of several names."
        raise InvalidInputError(message, kind="migrate_columns", path=table.location)
    first_free = max(ids.values(), default=-1) + 1
    declared_fields = (*(table.fields or ()), *table.partition_fields)
    for path, _ in paths_inside((*(f for foot in footers for f in foot.fields), *declared_fields)):
        if key(path) not in ids:
            ids[key(path)] = first_free
            first_free += 1

    def own(fields: Sequence[DataField]) -> tuple[DataField, ...]:
        return with_ids_of(fields, lambda path: ids[key(path)])

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
    found: dict[str, DataField] = {}
    for field in (f for columns in own for f in columns if f.name not in names):
        before = found.get(field.name, field)
        found[field.name] = replace(field, type=_with_all(before.type, field.type))
    return (*found.values(), *partition_fields)


def _with_all(before: DataType, after: DataType) -> DataType:
    """A type with the fields of rows that either has; else the later one."""
    if before.root is not after.root or not after.is_nested:
        return after
    if after.root is not TypeRoot.ROW:
        pairs = zip(before.children, after.children, strict=True)
        return replace(after, children=tuple(_with_all(old, new) for old, new in pairs))
    found = dict(zip(before.child_fields, before.children, strict=True))
    for field, child in zip(after.child_fields, after.children, strict=True):
        found[field] = _with_all(found.get(field, child), child)
    return replace(after, child_fields=tuple(found), children=tuple(found.values()))


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
    if found.is_nested and found.root is wanted.root:
        if found.root is not TypeRoot.ROW:
            return all(map(_becomes, found.children, wanted.children))
        ids = (field_id for field_id, _ in wanted.child_fields)
        known = dict(zip(ids, wanted.children, strict=True))
        own = zip(found.child_fields, found.children, strict=True)
        return all(_becomes(child, known.get(i, child)) for (i, _), child in own)
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
    marked: list[Marked] = []
    files = zip(rows.table.files, rows.footers, rows.vectors, strict=True)
    for i, (file, footer, vector) in enumerate(files):
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
        if vector is not None:
            marked.append(Marked(partition, meta, vector))
    content = OneSnapshot(EntryTable.of(entries))
    publication = MarkedSnapshot(content, tuple(marked)) if marked else content
    return FileCopies(tuple(copies), fileio, publication)
