"""The footer of a Parquet file that another program wrote: its columns, and what refuses them.

A file joins a table as it is, so every reader of Paimon must read it. Java's knows PLAIN,
dictionaries, RLE and DELTA_BINARY_PACKED (ADR 7); DELTA_BYTE_ARRAY even gives it wrong rows. Bounds
come from the footer, but not those of FLOAT and DOUBLE, which leave NaN out, and of binaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import UnsupportedError
from tidelake.fileio import FileIO
from tidelake.format.field_schema import FIELD_ID_KEY
from tidelake.format.footer_bounds import footer_bounds
from tidelake.format.read_error import reading
from tidelake.format.stats import UNKNOWN_STATS, ColumnStats
from tidelake.types import DataField, DataType, TypeRoot, parse_type
from tidelake.types.arrow import fields_from_arrow
from tidelake.types.nested import is_list_like

_ENCODINGS = frozenset(
    {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"}
)
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD"})
_COUNTED_ONLY = frozenset(
    {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BOOLEAN}
)
INSTANT = parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")
_SPARK_VERSION = b"org.apache.spark.version"
_SPARK_UTC_SINCE = (3, 1)
_SPARK_LEGACY = {
    "INT96": b"org.apache.spark.legacyINT96",
    "date or timestamp": b"org.apache.spark.legacyDateTime",
}


@dataclass(frozen=True, slots=True)
class ForeignFooter:
    """What a table needs to know of a file.

    Parameters
    ----------
    fields : tuple of DataField
        Its columns in order, with the field ids of the file, all nullable, inside nested types too.
    has_ids : bool
        Whether the file has field ids; else those of its columns count from 0.
    stats : tuple of ColumnStats
        One for each column.
    """

    row_count: int
    fields: tuple[DataField, ...]
    has_ids: bool
    stats: tuple[ColumnStats, ...]


def foreign_footer(fileio: FileIO, path: str, *, int96_is_utc: bool = False) -> ForeignFooter:
    """Read the footer of a file.

    Parameters
    ----------
    int96_is_utc : bool
        Whether the table's format says that INT96 counts in UTC; else a footer of Spark's must.

    Raises
    ------
    CorruptError
        It is no Parquet file, or damaged.
    UnsupportedError
        A column's type, encoding or compression is one that not every reader of Paimon reads; the
        message says how to move the rows in.
    """
    with reading(path), fileio.open_input(path) as source:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        footer, arrow = file.metadata, file.schema_arrow
        columns = [file.schema.column(i) for i in range(len(file.schema))]
    leaves = [list(_leaves(field, field.name)) for field in arrow]
    flat = [leaf for own in leaves for leaf in own]
    for leaf, column in zip(flat, columns, strict=True):
        _check_leaf(leaf, column, path)
    int96 = [column.physical_type == "INT96" for column in columns]
    _check_calendar(footer, flat, int96, path, int96_is_utc=int96_is_utc)
    _check_chunks(footer, path)
    ids = [_id_of(field) for field in arrow]
    inside = [_id_of(field) for column in arrow for field in _rows_inside(column.type)]
    has_ids = bool(ids) and all(one is not None for one in (*ids, *inside))
    fields, stats = [], []
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    first = 0
    for i, found in enumerate(fields_from_arrow(arrow)):
        own = iter(int96[first : first + len(leaves[i])])
        own_type = _as_found(found.type, arrow.field(i).type, own)
        given = ids[i] if has_ids else None
        field = DataField(i if given is None else given, found.name, own_type)
        fields.append(field)
        known = [group.column(first).statistics for group in groups]
        plain = _plain(arrow.field(i).type)
        stats.append(UNKNOWN_STATS if own_type.is_nested else _stats(known, field, plain))
        first += len(leaves[i])
    return ForeignFooter(footer.num_rows, tuple(fields), has_ids, tuple(stats))


class _Leaf(NamedTuple):
    """A column of values, its name and how many dots its path in the file has."""

    name: str
    type: pa.DataType
    dots: int


def _leaves(field: pa.Field, name: str, dots: int = 0) -> Iterator[_Leaf]:
    """The columns of values inside a column, in the file's order."""
    found = _plain(field.type)
    dots += field.name.count(".")
    if not pa.types.is_nested(found):
        yield _Leaf(name, found, dots)
        return
    around = 1 if pa.types.is_struct(found) else 2  # the repeated group has no name in Arrow
    for child in _inside(found):
        yield from _leaves(child, f"{name}.{child.name}", dots + around)


