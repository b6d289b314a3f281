"""Paimon's columns as a Parquet schema, with encodings that all Paimon readers can read.

- Field ids are in each column's metadata; NOT NULL columns are ``required``.
- A list is ``list.element``, a map and a multiset ``key_value.key`` (required) and
  ``key_value.value``; their ids derive from the column's and from the depth inside it. A field of a
  row has its own id, from which those inside it derive. A variant is a group of the binaries
  ``value`` and ``metadata``, without ids and without a logical type.
- DECIMAL is INT32 up to 9 digits, INT64 up to 18, else FIXED; TIMESTAMP is milliseconds up to
  precision 3, microseconds up to 6, INT96 above; TIME is milliseconds.
- Encodings are PLAIN, dictionary and DELTA_BINARY_PACKED only. Java Paimon 1.3.1 returns wrong
  rows, without an error, from DELTA_BYTE_ARRAY, and fails on DELTA_LENGTH_BYTE_ARRAY and
  BYTE_STREAM_SPLIT.
- INT96 applies to a whole file in Arrow's writer. So a file with only some timestamps above
  precision 6 cannot be written as Paimon does; it is refused.

Source: files written by Java Paimon 1.3.1; ``docs/format/data-file.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import UnsupportedError
from tidelake.format.system_fields import KEY_PREFIX, SEQUENCE_NUMBER
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import VARIANT_STORAGE, child_types, nested_type, to_arrow_type
from tidelake.types.data_type import STRING_LENGTH_MAX
from tidelake.types.nested import leaf_arrays

FIELD_ID_KEY = b"PARQUET:field_id"
SAMPLE_ROWS = 4096
SCHEMAS_KEPT = 64
"""Parquet schemas kept; all files of a table have the same."""

_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_FLOATING = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_MICROS_PRECISION_MAX = 6
_DELTA_ROOTS = _TIMESTAMPS | {
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
}


# on disk: never renumber
_INSIDE_ID_START = (2**31 - 1) // 4
_IDS_PER_COLUMN = 1024
"""Of a column: one for each depth of lists and maps inside it."""


@lru_cache(maxsize=SCHEMAS_KEPT)
def parquet_arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """Return the Arrow schema from which Arrow makes Paimon's Parquet schema."""
    return pa.schema([_parquet_field(f.name, f.type, f.id, f.id, 0) for f in fields])


def _parquet_field(
    name: str, data_type: DataType, own_id: int, column_id: int, depth: int
) -> pa.Field:
    """A field with its id and the inner ones; `depth` counts lists and maps around it."""
    arrow_type = to_arrow_type(data_type)
    if data_type.is_nested:
        arrow_type = nested_type(data_type, _inside(data_type, column_id, depth + 1))
    metadata = {FIELD_ID_KEY: str(own_id).encode()}
    return pa.field(name, arrow_type, nullable=data_type.nullable, metadata=metadata)


def _inside(data_type: DataType, column_id: int, depth: int) -> list[pa.Field]:
    children = child_types(data_type)
    if data_type.root is TypeRoot.ROW:
        ids = [field_id for field_id, _ in data_type.child_fields]
        return [_parquet_field(n, t, i, i, 0) for (n, t), i in zip(children, ids, strict=True)]
    place = _IDS_PER_COLUMN * column_id + depth
    derived = {
        "element": _INSIDE_ID_START + place,
        "key": _INSIDE_ID_START - place,
        "value": _INSIDE_ID_START + place,
    }
    return [_parquet_field(n, t, derived[n], column_id, depth) for n, t in children]


def leaves(field: DataField) -> list[tuple[str, DataType]]:
    """Return the path in the file and the type of each scalar column inside a column.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> tags = parse_type({"type": "MAP", "key": "STRING", "value": "INT"})
    >>> [(path, str(kind)) for path, kind in leaves(DataField(0, "tags", tags))]
    [('tags.key_value.key', 'STRING NOT NULL'), ('tags.key_value.value', 'INT')]
    """
    if field.type.root is TypeRoot.VARIANT:
        return [(f"{field.name}.{f.name}", _BYTES) for f in VARIANT_STORAGE]
    if not field.type.is_nested:
        return [(field.name, field.type)]
    group = _REPEATED_GROUPS.get(field.type.root, "")
    return [
        leaf
        for name, data_type in child_types(field.type)
        for leaf in leaves(DataField(field.id, f"{field.name}{group}.{name}", data_type))
    ]


