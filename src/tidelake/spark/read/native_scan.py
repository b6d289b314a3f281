"""Native scans: data files through Spark's own Parquet reader.

1. A file is *native* if Spark reads its storage (:mod:`tidelake.spark.read.native_storage`) and
   exactly the kernel's rows from it: Parquet, a path without characters of a Spark pattern, a name
   that Spark does not skip, and columns with the table's types or types that widen to them without
   loss.
2. Native files are grouped by how their columns map to the table's (usually one group per schema
   version). Each group is one scan: the file's own schema is given, nothing is inferred, and a
   select renames and casts. A column that the file's schema lacks is null. If files hold deletes,
   the scan keeps only rows of other kinds. If masks hide some of their rows, it keeps only the
   others (:mod:`tidelake.spark.read.masked_scan`).
3. Spark applies the predicate again, and pushes it into the row groups.

Files contain all their columns, including those of the partition; Spark's partition discovery does
not run on explicit files with an explicit schema. Where a list of files is given, Spark takes the
columns of the partition from it (:mod:`tidelake.spark.read.partition_columns`). Measured:
`docs/internals/on-spark.md`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from tidelake.engine.scan import KIND_FIELD, HiddenRows, ReadContext, Split, is_read_alike
from tidelake.engine.write import ROW_KIND_COLUMN, DataFileMeta
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema, to_spark_type
from tidelake.spark.read.buckets import Buckets
from tidelake.spark.read.listed_files import FIRST_WORD, ROW_INDEX
from tidelake.spark.read.masked_scan import MaskedFile, masked_frame, takes_masks
from tidelake.spark.read.native_storage import NativeStorage, local_or_none
from tidelake.spark.read.partition_columns import PartitionColumns
from tidelake.spark.read.plan_size import field_types, unread_column
from tidelake.types import DataField, DataType, RowKind, TypeRoot

PATTERN_CHARACTERS = frozenset("[]{}*?\\:^\n")
SKIPPED_PREFIXES = ("_", ".")
SKIPPED_SUFFIX = "_COPYING_"
SCHEMES_WITH_BLOCKS = ("hdfs:", "viewfs:")
"""Storages that know which hosts have the blocks of a file."""
RESERVED_COLUMNS = frozenset({ROW_INDEX, FIRST_WORD})
"""Columns that a scan under masks has besides those of the files."""
_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

READ_OPTIONS = {
    # wrong rows are worse than an error, whatever the session says
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

ROWS_OPTION = "tidelake.rows"
"""The option of a scan that tells its number of rows, for ``count(*)``; Spark ignores it."""

COLUMNS_MAX = 200
"""A table with more has only the columns that a query needs in its plan: each costs some 30 us."""

SourceFields = tuple[DataField | None, ...]
"""For each wanted column the file's own field; None if the file lacks it."""

LIVE_KINDS = (int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))


@dataclass(frozen=True, slots=True)
class NativeGroup:
    """Files that one native scan reads.

    Parameters
    ----------
    source : tuple of (DataField or None)
        The files' own fields, one per wanted column.
    live_only : bool
        Whether the files may hold deletes, which must be left out.
    masked : tuple of MaskedFile
        If masks hide rows: the files once more, each with its mask.
    listed : tuple of MaskedFile
        If they hide none: the files once more, unless Spark must find them itself.
    whole : tuple of (DataField or None)
        The same for all columns of the table, if the files have one schema and are not too wide.
    """

    source: SourceFields
    paths: tuple[str, ...]
    live_only: bool = False
    masked: tuple[MaskedFile, ...] = ()
    rows_count: int | None = field(default=None, compare=False)
    listed: tuple[MaskedFile, ...] = ()
    table: str = field(default="", compare=False)
    whole: SourceFields = field(default=(), compare=False)


