"""A lookup join as a frame: an Arrow UDF finds the rows, ``inline`` makes columns of them.

The UDF gets the key's columns and the snapshot (:mod:`tidelake.spark.lookupjoin.pin`); what it
gives is described in :mod:`tidelake.spark.lookupjoin.task`. A projection on top of ``inline``, and
not of the UDF itself, for Spark would run the UDF once more for each filter above it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import UnsupportedError
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.lookupjoin.pin import pinned_at_each_batch, pinned_now
from tidelake.spark.lookupjoin.request import LookupRequest, Retry, key_fields
from tidelake.spark.lookupjoin.task import LocalLookup, LookupTask, lookup_lists
from tidelake.spark.write.write_task import for_task
from tidelake.table import Table
from tidelake.table.handle.time_travel import option_moment
from tidelake.types import DataField

__all__ = ["joined", "lookup_function", "names_moment"]


def joined(
    spark: SparkSession,
    frame: DataFrame,
    table: Table,
    request: LookupRequest,
    *,
    retry: Retry | None = None,
) -> DataFrame:
    """Join a frame with the rows of a table that its keys name.

    Parameters
    ----------
    spark : SparkSession
        Where it runs.
    frame : DataFrame
        A batch or a stream.
    table : Table
        As :func:`~tidelake.spark.read.table_frame.in_session` gives it.
    request : LookupRequest
        What is joined.
    retry : Retry, optional
        Whether missing keys are asked for again.

    Returns
    -------
    DataFrame
        The frame's columns, then those of the table.

    Raises
    ------
    UnsupportedError
        The table's options name a moment: rows are looked up as they are now.
    """
    if names_moment(table):
        message = (
            f"Options of table '{table.identifier}' say at which moment it is read; rows are looked"
            " up as they are now: leave the options out, or use frame.join(tl.table(...))."
        )
        raise UnsupportedError(message, kind="lookup_join", table=table.identifier)
    streams = frame.isStreaming
    pin = pinned_at_each_batch(spark, table).scalar() if streams else pinned_now(table)
    find = lookup_function(table, request.columns, retry=retry)
    inline = F.inline_outer if request.is_outer else F.inline
    found = inline(find(*(F.expr(key) for key in request.keys), pin))
    return frame.select("*", found.alias(*request.names))


def lookup_function(
    table: Table, columns: tuple[DataField, ...], *, retry: Retry | None = None
) -> Any:
    """Make the UDF: from the key's columns and a snapshot to a list of at most one struct.

    Parameters
    ----------
    table, retry
        As of :func:`joined`.
    columns : tuple of DataField
        The fields of the struct.
    """
    looked_up = Table(for_task(table.handle))
    task = LookupTask(
        LocalLookup(looked_up, tuple(f.name for f in columns)),
        key_fields(table),
        columns,
        retry,
    )
    work = lookup_lists(task, calls_max=1)
    work.__name__ = f"lookup of {table.identifier}"  # EXPLAIN shows it
    returned = st.ArrayType(spark_schema(columns, table=table.identifier), containsNull=False)
    return F.arrow_udf(work, returned)


def names_moment(table: Table) -> bool:
    """Whether a table's options say at which moment it is read."""
    return bool(option_moment(table.options, table=table.identifier))
