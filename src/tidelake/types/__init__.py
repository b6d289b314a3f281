"""Data types, schemas, row kinds, predicates and the mapping to Arrow.

Types are values; their texts are Paimon's. No file and no option may enter.
"""

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