class NativeFiles:
    """Collects the files of one scan that Spark may read, in groups.

    Parameters
    ----------
    case_sensitive : bool
        Whether the session distinguishes ``a`` from ``A``.
    storage : NativeStorage, optional
        What Spark does with the storage; else it reads local files alone.
    """

    def __init__(
        self,
        context: ReadContext,
        fields: Sequence[DataField],
        *,
        case_sensitive: bool,
        storage: NativeStorage | None = None,
    ) -> None:
        self._context = context
        self._fields = tuple(fields)
        self._storage = storage or local_or_none(context.fileio)
        self._clear = self._storage.is_read and (case_sensitive or _names_differ(context, fields))
        self._sources: dict[int, SourceFields | None] = {}
        # never under masks, where the last part is true
        self._plain: dict[tuple[SourceFields, bool, bool], list[MaskedFile]] = {}
        self._masked: dict[SourceFields, list[MaskedFile]] = {}
        self._schema_ids: dict[SourceFields, set[int]] = {}

    def readable(self, split: Split, file: DataFileMeta, *, with_metadata: bool = False) -> bool:
        """Whether Spark reads the file as the kernel does; if wanted, under a mask too."""
        path = self._context.paths.data_file(split.partition, split.bucket, file)
        if not self._clear or not _readable_path(path) or self._source(file) is None:
            return False
        if not with_metadata:
            return True
        return not self._has_reserved(file)

    def _has_reserved(self, file: DataFileMeta) -> bool:
        """Whether a column of the file, wanted or not, has a name of a scan under masks."""
        schema = self._context.file_schema(file.schema_id, file_name=file.file_name)
        return not RESERVED_COLUMNS.isdisjoint(f.name.lower() for f in schema.fields)

    def add(self, split: Split, file: DataFileMeta, *, live_only: bool = False) -> None:
        """Add a file to read, unless it has no live row. Requires: it is readable."""
        if live_only and file.delete_row_count == file.row_count:
            return  # Spark looks at its partition alone, and must not fail for rows that are gone
        source = self._source(file)
        assert source is not None, f"Spark does not read {file.file_name} as the kernel does"
        path = self._named(split, file)
        added = _listed(path, split, file, None)
        self._schema_ids.setdefault(source, set()).add(file.schema_id)
        key = (source, live_only, self._has_reserved(file))
        self._plain.setdefault(key, []).append(added)

    def add_masked(self, split: Split, file: DataFileMeta, hidden: HiddenRows | None) -> None:
        """Add a file without its hidden rows, if it has others.

        Requires: it is readable, with metadata.
        """
        if hidden is not None and hidden.hidden_count == file.row_count:
            return
        source = self._source(file)
        assert source is not None, f"Spark does not read {file.file_name} as the kernel does"
        path = self._named(split, file)
        masked = _listed(path, split, file, hidden)
        self._schema_ids.setdefault(source, set()).add(file.schema_id)
        self._masked.setdefault(source, []).append(masked)

    def plain_path(self, split: Split, file: DataFileMeta) -> str | None:
        """The path of a file that has the columns as they are wanted; None where Spark casts."""
        if not self.readable(split, file):
            return None
        source = self._source(file)
        pairs = zip(source or (), self._fields, strict=True)
        if any(own is None or _changed(own, wanted) for own, wanted in pairs):
            return None
        return self._named(split, file)

    def _named(self, split: Split, file: DataFileMeta) -> str:
        """Spark's name of a file."""
        path = self._context.paths.data_file(split.partition, split.bucket, file)
        return self._storage.named(path)

    def groups(self) -> list[NativeGroup]:
        """The added files, one group per scan.

        Files without a mask join those with masks where these are the most: a scan more costs a
        query more than the tests of their rows.
        """
        if not self._plain and not self._masked:
            return []  # of a storage, perhaps, for which Spark has no names
        table = self._storage.named(self._context.paths.location)
        plain = {key: list(files) for key, files in self._plain.items()}
        found = []
        for source, files in self._masked.items():
            beside = plain.setdefault((source, False, False), [])
            if not any(file.hides for file in files):
                beside += files
                continue
            if _rows(files) >= _rows(beside):
                files, beside[:] = [*files, *beside], []
            paths = tuple(f.path for f in files)
            whole = self._whole(source)
            found.append(NativeGroup(source, paths, masked=tuple(files), table=table, whole=whole))
        return [
            NativeGroup(
                source,
                tuple(f.path for f in files),
                live_only,
                rows_count=_rows(files),
                listed=() if has_reserved or not _is_listable(files) else tuple(files),
                table=table,
                whole=() if has_reserved else self._whole(source),
            )
            for (source, live_only, has_reserved), files in plain.items()
            if files
        ] + found

    def _whole(self, source: SourceFields) -> SourceFields:
        """The files' own fields for all columns, if these files have one schema, not too wide."""
        first, *others = self._schema_ids[source]
        fields = self._context.schemas[first].fields
        if others or len(fields) > COLUMNS_MAX:
            return ()
        by_id = {f.id: f for f in fields}
        return tuple(by_id.get(f.id) for f in self._context.schema.fields)

    def _source(self, file: DataFileMeta) -> SourceFields | None:
        """The file's own fields for the wanted columns; None if Spark must not read them."""
        if file.schema_id not in self._sources:
            schema = self._context.file_schema(file.schema_id, file_name=file.file_name)
            by_id = {f.id: f for f in schema.fields}
            source = tuple(by_id.get(f.id) for f in self._fields)
            readable = any(s is not None for s in source) and all(
                _is_native(s, f) for s, f in zip(source, self._fields, strict=True)
            )
            self._sources[file.schema_id] = source if readable else None
        return self._sources[file.schema_id]


