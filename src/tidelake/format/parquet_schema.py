"""Paimon's columns as a Parquet schema, and the encodings that all of Paimon's readers read.

- Field ids are in each column's metadata; NOT NULL columns are ``required``.
- DECIMAL is INT32 up to 9 digits, INT64 up to 18, else FIXED; TIMESTAMP is milliseconds up to
  precision 3, microseconds up to 6, INT96 above; TIME is milliseconds.
- Encodings are PLAIN, dictionary and DELTA_BINARY_PACKED only. Java Paimon 1.3.1 returns wrong
  rows, without an error, from DELTA_BYTE_ARRAY, and fails on DELTA_LENGTH_BYTE_ARRAY and
  BYTE_STREAM_SPLIT.
- INT96 is a matter of the whole file in Arrow's writer, so a file whose timestamps are in part
  above precision 6 cannot be written as Paimon does; it is refused.

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
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_type

__all__ = [
    "FIELD_ID_KEY",
    "check_timestamps",
    "delta_columns",
    "dictionary_columns",
    "footer_columns",
    "parquet_arrow_schema",
    "uses_int96",
]

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


@lru_cache(maxsize=SCHEMAS_KEPT)
def parquet_arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """Give the Arrow schema from which Arrow makes Paimon's Parquet schema."""
    return pa.schema(
        [
            pa.field(
                f.name,
                to_arrow_type(f.type),
                nullable=f.type.nullable,
                metadata={FIELD_ID_KEY: str(f.id).encode()},
            )
            for f in fields
        ]
    )


def check_timestamps(fields: Sequence[DataField], *, what: str) -> None:
    """Refuse columns of which a part, and not all, would be INT96.

    Parameters
    ----------
    fields : sequence of DataField
        The columns of one table or file.
    what : str
        Which one that is, to begin the message with.

    Raises
    ------
    UnsupportedError
        The columns are named, and what to do.
    """
    fine, coarse = _timestamps(fields)
    if fine and coarse:
        message = (
            f"{what} would mix timestamps finer than microseconds ({_listed(fine)}) with coarser"
            f" ones ({_listed(coarse)}), which this version cannot write as Paimon does: make all"
            " of them finer, pa.timestamp('ns'), or none, pa.timestamp('us')."
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
    """The timestamp columns that are INT96, and the others."""
    timestamps = [f for f in fields if f.type.root in _TIMESTAMPS]
    fine = [f for f in timestamps if (f.type.precision or 0) > _MICROS_PRECISION_MAX]
    return fine, [f for f in timestamps if f not in fine]


def _listed(fields: Sequence[DataField]) -> str:
    return ", ".join(f"'{f.name}' {f.type.as_nullable()}" for f in fields)


def delta_columns(fields: Sequence[DataField], sorted_columns: frozenset[str]) -> list[str]:
    """Give the columns to store as differences: integer keys, sequence numbers, given ones."""
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
    """Give the columns whose bounds go into the file itself: all but FLOAT and DOUBLE.

    Arrow leaves NaN out of bounds, and other readers (parquet-mr, so Spark and Java Paimon; DuckDB)
    take NaN as greater than every number: a row group of 1.0 and NaN, bounds 1.0 to 1.0, would be
    skipped for ``d > 100``. Whether NaN will come is not known when the file is opened.
    """
    return [f.name for f in fields if f.type.root not in _FLOATING]


def dictionary_columns(table: pa.Table, candidates: Sequence[str]) -> list[str]:
    """Choose the columns that a dictionary makes smaller, from rows spread over a table.

    A dictionary for a column of mostly distinct values costs a fifth of the whole write and makes
    the file larger. The rule: of :data:`SAMPLE_ROWS` rows at most half are distinct.
    """
    spread = table.select(list(candidates))
    step = max(1, table.num_rows // SAMPLE_ROWS)
    if step > 1:
        sample = [
            batch.take(pa.array(np.arange(0, batch.num_rows, step)))
            for batch in spread.to_batches()
        ]
        spread = pa.Table.from_batches(sample, schema=spread.schema)
    return [
        name
        for name in candidates
        if 2 * pc.count_distinct(spread.column(name), mode="all").as_py() <= spread.num_rows
    ]
