"""A lookup join as a frame: an Arrow UDF finds the rows, ``inline`` makes columns of them.

The UDF gets the key's columns and the snapshot (:mod:`tidelake.spark.lookupjoin.pin`); what it
gives is described in :mod:`tidelake.spark.lookupjoin.task`. A projection on top of ``inline``, and
not of the UDF itself, for Spark would run the UDF once more for each filter above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.scan import ReadHold
from tidelake.engine.tables import Catalog, Table, option_moment
from tidelake.errors import NotFoundError, UnsupportedError
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.jvm.held_frames import held_while_read
from tidelake.spark.lookupjoin.pin import pinned_at_each_batch, pinned_now
from tidelake.spark.lookupjoin.request import LookupRequest, Retry, Via, key_fields
from tidelake.spark.lookupjoin.service_source import CALLS_MAX, ServiceLookup, is_served
from tidelake.spark.lookupjoin.task import LocalLookup, LookupSource, LookupTask, lookup_lists
from tidelake.spark.versions import ARROW_UDFS, check_has
from tidelake.spark.write.write_task import for_task
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class LookupMeans:
    """How rows are looked up.

    Parameters
    ----------
    via : str
        In local files, by the table's query service, or by the service where one has registered.
    retry : Retry, optional
        Whether missing keys are asked for again.
    catalog : Catalog, optional
        Where the service finds the table; without one rows are looked up in local files.
    service : mapping
        Further arguments of :func:`tidelake.lookup_client`.
    """

    via: Via = "auto"
    retry: Retry | None = None
    catalog: Catalog | None = None
    service: Mapping[str, Any] = field(default_factory=dict)


def joined(
    spark: SparkSession,
    frame: DataFrame,
    table: Table,
    request: LookupRequest,
    means: LookupMeans,
) -> DataFrame:
    """Join a frame with the rows of a table that its keys name.

    Parameters
    ----------
    table : Table
        As :func:`~tidelake.spark.read.table_frame.in_session` gives it.
    request : LookupRequest
        What is joined.

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
    hold = ReadHold()
    if streams:
        pin = pinned_at_each_batch(spark, table).scalar()
    else:
        snapshot, hold = pinned_now(table.handle)
        pin = F.lit(snapshot).cast("bigint")
    find = lookup_function(table, request.columns, means)
    inline = F.inline_outer if request.is_outer else F.inline
    found = inline(find(*(F.expr(key) for key in request.keys), pin))
    made = frame.select("*", found.alias(*request.names))
    return held_while_read(spark, made, hold, is_lookup=True)


def lookup_function(table: Table, columns: tuple[DataField, ...], means: LookupMeans) -> Any:
    """Make the UDF: from the key's columns and a snapshot to a list of at most one struct.

    Raises
    ------
    NotFoundError
        The service is asked for, and none has registered for the table.
    UnsupportedError
        This Spark is too old for lookups.
    """
    check_has(ARROW_UDFS, "Join with the table itself: tl.table(name).")
    source = _source(table, tuple(f.name for f in columns), means)
    task = LookupTask(source, key_fields(table), columns, means.retry)
    calls_max = CALLS_MAX if isinstance(source, ServiceLookup) else 1
    work = lookup_lists(task, calls_max=calls_max)
    work.__name__ = f"lookup of {table.identifier}"  # EXPLAIN shows it
    returned = st.ArrayType(spark_schema(columns, table=table.identifier), containsNull=False)
    return F.arrow_udf(work, returned)


def _source(table: Table, columns: tuple[str, ...], means: LookupMeans) -> LookupSource:
    catalog = means.catalog
    is_asked = means.via == "service"
    if means.via == "local" or catalog is None or not (is_asked or is_served(table)):
        return LocalLookup(Table(for_task(table.handle)), columns)
    if not is_served(table):
        message = (
            f"No query service is registered for table '{table.identifier}': start one by tidelake"
            f" serve {table.identifier}, or look up with via='local'."
        )
        raise NotFoundError(message, kind="service_not_found", table=table.identifier)
    settings = {"fallback": not is_asked, **means.service}
    return ServiceLookup.of(catalog, table, columns, settings)


def names_moment(table: Table) -> bool:
    """Whether a table's options say at which moment it is read."""
    return bool(option_moment(table.options, table=table.identifier))
