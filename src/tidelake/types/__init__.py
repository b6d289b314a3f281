"""Data types, schema, row kinds, predicates and the Arrow mapping."""

from tidelake.types.data_type import DataType, TypeRoot, parse_type, type_to_json
from tidelake.types.row_kind import RowKind
from tidelake.types.schema import DataField, TableSchema

__all__ = [
    "DataField",
    "DataType",
    "RowKind",
    "TableSchema",
    "TypeRoot",
    "parse_type",
    "type_to_json",
]