_BYTES = DataType(TypeRoot.VARBINARY, nullable=False, length=STRING_LENGTH_MAX)
_REPEATED_GROUPS = {
    TypeRoot.ARRAY: ".list",
    TypeRoot.MAP: ".key_value",
    TypeRoot.MULTISET: ".key_value",
}


def check_timestamps(fields: Sequence[DataField], *, what: str) -> None:
    """Refuse columns if only some of them would be INT96.

    Raises
    ------
    UnsupportedError
        The message names the columns, and what to do.
    """
    fine, coarse = _timestamps(fields)
    if fine and coarse:
        message = (
            f"{what} would mix timestamps finer than microseconds ({_listed(fine)}) with coarser"
            f" ones ({_listed(coarse)}), which this version cannot write as Paimon does: make all"
            " of them finer, pa.timestamp('ns'), or all coarser, pa.timestamp('us')."
        )
        raise UnsupportedError(message, kind="timestamp_precision", column=fine[0].name)


def uses_int96(fields: Sequence[DataField], *, path: str) -> bool:
    """Whether the file's timestamps are written as INT96.

    Raises
    ------
    UnsupportedError
        Only some of them would have to be.
    """
    check_timestamps(fields, what=f"File {path}")
    return bool(_timestamps(fields)[0])


def _timestamps(fields: Sequence[DataField]) -> tuple[list[DataField], list[DataField]]:
    """The timestamp columns that are INT96, and the others; nested ones too."""
    timestamps = [
        DataField(f.id, path, data_type)
        for f in fields
        for path, data_type in leaves(f)
        if data_type.root in _TIMESTAMPS
    ]
    fine = [f for f in timestamps if (f.type.precision or 0) > _MICROS_PRECISION_MAX]
    return fine, [f for f in timestamps if f not in fine]


def _listed(fields: Sequence[DataField]) -> str:
    return ", ".join(f"'{f.name}' {f.type.as_nullable()}" for f in fields)


def delta_columns(fields: Sequence[DataField], sorted_columns: frozenset[str]) -> list[str]:
    """Return the columns to store as differences: integer keys, sequence numbers, given ones."""
    keys = {f.name.removeprefix(KEY_PREFIX) for f in fields if f.name.startswith(KEY_PREFIX)}
    rising = sorted_columns | keys | {KEY_PREFIX + key for key in keys} | {SEQUENCE_NUMBER}
    return [
        f.name
        for f in fields
        if f.name in rising
        and f.type.root in _DELTA_ROOTS
        and not (f.type.root in _TIMESTAMPS and (f.type.precision or 0) > _MICROS_PRECISION_MAX)
    ]


def footer_columns(fields: Sequence[DataField]) -> list[str]:
    """Return the columns whose bounds go into the file itself: all but FLOAT and DOUBLE.

    Arrow leaves NaN out of bounds, and other readers (parquet-mr, so Spark and Java Paimon; DuckDB)
    treat NaN as greater than every number: a row group of 1.0 and NaN, bounds 1.0 to 1.0, would be
    skipped for ``d > 100``. When the file is opened it is unknown whether NaN will come.
    """
    return [path for f in fields for path, t in leaves(f) if t.root not in _FLOATING]


def dictionary_columns(table: pa.Table, fields: Sequence[DataField]) -> list[str]:
    """Choose the columns that a dictionary makes smaller, by rows sampled from a table.

    A dictionary for a column of mostly distinct values costs a fifth of the whole write and makes
    the file larger. The rule: of :data:`SAMPLE_ROWS` rows at most half are distinct.

    Parameters
    ----------
    table : pyarrow.Table
        The file's first rows.
    fields : sequence of DataField
        The columns that may have one.

    Returns
    -------
    list of str
        Paths in the file.
    """
    spread = table.select([f.name for f in fields])
    step = max(1, table.num_rows // SAMPLE_ROWS)
    if step > 1:
        sample = [
            batch.take(pa.array(np.arange(0, batch.num_rows, step)))
            for batch in spread.to_batches()
        ]
        spread = pa.Table.from_batches(sample, schema=spread.schema)
    chosen = []
    for field, column in zip(fields, spread.columns, strict=True):
        if not pa.types.is_nested(column.type):
            chosen += [field.name] if _repeats(column) else []
            continue
        chunks = [leaf_arrays(chunk) for chunk in column.chunks]
        for place, (path, _) in enumerate(leaves(field)):
            if chunks and _repeats(pa.chunked_array([own[place] for own in chunks])):
                chosen.append(path)
    return chosen


def _repeats(values: pa.ChunkedArray) -> bool:
    return 2 * pc.count_distinct(values, mode="all").as_py() <= len(values)
