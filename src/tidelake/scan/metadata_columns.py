"""Metadata columns: file, position, partition and bucket of each row.

======================  =========================  =========================================
column                  type                       value
======================  =========================  =========================================
``__paimon_file_path``  STRING                     the data file that holds the row
``__paimon_row_index``  BIGINT                     the row's ordinal in that file, from 0
``__paimon_partition``  ROW of partition columns   the values of the row's partition
``__paimon_bucket``     INT                        the row's bucket
``_ROW_ID``             BIGINT                     the row's id, with row tracking
``_SEQUENCE_NUMBER``    BIGINT                     the snapshot that wrote it, with row tracking
======================  =========================  =========================================

1. All rows of a bucket have its partition and number.
2. Only rows of *raw* splits, which are read unmerged, have a file and an ordinal. A merged row
   comes from several, so a plan with a merging split is refused.
3. Ordinals count all rows of a file, including deleted ones. If they are wanted, the format does
   not get the predicate, because it would drop rows before they are counted.

A column of the table with one of these names hides it. Names, types and values are those of
Paimon on Spark (2.1): its ``PaimonMetadataColumn``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.format import TRACKING_FIELDS
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.row_ids import completed, ordinals_left, tracks_rows
from tidelake.options import Options
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import deleted_rows, read_file
from tidelake.scan.evolved_rows import read_evolved
from tidelake.scan.read import read_split
from tidelake.scan.split import Split
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import STRING_LENGTH_MAX
from tidelake.types.predicate import Predicate, columns_of, evaluate
from tidelake.types.values import storage_to_arrow

NONE: Mapping[str, str] = MappingProxyType({})
FILE_PATH = "__paimon_file_path"
ROW_INDEX = "__paimon_row_index"
PARTITION = "__paimon_partition"
BUCKET = "__paimon_bucket"
METADATA_COLUMNS = (FILE_PATH, ROW_INDEX, PARTITION, BUCKET)
_TRACKING = tuple(field.name for field in TRACKING_FIELDS)
_OF_FILES = frozenset({FILE_PATH, ROW_INDEX, *_TRACKING})
_COUNTED = frozenset({ROW_INDEX, *_TRACKING})
_FIRST_ID = 2_147_483_647 - 104
"""Far from the ids of columns."""


def hidden_columns(names: Collection[str], options: Mapping[str, str] = NONE) -> tuple[str, ...]:
    """The metadata columns of a table with columns of these names, and such options.

    Examples
    --------
    >>> hidden_columns(["id", "__paimon_bucket"])
    ('__paimon_file_path', '__paimon_row_index', '__paimon_partition')
    """
    taken = {name.casefold() for name in names}
    tracking = _TRACKING if tracks_rows(Options.parse(options)) else ()
    return tuple(name for name in (*METADATA_COLUMNS, *tracking) if name.casefold() not in taken)


def metadata_fields(schema: TableSchema) -> dict[str, DataField]:
    """The metadata columns of a table, by their names."""
    keys = [schema.field(name) for name in schema.partition_keys]
    partition = DataType(
        TypeRoot.ROW,
        children=tuple(key.type.as_nullable() for key in keys),
        child_fields=tuple((key.id, key.name) for key in keys),
    )
    types = {
        FILE_PATH: DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
        ROW_INDEX: DataType(TypeRoot.BIGINT),
        PARTITION: partition,
        BUCKET: DataType(TypeRoot.INT),
    }
    names = hidden_columns(schema.field_names, schema.options)
    tracking = {field.name: field for field in TRACKING_FIELDS}
    return {
        n: tracking.get(n) or DataField(_FIRST_ID + i, n, types[n]) for i, n in enumerate(names)
    }


def check_located(splits: Sequence[Split], columns: Sequence[str], *, table: str) -> None:
    """Refuse columns of files where rows are merged out of several.

    Raises
    ------
    UnsupportedError
        A split needs a merge, and a file or an ordinal is asked for.
    """
    of_files = [name for name in columns if name in {FILE_PATH, ROW_INDEX}]
    merging = sum(not split.raw for split in splits)
    if of_files and merging:
        message = (
            f"{' and '.join(of_files)} of table '{table}' cannot be read: in {merging} of"
            f" {len(splits)} splits rows of several files are merged, and a merged row is in no"
            f" single file. Compact the table fully first (CALL sys.compact(table => '{table}')),"
            f" or read only {PARTITION} and {BUCKET}."
        )
        raise UnsupportedError(message, kind="metadata_column", table=table, column=of_files[0])


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Reads splits with metadata columns. Picklable; runs on executors.

    Parameters
    ----------
    columns : tuple of str
        The columns wanted, in order: the table's and metadata columns.
    predicate : Predicate, optional
        Bound to ``context.schema``; all rows satisfy it.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns wanted."""
        metadata = metadata_fields(self.context.schema)
        return tuple(metadata.get(c) or self.context.schema.field(c) for c in self.columns)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split. Requires: it passed :func:`check_located`."""
        metadata = metadata_fields(self.context.schema)
        own = tuple(c for c in self.columns if c not in metadata)
        if not split.raw and not self.context.schema.primary_keys:
            tracking = tuple(f for f in TRACKING_FIELDS if f.name in self.columns)
            fields = (*self.context.fields(own), *tracking)
            for rows in read_evolved(self.context, split, fields, self.predicate):
                yield self._with_metadata(
                    rows, split, {f.name: rows.column(f.name) for f in tracking}
                )
            return
        if not _OF_FILES.intersection(metadata).isdisjoint(self.columns):
            for file in split.files:
                yield from self._of_file(split, file, own)
            return
        for batch in read_split(self.context, split, columns=own, predicate=self.predicate):
            yield self._with_metadata(batch, split, {})

    def _of_file(
        self, split: Split, file: DataFileMeta, own: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        context = self.context
        counts = not _COUNTED.isdisjoint(self.columns)
        tracking = tuple(f for f in TRACKING_FIELDS if f.name in self.columns)
        tested = self.predicate if counts else None
        looked_at = columns_of(tested) if tested is not None else frozenset[str]()
        names = (*own, *sorted(looked_at - set(own)))
        deleted = deleted_rows(context, split, file)
        path = context.paths.data_file(split.partition, split.bucket, file)
        done = 0
        for batch in read_file(
            context,
            split,
            file,
            (*context.fields(names), *tracking),
            predicate=None if counts else self.predicate,
            deleted=deleted,
        ):
            rows, known = batch, {FILE_PATH: pa.repeat(path, batch.num_rows)}
            if counts:
                ordinals = ordinals_left(done, batch.num_rows, deleted)
                known[ROW_INDEX] = pa.array(ordinals)
                tracked = completed(batch, file, ordinals)
                known |= {f.name: tracked.column(f.name) for f in tracking}
            done += batch.num_rows
            rows = self._with_metadata(batch, split, known)
            if tested is not None:
                fields = context.fields(tuple(sorted(looked_at)))
                mask = evaluate(tested, batch.select([f.name for f in fields]), fields)
                rows = rows.filter(mask)
            if rows.num_rows:
                yield rows

    def _with_metadata(
        self, batch: pa.RecordBatch, split: Split, known: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        """The columns wanted, in order."""
        count, metadata = batch.num_rows, metadata_fields(self.context.schema)
        arrays = []
        for name in self.columns:
            if name not in metadata:
                arrays.append(batch.column(name))
            elif name in known:
                arrays.append(known[name])
            elif name == BUCKET:
                arrays.append(pa.repeat(pa.scalar(split.bucket, pa.int32()), count))
            else:
                arrays.append(_partition_column(self.context, split.partition, count))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _partition_column(context: ReadContext, partition: bytes, count: int) -> pa.Array:
    keys = metadata_fields(context.schema)[PARTITION].type
    names = [name for _, name in keys.child_fields]
    if not names:
        return pa.array([{}] * count, to_arrow_type(keys))
    values = context.paths.partition_values(partition)
    one = pa.StructArray.from_arrays(
        [storage_to_arrow([v], t) for v, t in zip(values, keys.children, strict=True)], names
    )
    return one.take(pa.array(np.zeros(count, np.int64)))