def _inside(found: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(found):
        return [found.key_field, found.item_field]
    if is_list_like(found):
        return [found.value_field]
    return list(found) if pa.types.is_struct(found) else []


def _rows_inside(found: pa.DataType) -> Iterator[pa.Field]:
    """The fields of rows inside a type: those that have ids in a table."""
    for child in _inside(_plain(found)):
        if pa.types.is_struct(found):
            yield child
        yield from _rows_inside(child.type)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None or int(text) < 0 else int(text)


def _as_found(data_type: DataType, found: pa.DataType, int96: Iterator[bool]) -> DataType:
    """A type with nulls and the file's ids; `int96` tells it of each column of values."""
    fields = _inside(_plain(found))
    if not fields:
        return INSTANT if next(int96) else data_type.as_nullable()
    children = [
        _as_found(child, field.type, int96)
        for child, field in zip(data_type.children, fields, strict=True)
    ]
    if data_type.root is TypeRoot.MAP:
        children[0] = children[0].not_null()
    ids = tuple(
        (_id_of(field) or 0, name)
        for field, (_, name) in zip(fields, data_type.child_fields, strict=False)
    )
    return replace(data_type, nullable=True, children=tuple(children), child_fields=ids)


def _plain(found: pa.DataType) -> pa.DataType:
    return found.value_type if pa.types.is_dictionary(found) else found


def _check_leaf(leaf: _Leaf, column: pq.ColumnSchema, path: str) -> None:
    found = leaf.type
    if pa.types.is_unsigned_integer(found):
        raise _refused(path, f"column '{leaf.name}' is of type {found}")
    if pa.types.is_time(found) or pa.types.is_null(found) or pa.types.is_float16(found):
        raise _refused(path, f"column '{leaf.name}' is of type {found}")
    if pa.types.is_timestamp(found) and found.unit == "ns":
        raise _refused(path, f"column '{leaf.name}' has nanoseconds")
    if column.path.count(".") != leaf.dots:
        what = f"column '{leaf.name}' is in a list or map of an older form ({column.path})"
        raise _refused(path, what)


def _check_calendar(
    footer: pq.FileMetaData,
    leaves: Sequence[_Leaf],
    int96: Sequence[bool],
    path: str,
    *,
    int96_is_utc: bool,
) -> None:
    """Refuse times of which the footer does not say what they count."""
    said = footer.metadata or {}
    text = said.get(_SPARK_VERSION, b"").decode()
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
    for leaf, is_int96 in zip(leaves, int96, strict=True):
        is_time = pa.types.is_date(leaf.type) or pa.types.is_timestamp(leaf.type)
        kind = "INT96" if is_int96 else "date or timestamp"
        if is_time and _SPARK_LEGACY[kind] in said:
            what = f"column '{leaf.name}' is a {kind} in the calendar of Spark 2"
            raise _refused(path, what)
        if not is_int96:
            continue
        if version and version < _SPARK_UTC_SINCE:
            raise _refused(path, f"column '{leaf.name}' is of type INT96, by Spark {text}")
        if not version and not int96_is_utc:
            what = f"column '{leaf.name}' is of type INT96, by a writer whose zone is not known"
            raise _refused(path, what)


def _check_chunks(footer: pq.FileMetaData, path: str) -> None:
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        for i in range(group.num_columns):
            chunk = group.column(i)
            others = sorted(set(chunk.encodings) - _ENCODINGS)
            if others:
                raise _refused(path, f"column '{chunk.path_in_schema}' is encoded as {others[0]}")
            if chunk.compression not in _CODECS:
                raise _refused(path, f"it is compressed as {chunk.compression}")


def _refused(path: str, what: str) -> UnsupportedError:
    message = (
        f"File {path} cannot join a table as it is: {what}, which not every reader of Paimon reads."
        " Move the rows instead: read them with any library and write them to a new table."
    )
    return UnsupportedError(message, kind="migrate_file", path=path)


def _stats(
    groups: Sequence[pq.Statistics | None], field: DataField, arrow_type: pa.DataType
) -> ColumnStats:
    """Statistics of a column over all row groups; INT96 has no bounds that one may trust."""
    if any(one is None or not one.has_null_count for one in groups) or not groups:
        return UNKNOWN_STATS
    known = [one for one in groups if one is not None]
    nulls = sum(one.null_count for one in known)
    is_int96 = any(one.physical_type == "INT96" for one in known)
    if is_int96 or field.type.root in _COUNTED_ONLY:
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
