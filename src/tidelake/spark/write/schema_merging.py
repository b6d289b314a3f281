"""Prepares a table for rows of other columns and types, before the write.

With ``write.merge-schema`` the driver checks that the rows fit the new schema. Then it changes the
schema once, by :func:`tidelake.table.schema.schema_merging.merging_changes`, and then writes the
rows. If two writers add the same column, the second one finds it there.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.schemas import alter_table, evolved_schema, merging_changes, with_newest_schema
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import AlreadyExistsError
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import fields_from_spark, to_spark_type
from tidelake.spark.write.write_frame import check_columns
from tidelake.types.schema_change import SchemaChange

TRIES_MAX = 3


def merges_schema(handle: TableHandle) -> bool:
    """Whether rows may add columns and widen types."""
    return handle.options.get(declared.WRITE_MERGE_SCHEMA)


def with_merged_schema(handle: TableHandle, rows: st.StructType) -> TableHandle:
    """Change the table's schema to fit the rows, as far as that is allowed.

    Raises
    ------
    InvalidInputError, UnsupportedError
        A column would have to change that may not, such as one of the primary key.
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


def merged(handle: TableHandle, rows: DataFrame) -> tuple[TableHandle, DataFrame]:
    """Change the table's schema to fit the rows; give the table, and the rows with its columns.

    Raises
    ------
    InvalidInputError, UnsupportedError
        A column does not fit; then the schema is unchanged.
    """
    drafted = with_drafted_schema(handle, rows.schema)
    check_columns(drafted, with_all_columns(drafted, rows))
    handle = with_merged_schema(handle, rows.schema)
    return handle, with_all_columns(handle, rows)


def with_drafted_schema(handle: TableHandle, rows: st.StructType) -> TableHandle:
    """Draft the schema of :func:`with_merged_schema` without a commit, for checks."""
    handle = with_newest_schema(handle)
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
        # a column of only nulls has no type
        if f.name != ROW_KIND_COLUMN and not isinstance(f.dataType, st.NullType)
    ]
    given = fields_from_spark(st.StructType(data), table=handle.identifier)
    explicit = handle.options.get(declared.WRITE_MERGE_SCHEMA_EXPLICIT_CAST)
    return merging_changes(handle.schema.fields, given, explicit=explicit)


def with_all_columns(handle: TableHandle, rows: DataFrame) -> DataFrame:
    """Select the rows by the table's names, with nulls for columns that they lack."""
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
