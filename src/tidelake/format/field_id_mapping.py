"""Maps a table's columns to a Parquet file's, and casts them to the wanted types.

1. A column is found by its Paimon field id. A column of a file without ids is found by the name
   that it had in the schema of the file, a system column by its name. A column of the same name
   under another id is a different one: it was dropped and added again.
2. A column that the file lacks is null: it was added later. If the file's own schema has it, the
   file is damaged instead.
3. The same applies inside nested types: the fields of a row are found by id (by name in a file
   without ids), in any order; elements, keys and values by position; the two binaries of a variant
   by name. Each row has its own ids: fields of different rows may have equal ones.
4. Only casts that keep every value are made: wider integers, FLOAT to DOUBLE, integers to DOUBLE or
   DECIMAL that hold them, DECIMAL with as many digits before and after the point, finer timestamps;
   the same type in another Arrow form (dictionary, large, fixed size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.format.field_schema import FIELD_ID_KEY
from tidelake.format.read_error import corrupt
from tidelake.format.system_fields import is_system_name
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import VARIANT_STORAGE, child_types, to_arrow_type
from tidelake.types.data_type import STRING_LENGTH_MAX
from tidelake.types.nested import (
    ListParts,
    is_list_like,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)
from tidelake.types.variant.variant_shredding import TYPED_VALUE, check_shredded, rebuilt_variants

_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_EXACT_IN_DOUBLE = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.float32()})
_EXACT_IN_FLOAT = frozenset({pa.int8(), pa.int16()})
_UNNAMED = frozenset({TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET})
_UNIT_RANK = {"s": 0, "ms": 1, "us": 2, "ns": 3}


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """The origin of one wanted column.

    Parameters
    ----------
    file_name : str, optional
        The column's name in the file; None if the file lacks it.
    is_int96 : bool
        Whether the file stores it, or a timestamp inside it, as INT96.
    children : tuple of ColumnOrigin
        For a nested column: the origin of each inner column.
    as_it_is : bool
        Whether the column as read only needs another name for its type.
    is_shredded : bool
        Whether it is a variant whose parts must be joined.
    constant : pyarrow.Scalar, optional
        The value of a column that the file lacks.
    """

    field: DataField
    target: pa.DataType
    file_name: str | None = None
    file_type: pa.DataType | None = None
    is_int96: bool = False
    children: tuple[ColumnOrigin, ...] = ()
    as_it_is: bool = False
    is_shredded: bool = False
    constant: pa.Scalar | None = None

    def missing(self, rows_count: int) -> pa.Array:
        """The column of a file that lacks it: its constant, or nulls."""
        if self.constant is None:
            return pa.nulls(rows_count, self.target)
        return pa.repeat(self.constant.cast(self.target), rows_count)


def map_columns(
    file: pq.ParquetFile,
    fields: Sequence[DataField],
    *,
    path: str,
    file_fields: Sequence[DataField] = (),
    constants: Mapping[int, pa.Scalar] | None = None,
) -> tuple[ColumnOrigin, ...]:
    """Find each field in a file; `constants` has values of columns that it may lack.

    Raises
    ------
    CorruptError
        The file lacks a NOT NULL column or one of `file_fields`, or has a duplicate name or id.
    UnsupportedError
        A column's type in the file cannot become the wanted one without loss.
    """
    return map_schema(
        file.schema_arrow,
        fields,
        path=path,
        file_fields=file_fields,
        int96=_int96_names(file),
        constants=constants,
    )


def map_schema(
    schema: pa.Schema,
    fields: Sequence[DataField],
    *,
    path: str,
    file_fields: Sequence[DataField] = (),
    int96: frozenset[str] = frozenset(),
    constants: Mapping[int, pa.Scalar] | None = None,
) -> tuple[ColumnOrigin, ...]:
    """Find each field in the columns of a file of any format.

    Parameters
    ----------
    schema : pyarrow.Schema
        The file's columns; field ids are in their metadata, as in Parquet's.
    int96 : frozenset of str
        Columns whose timestamps appear as nanoseconds, whatever they are.
    constants : mapping of int to pyarrow.Scalar, optional
        By field id: values of columns that the file may lack.

    Raises
    ------
    CorruptError, UnsupportedError
        As of :func:`map_columns`.
    """
    known = _File(path, int96)
    written = {f.id: (f.name, f.type) for f in file_fields} if file_fields else None
    places = _ColumnIndexes.of(list(schema), written, path)
    if constants:
        found = [(f, places.find(f)) for f in fields]
        return tuple(
            ColumnOrigin(f, to_arrow_type(f.type), constant=constants[f.id])
            if place.column is None and f.id in constants
            else _source(f, place, known)
            for f, place in found
        )
    return tuple(_source(f, places.find(f), known) for f in fields)


@dataclass(frozen=True, slots=True)
class _File:
    """The known facts of a file: its path, and its top columns with INT96."""

    path: str
    int96: frozenset[str]


_Written: TypeAlias = Mapping[int, tuple[str, DataType]] | None
"""By id, the columns or the fields of a row in the file's own schema; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class _FileField:
    """A field of the file, if it has it.

    Parameters
    ----------
    is_written : bool
        Whether the file's own schema has the field.
    type : DataType, optional
        Its type in that schema.
    schema_is_known : bool
        Whether the file's own schema is known.
    """

    column: pa.Field | None
    is_written: bool = False
    type: DataType | None = None
    schema_is_known: bool = False

    def fields(self) -> _Written:
        """The fields of a row in the file's own schema."""
        if self.type is None or self.type.root is not TypeRoot.ROW:
            return {} if self.schema_is_known else None
        pairs = zip(self.type.child_fields, self.type.children, strict=True)
        return {i: (name, t) for (i, name), t in pairs}

    def unnamed(self, columns: Sequence[pa.Field]) -> list[_FileField]:
        """The elements, or keys and values, which have these columns."""
        types: list[DataType | None] = [None] * len(columns)
        if self.type is not None and self.type.root in _UNNAMED:
            types = [t for _, t in child_types(self.type)]
        pairs = zip(columns, types, strict=False)
        return [_FileField(c, type=t, schema_is_known=self.schema_is_known) for c, t in pairs]