def _listed(path: str, split: Split, file: DataFileMeta, hidden: HiddenRows | None) -> MaskedFile:
    size, rows = file.file_size_bytes, file.row_count
    return MaskedFile(path, size, rows, hidden, split.bucket, split.partition)


def _is_listable(files: Sequence[MaskedFile]) -> bool:
    """Whether Spark need not ask the storage for the files: it looks for near blocks on some."""
    return not any(file.path.startswith(SCHEMES_WITH_BLOCKS) for file in files)


def _rows(files: Sequence[MaskedFile]) -> int:
    return sum(file.rows_count for file in files)


def _is_native(source: DataField | None, field: DataField) -> bool:
    if not field.type.nullable and (source is None or source.type.nullable):
        return False  # the kernel refuses nulls of older files
    if source is None:
        return True
    if source.name.lower() == ROW_INDEX:
        return False  # Spark would give the positions of rows instead, or refuse the type
    return is_read_alike(source.type) and _widens(source.type, field.type)


def native_frame(
    spark: SparkSession,
    group: NativeGroup,
    fields: Sequence[DataField],
    condition: Column | None,
    *,
    with_kinds: bool = False,
    context: ReadContext | None = None,
    buckets: Buckets | None = None,
) -> DataFrame:
    """One native scan.

    Parameters
    ----------
    fields : sequence of DataField
        The columns needed; the frame has them, in order.
    with_kinds : bool
        Whether the frame has ``_row_kind`` before them: the kind of each row in a primary-key
        table's files. Requires: not ``group.live_only``.
    context : ReadContext, optional
        The table: Spark is told of all its columns, and so knows the share of those needed, and
        takes those of its partitions from the list of files.
    """
    every = context.schema.fields if context else ()
    own = [f for f in group.source if f is not None]
    if group.live_only or with_kinds:
        own.append(KIND_FIELD)
    schema = _data_schema(own, group.whole, every)
    options = dict(READ_OPTIONS)
    if group.rows_count is not None:
        options[ROWS_OPTION] = str(group.rows_count)
    files, found = group.masked or group.listed, len(schema)
    if group.masked or (files and not is_remote() and takes_masks(spark)):
        known, stored = (every, group.whole) if every and group.whole else (fields, group.source)
        if buckets and not buckets.hold_for([f.name for f in known], stored):
            buckets = None
        partitions = PartitionColumns.of(context, known, stored) if context else None
        names, found = [f.name for f in own], len(own)
        if partitions:
            schema = StructType([c for c in schema if c.name not in partitions.names])
        frame = masked_frame(
            spark,
            files,
            schema,
            options,
            wanted=names,
            table=group.table,
            buckets=buckets,
            partitions=partitions,
        )
    else:
        frame = spark.read.schema(schema).options(**options).parquet(*group.paths)
    if group.live_only:
        frame = frame.filter(F.col(KIND_FIELD.name).isin(*LIVE_KINDS))
    pairs = list(zip(group.source, fields, strict=True))
    kinds = [_kind_name().alias(ROW_KIND_COLUMN)] if with_kinds else []
    if len(pairs) != found or any(s is None or _changed(s, f) for s, f in pairs):
        frame = frame.select(*kinds, *(_mapped(s, f) for s, f in pairs))
    return frame if condition is None else frame.filter(condition)


