"""The native half of a read: raw data files through Spark's own Parquet scan.

1. A file is *native* if Spark reads from it the very rows that the kernel would: Parquet, a path
   without characters that Spark takes for a pattern, a name that it does not skip, and columns
   whose types are the table's or widen without loss to them.
2. Native files are grouped by how their columns map to the table's (one group per schema version,
   as a rule). Each group is one scan: the file's own schema given, nothing inferred, then renamed
   and cast by a select. A column that the file's schema lacks is null.
3. The predicate is applied again by Spark, which pushes it into the row groups.

Files have all their columns inside, those of the partition too; Spark's partition discovery does
not run on explicit files with an explicit schema. See `docs/spark.md`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Split
from tidelake.spark.expression import quoted
from tidelake.spark.types import spark_schema, to_spark_type
from tidelake.types import DataField, DataType, TypeRoot

__all__ = ["NativeGroup", "native_frame", "split_native"]

PATTERN_CHARACTERS = frozenset("[]{}*?\\:^")
SKIPPED_PREFIXES = ("_", ".")
SKIPPED_SUFFIX = "_COPYING_"
FRACTION_DIGITS_MAX = 6
_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})

_READ_OPTIONS = {
    # wrong rows are worse than an error, whatever the session says
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}

SourceFields = tuple[DataField | None, ...]
"""For each wanted column the file's own field; None where the file has none."""


@dataclass(frozen=True, slots=True)
class NativeGroup:
    """Files that one native scan reads.

    Parameters
    ----------
    source : tuple of (DataField or None)
        The files' own fields, one per wanted column.
    paths : tuple of str
        The files.
    """

    source: SourceFields
    paths: tuple[str, ...]


def split_native(
    context: ReadContext,
    splits: Sequence[Split],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
) -> tuple[list[NativeGroup], list[Split]]:
    """Part the splits into files for Spark's own scan and splits for the kernel.

    Parameters
    ----------
    context : ReadContext
        The table.
    splits : sequence of Split
        Of one plan.
    fields : sequence of DataField
        The columns needed, those of the predicate included.
    case_sensitive : bool
        Whether the session tells ``a`` from ``A``.

    Returns
    -------
    (list of NativeGroup, list of Split)
    """
    groups: dict[SourceFields, list[str]] = {}
    rest: list[Split] = []
    sources: dict[int, SourceFields | None] = {}
    clear = case_sensitive or _names_differ(context, fields)
    for split in splits:
        if not (split.raw and clear):
            rest.append(split)
            continue
        left: list[DataFileMeta] = []
        for file in split.files:
            path = context.paths.data_file(split.partition, split.bucket, file)
            source = _source(context, file, fields, sources) if _readable_path(path) else None
            if source is None:
                left.append(file)
            else:
                groups.setdefault(source, []).append(path)
        if left:
            rest.append(
                Split(
                    split.snapshot_id,
                    split.partition,
                    split.bucket,
                    split.total_buckets,
                    ((tuple(left),),),
                    raw=True,
                )
            )
    return [NativeGroup(source, tuple(paths)) for source, paths in groups.items()], rest


def native_frame(
    spark: SparkSession,
    group: NativeGroup,
    fields: Sequence[DataField],
    condition: Column | None,
) -> DataFrame:
    """One native scan.

    Parameters
    ----------
    spark : SparkSession
        Where.
    group : NativeGroup
        The files.
    fields : sequence of DataField
        The columns needed; the frame has them, in order.
    condition : Column, optional
        Over these columns.
    """
    own = [f for f in group.source if f is not None]
    reader = spark.read.schema(spark_schema(own)).options(**_READ_OPTIONS)
    frame = reader.parquet(*group.paths)
    if any(s is None or _changed(s, f) for s, f in zip(group.source, fields, strict=True)):
        frame = frame.select(*(_mapped(s, f) for s, f in zip(group.source, fields, strict=True)))
    return frame if condition is None else frame.filter(condition)


def _changed(source: DataField, field: DataField) -> bool:
    return source.name != field.name or to_spark_type(source.type) != to_spark_type(field.type)


def _mapped(source: DataField | None, field: DataField) -> Column:
    wanted = to_spark_type(field.type)
    column = F.lit(None) if source is None else F.col(quoted(source.name))
    return column.cast(wanted).alias(field.name)


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


def _source(
    context: ReadContext,
    file: DataFileMeta,
    fields: Sequence[DataField],
    known: dict[int, SourceFields | None],
) -> SourceFields | None:
    """The file's own fields for the wanted columns; None where Spark may not read them."""
    if file.schema_id not in known:
        schema = context.file_schema(file.schema_id, file_name=file.file_name)
        by_id = {f.id: f for f in schema.fields}
        source = tuple(by_id.get(f.id) for f in fields)
        readable = any(s is not None for s in source) and all(
            s is None or (_read_alike(s.type) and _widens(s.type, f.type))
            for s, f in zip(source, fields, strict=True)
        )
        known[file.schema_id] = source if readable else None
    return known[file.schema_id]


def _read_alike(data_type: DataType) -> bool:
    """Whether Spark reads a column of the type as the kernel does."""
    if data_type.root in _TIMESTAMPS:
        return (data_type.precision or 0) <= FRACTION_DIGITS_MAX
    return data_type.root is not TypeRoot.TIME and not data_type.is_nested


def _widens(source: DataType, target: DataType) -> bool:
    """Whether every value of the source type is one of the target's, and a cast keeps it."""
    if source.root is target.root:
        if source.root is TypeRoot.DECIMAL or source.root in _TIMESTAMPS:
            return (source.precision, source.scale) == (target.precision, target.scale)
        return (source.length or 0) <= (target.length or 0)
    if source.root in _INTEGERS and target.root in _INTEGERS:
        return _INTEGERS.index(source.root) < _INTEGERS.index(target.root)
    return (source.root, target.root) in {
        (TypeRoot.FLOAT, TypeRoot.DOUBLE),
        (TypeRoot.CHAR, TypeRoot.VARCHAR),
        (TypeRoot.BINARY, TypeRoot.VARBINARY),
    } and (source.length or 0) <= (target.length or 0)