@dataclass(frozen=True, slots=True)
class _ColumnIndexes:
    """The fields of a file, or of a struct in it, by id or, without ids, by name."""

    by_id: dict[int, pa.Field]
    by_name: dict[str, pa.Field]
    written: _Written

    @classmethod
    def of(cls, fields: Sequence[pa.Field], written: _Written, path: str) -> _ColumnIndexes:
        ids = [_field_id(field) for field in fields]
        known = [i for i in ids if i is not None]
        if len({f.name for f in fields}) != len(fields) or len(set(known)) != len(known):
            raise corrupt(path, "two of its columns have the same name or field id")
        pairs = list(zip(ids, fields, strict=True))
        return cls(
            {i: f for i, f in pairs if i is not None},
            {f.name: f for i, f in pairs if i is None or is_system_name(f.name)},
            written,
        )

    def find(self, field: DataField) -> _FileField:
        """A column by its id; in a file without ids by its name when the file was written."""
        if self.written is None:
            return _FileField(self.by_id.get(field.id) or self.by_name.get(field.name))
        name, own_type = self.written.get(field.id, ("", None))
        found = self.by_id.get(field.id)
        if found is None:
            found = self.by_name.get(field.name if is_system_name(field.name) else name)
        return _FileField(found, field.id in self.written, own_type, schema_is_known=True)


def _source(field: DataField, place: _FileField, file: _File, *, top: str = "") -> ColumnOrigin:
    """The origin of a column; `top` is the file's name of the column that it is inside."""
    target, found = to_arrow_type(field.type), place.column
    if found is None:
        if not field.type.nullable or place.is_written:
            raise corrupt(file.path, f"column '{field.name}' is missing")
        return ColumnOrigin(field, target)
    int96 = (top or found.name) in file.int96
    if _is_shredded(field, found.type):
        _check_shredded(field, found.type, file.path)
        return ColumnOrigin(field, target, found.name, found.type, is_shredded=True)
    if field.type.root is TypeRoot.VARIANT or field.type.is_nested:
        children = _children(field, found.type, place, file, top=top or found.name)
        if children is None:
            raise _type_change(field, found.type, file.path)
        same = all(_is_same(c, f) for c, f in zip(children, _inside(found.type), strict=False))
        same &= len(children) == found.type.num_fields or not pa.types.is_struct(found.type)
        return ColumnOrigin(field, target, found.name, found.type, int96, children, same)
    if not _is_lossless(found.type, target, int96=int96):
        raise _type_change(field, found.type, file.path)
    return ColumnOrigin(field, target, found.name, found.type, int96)


def _is_shredded(field: DataField, file_type: pa.DataType) -> bool:
    """Whether parts of a variant are in separate columns."""
    is_variant = field.type.root is TypeRoot.VARIANT and pa.types.is_struct(file_type)
    return is_variant and TYPED_VALUE in {f.name for f in file_type}


def _check_shredded(field: DataField, file_type: pa.StructType, path: str) -> None:
    try:
        check_shredded(file_type)
    except UnsupportedError as error:
        message = f"Column '{field.name}' of file {path}: {error.message}"
        raise UnsupportedError(message, kind=error.kind, path=path, column=field.name) from error


def _is_same(child: ColumnOrigin, file_field: pa.Field) -> bool:
    return child.file_name == file_field.name and (
        child.as_it_is or (not child.children and child.file_type == child.target)
    )


