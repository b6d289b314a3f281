"""The partition columns of an append table's files, which may lack them.

Writers put all columns into a file. A table that was migrated in place has files of Hive's or
Delta's, whose partition columns are in the names of directories alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidelake.metadata.paths import TablePaths
from tidelake.types import TableSchema
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import from_storage


def partition_columns(
    paths: TablePaths, schema: TableSchema, partition: bytes
) -> Mapping[int, pa.Scalar]:
    """The values of a partition by field id; empty for a table with a primary key."""
    if schema.primary_keys or not paths.partition_keys:
        return {}
    values = paths.partition_values(partition)
    found: dict[int, pa.Scalar] = {}
    for key, data_type, value in zip(
        paths.partition_keys, paths.partition_types, values, strict=True
    ):
        plain = None if value is None else from_storage(value, data_type)
        found[schema.field(key).id] = pa.scalar(plain, to_arrow_type(data_type))
    return found
