"""A table made ready for rows of other columns and types, before they are written.

With ``write.merge-schema`` the schema is changed once, by
:func:`tidelake.table.schema.schema_merging.merging_changes`, then the rows are written by it. Two
writers that add the same column make it once: who comes second finds it there.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import AlreadyExistsError
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import fields_from_spark, to_spark_type
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN
from tidelake.table.handle.handle import TableHandle
from tidelake.table.schema.alter import alter_table, with_newest_schema
from tidelake.table.schema.evolution import evolved_schema
from tidelake.table.schema.schema_merging import merging_changes
from tidelake.types.schema_change import SchemaChange

__all__ = [
    "merges_schema",
    "with_all_columns",
    "with_drafted_schema",
    "with_merged_schema",
]

TRIES_MAX = 3


def merges_schema(handle: TableHandle) -> bool:
    """Whether rows may bring new columns and wider types along."""
    return handle.options.get(declared.WRITE_MERGE_SCHEMA)


def with_merged_schema(handle: TableHandle, rows: st.StructType) -> TableHandle:
    """Give the table with a schema that rows fit, as far as it can be changed to.

    Parameters
    ----------
    handle : TableHandle
        The table.
    rows : StructType
        Their columns.

    Raises
    ------
    InvalidInputError, UnsupportedError
        A column would have to change that may not, as one of the primary key.
    """
    for left in reversed(range(TRIES_MAX)):
        handle = with_newest_schema(handle)
        changes = _changes(handle, rows)
        if not changes:
            return handle
        try:
            return alter_table(handle, changes)
        except AlreadyExistsError:
            if not left:
                raise
    return handle


def with_drafted_schema(handle: TableHandle, rows: st.StructType) -> TableHandle:
    """As :func:`with_merged_schema`, and nothing is published: to check what would be written."""
    changes = _changes(handle, rows)
    if not changes:
        return handle
    draft = evolved_schema(
        handle.schema,
        changes,
        table=handle.identifier,
        has_snapshots=handle.snapshots.latest_id() is not None,
        time_ms=handle.schema.time_ms,
    )
    return replace(handle, schema=draft)


def _changes(handle: TableHandle, rows: st.StructType) -> tuple[SchemaChange, ...]:
    data = [
        st.StructField(f.name, f.dataType, metadata=f.metadata)
        for f in rows.fields
        # a column of nulls alone says nothing of its type
        if f.name != ROW_KIND_COLUMN and not isinstance(f.dataType, st.NullType)
    ]
    given = fields_from_spark(st.StructType(data), table=handle.identifier)
    explicit = handle.options.get(declared.WRITE_MERGE_SCHEMA_EXPLICIT_CAST)
    return merging_changes(handle.schema.fields, given, explicit=explicit)


def with_all_columns(handle: TableHandle, rows: DataFrame) -> DataFrame:
    """The rows under the table's names, with nulls for columns that they have not."""
    given = {c.casefold(): c for c in rows.columns}
    columns = [F.col(quoted(c)) for c in rows.columns if c == ROW_KIND_COLUMN]
    for field in handle.schema.fields:
        known = given.get(field.name.casefold())
        if known is not None:
            columns.append(F.col(quoted(known)).alias(field.name))
        else:
            wanted = to_spark_type(field.type, column=field.name, table=handle.identifier)
            columns.append(F.lit(None).cast(wanted).alias(field.name))
    return rows.select(*columns)
