"""Reads one data file whole, and compares it with what its manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.binary_row import decode_row
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.format.file_index import INDEX_SUFFIX, indexed_rows
from tidelake.format.file_index.index_reader import list_indexes
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Split, read_file
from tidelake.types import DataType, TableSchema, TypeRoot
from tidelake.types.predicate import IsNull, bind
from tidelake.types.values import arrow_to_storage

_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def wrong_rows(context: ReadContext, split: Split, file: DataFileMeta) -> Iterator[str]:
    """Read a data file, and say what is not as its manifest says.

    Raises
    ------
    TidelakeError
        It cannot be read.
    """
    schema = context.file_schema(file.schema_id, file_name=file.file_name)
    wanted = schema.fields
    if file.write_cols is not None:
        wanted = tuple(f for f in wanted if f.name in file.write_cols)
    if not schema.primary_keys:
        for _ in read_file(context, split, file, wanted):
            pass
        return
    keys = _key_names(context.schema, schema)
    ordered = [f.name for f in context.bounding_fields(schema, level=file.level)]
    columns = list(
        dict.fromkeys(
            [
                *keys,
                *ordered,
                SEQUENCE_FIELD.name,
                KIND_FIELD.name,
            ]
        )
    )
    batches = [
        batch.select(columns)
        for batch in read_file(context, split, file, (*wanted, SEQUENCE_FIELD, KIND_FIELD))
    ]
    if batches and split.bucket >= 0:  # rows that wait for their bucket are in no order
        yield from _wrong_keys(pa.Table.from_batches(batches), keys, ordered, schema, file)


def _key_names(current: TableSchema, schema: TableSchema) -> list[str]:
    """The key's columns, by the names that they had when the file was written."""
    ids = [current.field(name).id for name in current.trimmed_primary_keys]
    names = {field.id: field.name for field in schema.fields}
    return [names[number] for number in ids]


def _wrong_keys(
    rows: pa.Table, names: list[str], ordered: list[str], schema: TableSchema, file: DataFileMeta
) -> Iterator[str]:
    keys = _encoded(rows, names, schema)
    if ordered != names:
        keys.sort()
        order = _encoded(rows, ordered, schema)
        if not bool((order[1:] >= order[:-1]).all()):
            yield f"its rows are not sorted by {', '.join(ordered)}"
    if not bool((keys[1:] > keys[:-1]).all()):
        yield "its keys are not sorted, or one is there twice"
    columns = [rows.column(name).combine_chunks() for name in ordered]
    types = [schema.field(name).type for name in ordered]
    for place, said in ((0, file.min_key), (len(keys) - 1, file.max_key)):
        if not _is_key(columns, types, place, said):
            yield f"its {'last' if place else 'first'} key is not the one of its manifest"
    sequence = rows.column(SEQUENCE_FIELD.name).to_numpy()
    found = int(sequence.min()), int(sequence.max())
    said_range = file.min_sequence_number, file.max_sequence_number
    if found != said_range:
        yield f"its sequence numbers are {found}, and its manifest says {said_range}"
    kinds = rows.column(KIND_FIELD.name).to_numpy()
    deletes = int(np.isin(kinds, (1, 3)).sum())
    if file.delete_row_count is not None and deletes != file.delete_row_count:
        yield f"it has {deletes} deletes, and its manifest says {file.delete_row_count}"


def _encoded(rows: pa.Table, names: list[str], schema: TableSchema) -> npt.NDArray[Any]:
    types = [schema.field(name).type for name in names]
    columns = [rows.column(name).combine_chunks() for name in names]
    return encode_keys(columns, types, key_widths(columns, types))


def _is_key(columns: list[pa.Array], types: list[DataType], place: int, said: bytes) -> bool:
    expected = decode_row(said, types)
    for column, data_type, value in zip(columns, types, expected, strict=True):
        [found] = arrow_to_storage(column.slice(place, 1), data_type)
        if data_type.root not in _FLOATS and found != value:
            return False
    return True


def check_file_index(context: ReadContext, split: Split, file: DataFileMeta) -> None:
    """Read the indexes of a data file.

    Raises
    ------
    TidelakeError
        One is damaged or lost.
    """
    source: bytes | str | None = file.embedded_index
    if source is None:
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names:
            return
        source = context.paths.data_file(split.partition, split.bucket, names[0])
    schema = context.file_schema(file.schema_id, file_name=file.file_name)
    columns = {field.name for field in schema.fields}
    for entry in list_indexes(source, context.fileio):
        if entry.column in columns:
            indexed_rows(
                bind(IsNull(entry.column), schema.fields),
                source,
                context.fileio,
                fields=schema.fields,
                file_fields=schema.fields,
                row_count=file.row_count,
            )
