"""Which column of a Parquet file holds a table's column, and how it becomes the wanted type.

1. A column is found by its Paimon field id. A column of a file without ids, and a system column,
   is found by name. A column of the same name under another id is another column: it was dropped
   and added anew.
2. A column that the file lacks is null: it was added later. Where the file's own schema has it,
   the file is damaged instead.
3. Only casts that keep every value are made: wider integers, FLOAT to DOUBLE, integers to DOUBLE
   or DECIMAL that hold them, DECIMAL with as many digits before and behind the point, finer
   timestamps; the same type in another Arrow form (dictionary, large, fixed size).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import UnsupportedError
from tidelake.format.parquet_schema import FIELD_ID_KEY
from tidelake.format.read_error import corrupt
from tidelake.format.system_fields import is_system_name
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_type

__all__ = ["Source", "cast_column", "map_columns"]

_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_EXACT_IN_DOUBLE = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.float32()})
_EXACT_IN_FLOAT = frozenset({pa.int8(), pa.int16()})
_UNIT_RANK = {"s": 0, "ms": 1, "us": 2, "ns": 3}


@dataclass(frozen=True, slots=True)
class Source:
    """Where one wanted column comes from.

    Parameters
    ----------
    field : DataField
        The wanted column.
    target : pyarrow.DataType
        Its Arrow type.
    file_name : str, optional
        The column's name in the file; None where the file lacks it.
    file_type : pyarrow.DataType, optional
        Its Arrow type in the file.
    is_int96 : bool
        Whether the file stores it as INT96.
    """

    field: DataField
    target: pa.DataType
    file_name: str | None = None
    file_type: pa.DataType | None = None
    is_int96: bool = False


def map_columns(
    file: pq.ParquetFile,
    fields: Sequence[DataField],
    *,
    path: str,
    file_fields: Sequence[DataField] = (),
) -> tuple[Source, ...]:
    """Find each field in a file.

    Raises
    ------
    CorruptError
        The file lacks a NOT NULL column or one of `file_fields`, or has a name or an id twice.
    UnsupportedError
        A column's type in the file does not become the wanted one without loss.
    """
    schema = file.schema_arrow
    ids = [_field_id(schema.field(i)) for i in range(len(schema))]
    known = [i for i in ids if i is not None]
    if len(set(schema.names)) != len(schema.names) or len(set(known)) != len(known):
        raise corrupt(path, "two of its columns have the same name or field id")
    by_id = {field_id: i for i, field_id in enumerate(ids) if field_id is not None}
    by_name = {
        name: i for i, name in enumerate(schema.names) if ids[i] is None or is_system_name(name)
    }
    int96 = _int96_names(file)
    ids_written = {f.id for f in file_fields}
    sources = []
    for field in fields:
        target = to_arrow_type(field.type)
        index = by_id.get(field.id, by_name.get(field.name))
        if index is None:
            if not field.type.nullable or field.id in ids_written:
                raise corrupt(path, f"column '{field.name}' is missing")
            sources.append(Source(field, target))
            continue
        name, file_type = schema.names[index], schema.field(index).type
        if not _is_lossless(file_type, target, int96=name in int96):
            message = (
                f"Column '{field.name}' is {file_type} in file {path} and cannot be read as"
                f" {field.type} without loss: read a snapshot before the type was changed."
            )
            raise UnsupportedError(message, kind="type_change", path=path, column=field.name)
        sources.append(Source(field, target, name, file_type, name in int96))
    return tuple(sources)


def cast_column(values: pa.Array, source: Source, *, path: str) -> pa.Array:
    """Turn a column as read into the wanted type; values are never changed.

    Raises
    ------
    UnsupportedError
        A value does not fit the wanted type's range.
    """
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values.type == source.target:
            return values
        if pa.types.is_timestamp(source.target):
            # the zone is only a label on values that count from the epoch in UTC either way
            plain = values.cast(pa.timestamp(values.type.unit))
            return plain.cast(pa.timestamp(source.target.unit)).cast(source.target)
        return pc.cast(values, source.target, safe=True)
    except pa.ArrowInvalid as error:
        message = (
            f"Column '{source.field.name}' of file {path} holds a value that does not fit"
            f" {source.field.type} as this version reads it: {error}."
        )
        raise UnsupportedError(
            message, kind="value_range", path=path, column=source.field.name
        ) from error


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None or int(text) < 0 else int(text)


def _int96_names(file: pq.ParquetFile) -> frozenset[str]:
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    return frozenset(c.path for c in columns if c.physical_type == "INT96")


def _is_lossless(source: pa.DataType, target: pa.DataType, *, int96: bool) -> bool:
    if pa.types.is_dictionary(source):
        source = source.value_type
    if source == target:
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # INT96 always shows as nanoseconds; the cast itself refuses to drop any that are there
        return int96 or _UNIT_RANK[source.unit] <= _UNIT_RANK[target.unit]
    if pa.types.is_time(source) and pa.types.is_time(target):
        return _UNIT_RANK[source.unit] <= _UNIT_RANK[target.unit]
    if pa.types.is_string(target):
        return pa.types.is_large_string(source) or pa.types.is_string_view(source)
    if pa.types.is_binary(target):
        return (
            pa.types.is_large_binary(source)
            or pa.types.is_fixed_size_binary(source)
            or pa.types.is_binary_view(source)
        )
    return _is_wider_number(source, target)


def _is_wider_number(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_decimal(target):
        if pa.types.is_decimal(source):
            return (
                source.scale <= target.scale
                and source.precision - source.scale <= target.precision - target.scale
            )
        digits = _INTEGER_DIGITS.get(source)
        return digits is not None and digits <= target.precision - target.scale
    if target == pa.float64():
        return source in _EXACT_IN_DOUBLE
    if target == pa.float32():
        return source in _EXACT_IN_FLOAT
    if source in _INTEGER_DIGITS and target in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[source] <= _INTEGER_DIGITS[target]
    return False
