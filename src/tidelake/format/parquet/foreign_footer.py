"""The footer of a Parquet file that another program wrote: its columns, and what refuses them.

A file joins a table as it is, so every reader of Paimon must read it. Java's knows PLAIN,
dictionaries, RLE and DELTA_BINARY_PACKED (ADR 7); DELTA_BYTE_ARRAY even gives it wrong rows. Bounds
come from the footer, but not those of FLOAT and DOUBLE, which leave NaN out, and of binaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import UnsupportedError
from tidelake.fileio import FileIO
from tidelake.format.field_schema import FIELD_ID_KEY
from tidelake.format.footer_bounds import footer_bounds
from tidelake.format.read_error import reading
from tidelake.format.stats import UNKNOWN_STATS, ColumnStats
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import fields_from_arrow

_ENCODINGS = frozenset(
    {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"}
)
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD"})
_COUNTED_ONLY = frozenset(
    {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BOOLEAN}
)


@dataclass(frozen=True, slots=True)
class ForeignFooter:
    """What a table needs to know of a file.

    Parameters
    ----------
    fields : tuple of DataField
        Its columns in order, with the field ids of the file, all nullable.
    has_ids : bool
        Whether the file has field ids; else they count from 0.
    stats : tuple of ColumnStats
        One for each column.
    """

    row_count: int
    fields: tuple[DataField, ...]
    has_ids: bool
    stats: tuple[ColumnStats, ...]


def foreign_footer(fileio: FileIO, path: str) -> ForeignFooter:
    """Read the footer of a file.

    Raises
    ------
    CorruptError
        It is no Parquet file, or damaged.
    UnsupportedError
        A column's type, encoding or compression is one that not every reader of Paimon reads; the
        message says how to move the rows in.
    """
    with reading(path), fileio.open_input(path) as source:
        file = pq.ParquetFile(source)
        footer, arrow = file.metadata, file.schema_arrow
        physical = [file.schema.column(i).physical_type for i in range(len(file.schema))]
    for field in arrow:
        _check_type(field, path)
    _check_chunks(footer, physical, path)
    ids = [(field.metadata or {}).get(FIELD_ID_KEY) for field in arrow]
    has_ids = bool(ids) and all(one is not None and int(one) >= 0 for one in ids)
    fields = tuple(
        DataField(int(ids[i]) if has_ids else i, f.name, f.type.as_nullable())  # type: ignore[arg-type]
        for i, f in enumerate(fields_from_arrow(arrow))
    )
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    stats = tuple(
        _stats([group.column(i).statistics for group in groups], field, _plain(arrow.field(i).type))
        for i, field in enumerate(fields)
    )
    return ForeignFooter(footer.num_rows, fields, has_ids, stats)


def _plain(found: pa.DataType) -> pa.DataType:
    return found.value_type if pa.types.is_dictionary(found) else found


def _check_type(field: pa.Field, path: str) -> None:
    found = field.type
    plain = _plain(found)
    if pa.types.is_nested(plain) or pa.types.is_unsigned_integer(plain):
        raise _refused(path, f"column '{field.name}' is of type {found}")
    if pa.types.is_time(plain) or pa.types.is_null(plain) or pa.types.is_float16(plain):
        raise _refused(path, f"column '{field.name}' is of type {found}")
    if pa.types.is_timestamp(plain) and plain.unit == "ns":
        raise _refused(path, f"column '{field.name}' has nanoseconds, or is of type INT96")


def _check_chunks(footer: pq.FileMetaData, physical: Sequence[str], path: str) -> None:
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        for i in range(group.num_columns):
            chunk = group.column(i)
            others = sorted(set(chunk.encodings) - _ENCODINGS)
            if others:
                raise _refused(path, f"column '{chunk.path_in_schema}' is encoded as {others[0]}")
            if chunk.compression not in _CODECS:
                raise _refused(path, f"it is compressed as {chunk.compression}")
            if physical[i] == "INT96":
                raise _refused(path, f"column '{chunk.path_in_schema}' is of type INT96")


def _refused(path: str, what: str) -> UnsupportedError:
    message = (
        f"File {path} cannot join a table as it is: {what}, which not every reader of Paimon reads."
        " Move the rows instead: read them with any library and write them to a new table."
    )
    return UnsupportedError(message, kind="migrate_file", path=path)


def _stats(
    groups: Sequence[pq.Statistics | None], field: DataField, arrow_type: pa.DataType
) -> ColumnStats:
    if any(one is None or not one.has_null_count for one in groups) or not groups:
        return UNKNOWN_STATS
    known = [one for one in groups if one is not None]
    nulls = sum(one.null_count for one in known)
    if field.type.root in _COUNTED_ONLY:
        return ColumnStats(None, None, nulls)
    extremes: list[object] = []
    for one in known:
        bounds = footer_bounds(one, arrow_type)
        if bounds is not None:
            extremes += bounds
        elif one.num_values:
            return ColumnStats(None, None, nulls)
    if not extremes:
        return ColumnStats(None, None, nulls)
    return ColumnStats(min(extremes), max(extremes), nulls)  # type: ignore[type-var]


def foreign_rows(fileio: FileIO, path: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Read the rows of a small file of metadata that another program wrote.

    Parameters
    ----------
    columns : sequence of str
        The columns wanted; those that the file lacks are left out.
    """
    with reading(path), fileio.open_input(path) as source:
        file = pq.ParquetFile(source)
        names = [name for name in columns if name in file.schema_arrow.names]
        rows: list[dict[str, Any]] = file.read(columns=names).to_pylist()
        return rows
