"""A table, a system table or a view of rows as a DataFrame, with what the session says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelake.errors import InvalidInputError
from tidelake.options import declared, session_options
from tidelake.scan import metadata_fields
from tidelake.spark.read.scan_frame import frame_of, located_frame_of, view_frame_of
from tidelake.spark.sessions.paimon_settings import paimon_options
from tidelake.spark.sessions.session import settings
from tidelake.table import RowView, SystemTable, Table
from tidelake.table.handle.arguments import column_names

__all__ = ["SESSION_PREFIX", "in_session", "opened_frame", "table_frame"]

SESSION_PREFIX = "spark.tidelake."
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def in_session(
    spark: SparkSession,
    table: Table,
    options: Mapping[str, object] | None = None,
    *,
    conf: Mapping[str, str] | None = None,
) -> Table:
    """The table with the session's options, and over them those of one use.

    `conf` are the session's settings, where the caller has asked for them already.
    """
    conf = settings(spark) if conf is None else conf
    own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
    in_paimons_words = paimon_options(conf, table=table.identifier)
    given = {**_overwrite_options(conf), **in_paimons_words, **own, **(options or {})}
    return table.with_options(given) if given else table


def _overwrite_options(conf: Mapping[str, str]) -> dict[str, str]:
    """What Spark's own setting says of an overwrite; unset, the table's option counts."""
    is_static = conf.get(OVERWRITE_MODE, "").lower() == "static"
    return {declared.DYNAMIC_PARTITION_OVERWRITE.key: "false"} if is_static else {}


def table_frame(
    spark: SparkSession,
    found: Table | SystemTable,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: object = None,
    moment: Mapping[str, Any] | None = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Give a table as a DataFrame; see :meth:`tidelake.spark.Lake.table`.

    Parameters
    ----------
    spark : SparkSession
        Where it is read.
    found : Table or SystemTable
        What to read.
    name : str
        What messages call it.
    columns, filter
        As of :meth:`tidelake.spark.Lake.table`; of a table also its metadata columns.
    moment : mapping, optional
        ``snapshot_id``, ``timestamp`` and ``tag``.
    options : mapping, optional
        Of a table; a system table has those that it was opened with.
    """
    when = dict(moment or {})
    if isinstance(found, RowView):
        view = found.scan(columns=columns, filter=filter, **when)
        return view_frame_of(spark, view, table=name)
    if isinstance(found, SystemTable):
        return spark.createDataFrame(found.to_arrow(columns=columns, filter=filter, **when))
    if columns is not None and not list(columns):
        message = f"columns=[] leaves nothing of table '{name}' to read: name at least one column."
        raise InvalidInputError(message, kind="no_columns", table=name)
    return opened_frame(
        spark,
        in_session(spark, found, options),
        name,
        columns=columns,
        filter=filter,
        moment=when,
    )


def opened_frame(
    spark: SparkSession,
    opened: Table,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: object = None,
    moment: Mapping[str, Any] | None = None,
    exact: bool = True,
) -> DataFrame:
    """As :func:`table_frame`, of a table that has the session's options.

    Parameters
    ----------
    opened : Table
        As :func:`in_session` gives it.
    exact : bool
        As of :func:`~tidelake.spark.read.scan_frame.frame_of`.
    """
    when = moment or {}
    metadata = metadata_fields(opened.table_schema)
    wanted = column_names(columns, (), table=name)
    if not metadata.keys().isdisjoint(wanted):
        own = [c for c in wanted if c not in metadata]
        scan = opened.scan(columns=own, filter=filter, **when)
        return located_frame_of(spark, scan, wanted, table=name)
    scan = opened.scan(columns=columns, filter=filter, **when)
    return frame_of(spark, scan, table=name, exact=exact)