def _data_schema(
    own: Sequence[DataField], whole: SourceFields, every: Sequence[DataField]
) -> StructType:
    """The files' columns as Spark is told of them; it reads those that a plan needs.

    All of them where they are known: Spark then takes scans of one table for the same, whatever
    columns they need, and merges sub-queries and exchanges. Else those needed, and one as wide as
    the others.
    """
    read = {f.id for f in own}
    if not every or not whole:
        unread = unread_column(field_types(f for f in every if f.id not in read))
        return StructType([*spark_schema(own).fields, *unread])
    kinds = [f for f in own if f is KIND_FIELD]
    told = [f for f in whole if f is not None and (f.id in read or field_types([f]))]
    return spark_schema([*told, *kinds])


def _changed(source: DataField, field: DataField) -> bool:
    return source.name != field.name or to_spark_type(source.type) != to_spark_type(field.type)


def _mapped(source: DataField | None, field: DataField) -> Column:
    if source is not None and not _changed(source, field):
        return F.col(quoted(source.name))
    column = F.lit(None) if source is None else F.col(quoted(source.name))
    return column.cast(to_spark_type(field.type)).alias(field.name)


def _kind_name() -> Column:
    """The kind's byte as its name."""
    byte = F.col(KIND_FIELD.name)
    named = F.lit(None).cast("string")
    for kind in reversed(RowKind):
        named = F.when(byte == int(kind), str(kind)).otherwise(named)
    return named


def _readable_path(path: str) -> bool:
    name = posixpath.basename(path)
    return (
        name.endswith(".parquet")
        and not name.startswith(SKIPPED_PREFIXES)
        and SKIPPED_SUFFIX not in name
        and not PATTERN_CHARACTERS & set(path)
    )


def _names_differ(context: ReadContext, fields: Sequence[DataField]) -> bool:
    """Whether names stay distinct when case is ignored, in all schemas."""
    schemas = [[f.name for f in schema.fields] for schema in context.schemas.values()]
    return all(
        len({name.lower() for name in names}) == len(names)
        for names in (*schemas, [f.name for f in fields])
    )


def _widens(source: DataType, target: DataType) -> bool:
    """Whether every value of the source type is one of the target's, and a cast keeps it."""
    if source.is_nested or target.is_nested:
        # Spark finds the fields of a struct by name; the kernel reads structs altered inside
        return source.as_nullable() == target.as_nullable()
    if source.root is target.root:
        if source.root is TypeRoot.DECIMAL or source.root in _TIMESTAMPS:
            return (source.precision, source.scale) == (target.precision, target.scale)
        if source.root in {TypeRoot.CHAR, TypeRoot.BINARY}:  # a longer one is padded
            return source.length == target.length
        return (source.length or 0) <= (target.length or 0)
    if source.root in _INTEGERS and target.root in _INTEGERS:
        return _INTEGERS.index(source.root) < _INTEGERS.index(target.root)
    return (source.root, target.root) in {
        (TypeRoot.FLOAT, TypeRoot.DOUBLE),
        (TypeRoot.CHAR, TypeRoot.VARCHAR),
        (TypeRoot.BINARY, TypeRoot.VARBINARY),
    } and (source.length or 0) <= (target.length or 0)