def _inside(file_type: pa.DataType) -> list[pa.Field]:
    """The fields inside a column of the file."""
    if pa.types.is_map(file_type):
        return [file_type.key_field, file_type.item_field]
    return [file_type.field(i) for i in range(file_type.num_fields)]


def _children(
    field: DataField, file_type: pa.DataType, place: _FileField, file: _File, *, top: str
) -> tuple[ColumnOrigin, ...] | None:
    """The origins of a nested column's inner columns; None if the file's type differs."""
    root, kinds = field.type.root, pa.types
    if root is TypeRoot.VARIANT or root is TypeRoot.ROW:
        if not kinds.is_struct(file_type):
            return None
        if root is TypeRoot.VARIANT:
            names = {f.name for f in file_type}
            if names != {f.name for f in VARIANT_STORAGE}:
                return None
            binary = DataType(TypeRoot.VARBINARY, nullable=False, length=STRING_LENGTH_MAX)
            fields = [
                DataField(field.id, f"{field.name}.{f.name}", binary) for f in VARIANT_STORAGE
            ]
            found = [_FileField(file_type.field(f.name)) for f in VARIANT_STORAGE]
        else:
            pairs = zip(field.type.child_fields, field.type.children, strict=True)
            places = _ColumnIndexes.of(list(file_type), place.fields(), file.path)
            wanted = [DataField(i, name, t) for (i, name), t in pairs]
            found = [places.find(f) for f in wanted]
            fields = [replace(f, name=f"{field.name}.{f.name}") for f in wanted]
    elif root is TypeRoot.ARRAY:
        if not is_list_like(file_type):
            return None
        fields, found = _unnamed(field), place.unnamed([file_type.value_field])
    else:
        if not kinds.is_map(file_type):
            return None
        columns = [file_type.key_field, file_type.item_field]
        fields, found = _unnamed(field), place.unnamed(columns)
    return tuple(_source(f, g, file, top=top) for f, g in zip(fields, found, strict=True))


def _unnamed(field: DataField) -> list[DataField]:
    """Elements, keys and values: columns found by position."""
    return [DataField(-1, f"{field.name}.{n}", t) for n, t in child_types(field.type)]


def _type_change(field: DataField, file_type: pa.DataType, path: str) -> UnsupportedError:
    message = (
        f"Column '{field.name}' is {file_type} in file {path} and cannot be read as"
        f" {field.type} without loss: read a snapshot before the type was changed."
    )
    return UnsupportedError(message, kind="type_change", path=path, column=field.name)


def cast_column(values: pa.Array, source: ColumnOrigin, *, path: str) -> pa.Array:
    """Cast a column as read to the wanted type; values never change.

    Raises
    ------
    UnsupportedError
        A value does not fit the wanted type's range.
    """
    if source.children:
        return _cast_nested(values, source, path=path)
    if source.is_shredded:
        return _rebuilt(values, source, path)
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values.type == source.target:
            return values
        if pa.types.is_timestamp(source.target):
            # the zone is only a label: the values count from the epoch in UTC either way
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


def _rebuilt(values: pa.Array, source: ColumnOrigin, path: str) -> pa.Array:
    try:
        return rebuilt_variants(values)
    except CorruptError as error:
        raise corrupt(path, f"column '{source.field.name}': {error.message}") from error


def _cast_nested(values: pa.Array, source: ColumnOrigin, *, path: str) -> pa.Array:
    if source.as_it_is and values.type == source.target:
        return values
    if pa.types.is_struct(source.target):
        given = {f.name: c for f, c in zip(values.type, struct_children(values), strict=True)}
        columns = [
            pa.nulls(len(values), child.target)
            if child.file_name is None
            else cast_column(given[child.file_name], child, path=path)
            for child in source.children
        ]
        return struct_of(columns, source.target, values)
    parts = list_parts(values)
    flat = [
        cast_column(column, child, path=path)
        for column, child in zip(parts.children, source.children, strict=True)
    ]
    parts = ListParts(parts.offsets, parts.nulls, tuple(flat))
    put_together = map_of if pa.types.is_map(source.target) else list_of
    return put_together(parts, source.target)


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None or int(text) < 0 else int(text)


def _int96_names(file: pq.ParquetFile) -> frozenset[str]:
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    paths = [c.path for c in columns if c.physical_type == "INT96"]
    return frozenset(
        name
        for name in file.schema_arrow.names
        for p in paths
        if p == name or p.startswith(name + ".")
    )


def _is_lossless(source: pa.DataType, target: pa.DataType, *, int96: bool) -> bool:
    if pa.types.is_dictionary(source):
        source = source.value_type
    if source == target:
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # INT96 always appears as nanoseconds; the cast itself refuses to drop any
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
