"""Matches the fields of nested values with those of a column by their names, at every depth.

Where a statement names its columns (UPDATE, MERGE, INSERT BY NAME), Spark matches the fields of
structs by name too: of structs in structs, arrays and maps. INSERT without BY NAME goes by
position, at every depth. Names are compared without regard to case. A field that is missing or
unknown is an error with its path, such as ``items.element.price``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError, near_names


def fields_by_name(
    value: Column, source: st.DataType, wanted: st.DataType, *, column: str, table: str
) -> tuple[Column, st.DataType]:
    """Return a value whose structs have the fields of a column's, in its order, and its type.

    Raises
    ------
    InvalidInputError
        A struct lacks a field, or has another one.
    """
    made = _ordered_type(source, wanted, column, table)
    if _is_ordered(source, wanted):
        return value, source
    return _ordered(value, source, wanted), made


def _ordered_type(source: st.DataType, wanted: st.DataType, path: str, table: str) -> st.DataType:
    """The type of the value in the order of the column's fields."""
    if isinstance(source, st.StructType) and isinstance(wanted, st.StructType):
        _check_fields(source.names, wanted.names, path, table)
        fields = [
            st.StructField(
                own.name, _ordered_type(old.dataType, own.dataType, f"{path}.{own.name}", table)
            )
            for old, own in _pairs(source, wanted)
        ]
        return st.StructType(fields)
    if isinstance(source, st.ArrayType) and isinstance(wanted, st.ArrayType):
        element = _ordered_type(source.elementType, wanted.elementType, f"{path}.element", table)
        return st.ArrayType(element, source.containsNull)
    if isinstance(source, st.MapType) and isinstance(wanted, st.MapType):
        key = _ordered_type(source.keyType, wanted.keyType, f"{path}.key", table)
        value = _ordered_type(source.valueType, wanted.valueType, f"{path}.value", table)
        return st.MapType(key, value, source.valueContainsNull)
    return source


def _check_fields(given: Sequence[str], wanted: Sequence[str], path: str, table: str) -> None:
    keys = [name.casefold() for name in given]
    own = [name.casefold() for name in wanted]
    missing = [name for name in wanted if name.casefold() not in keys]
    extra = [name for name in given if name.casefold() not in own]
    if missing:
        message = (
            f"The value for table '{table}' lacks the field '{path}.{missing[0]}': it has"
            f" {', '.join(given)}. Give each field by its name, as in named_struct('{missing[0]}',"
            " ...)."
        )
    elif extra:
        message = (
            f"The value for table '{table}' has the field '{path}.{extra[0]}', which the column"
            f" lacks.{near_names(extra[0], wanted)} Its fields are: {', '.join(wanted)}."
        )
    elif len(set(keys)) < len(keys):
        twice = next(name for name in given if keys.count(name.casefold()) > 1)
        message = (
            f"The value for table '{table}' has the field '{path}.{twice}' twice: give each field"
            " once."
        )
    else:
        return
    column = path.split(".", 1)[0]
    raise InvalidInputError(message, kind="column_field", table=table, column=column)


def _pairs(
    source: st.StructType, wanted: st.StructType
) -> list[tuple[st.StructField, st.StructField]]:
    by_key = {field.name.casefold(): field for field in source.fields}
    return [(by_key[own.name.casefold()], own) for own in wanted.fields]


def _is_ordered(source: st.DataType, wanted: st.DataType) -> bool:
    """Whether all fields have the positions of their names."""
    if isinstance(source, st.StructType) and isinstance(wanted, st.StructType):
        return all(
            old.name == found.name and _is_ordered(old.dataType, own.dataType)
            for found, (old, own) in zip(source.fields, _pairs(source, wanted), strict=True)
        )
    if isinstance(source, st.ArrayType) and isinstance(wanted, st.ArrayType):
        return _is_ordered(source.elementType, wanted.elementType)
    if isinstance(source, st.MapType) and isinstance(wanted, st.MapType):
        return _is_ordered(source.keyType, wanted.keyType) and _is_ordered(
            source.valueType, wanted.valueType
        )
    return True


def _ordered(value: Column, source: st.DataType, wanted: st.DataType) -> Column:
    """Requires: the fields have the same names."""
    if _is_ordered(source, wanted):
        return value
    if isinstance(source, st.StructType) and isinstance(wanted, st.StructType):
        parts = [
            _ordered(value.getField(old.name), old.dataType, own.dataType).alias(own.name)
            for old, own in _pairs(source, wanted)
        ]
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(source, st.ArrayType) and isinstance(wanted, st.ArrayType):
        inner, own = source.elementType, wanted.elementType
        return F.transform(value, lambda element: _ordered(element, inner, own))
    assert isinstance(source, st.MapType), "other types have no fields"
    assert isinstance(wanted, st.MapType), "other types have no fields"
    if not _is_ordered(source.valueType, wanted.valueType):
        olds, news = source.valueType, wanted.valueType
        value = F.transform_values(value, lambda _, item: _ordered(item, olds, news))
    if not _is_ordered(source.keyType, wanted.keyType):
        before, after = source.keyType, wanted.keyType
        value = F.transform_keys(value, lambda key, _: _ordered(key, before, after))
    return value
