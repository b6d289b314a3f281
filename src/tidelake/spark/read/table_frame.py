"""A table, a system table or a view of rows as a DataFrame, with the options of the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.scan import metadata_fields
from tidelake.engine.tables import RowView, SystemTable, Table, column_names
from tidelake.options import declared, session_options
from tidelake.spark.jvm.held_frames import held_while_read
from tidelake.spark.read.scan_frame import frame_of, rows_frame
from tidelake.spark.sessions.paimon_settings import paimon_options
from tidelake.spark.sessions.session import settings
from tidelake.spark.sessions.time_zone import with_session_times

SESSION_PREFIX = "spark.tidelake."
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def in_session(
    spark: SparkSession,
    table: Table,
    options: Mapping[str, object] | None = None,
    *,
    conf: Mapping[str, str] | None = None,
) -> Table:
    """The table with the session's options, overridden by those of one use.

    Times among them that name no zone are in the session's. `conf` are its settings, if the caller
    has them already.
    """
    conf = settings(spark) if conf is None else conf
    own = session_options(conf, prefix=SESSION_PREFIX, table=table.identifier)
    own_of_paimon = paimon_options(conf, table=table.identifier)
    given = {**_overwrite_options(conf), **own_of_paimon, **own, **(options or {})}
    return with_session_times(spark, table.with_options(given) if given else table)


def _overwrite_options(conf: Mapping[str, str]) -> dict[str, str]:
    """The options of an overwrite by Spark's own setting; empty if it is not set."""
    is_static = conf.get(OVERWRITE_MODE, "").lower() == "static"
    return {declared.DYNAMIC_PARTITION_OVERWRITE.key: "false"} if is_static else {}


def table_frame(
    spark: SparkSession,
    found: Table | SystemTable,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    where: object = None,
    moment: Mapping[str, Any] | None = None,
    exact: bool = True,
) -> DataFrame:
    """Make a DataFrame of a table; see :meth:`tidelake.spark.Lake.table`.

    Parameters
    ----------
    columns, where
        As of :meth:`tidelake.spark.Lake.table`; a table's metadata columns too.
    moment : mapping, optional
        ``snapshot_id``, ``timestamp`` and ``tag``.
    exact : bool
        As of :func:`~tidelake.spark.read.scan_frame.frame_of`.
    """
    when = dict(moment or {})
    if isinstance(found, RowView):
        view = found.scan(columns=columns, where=where, **when)
        frame = rows_frame(spark, view.rows, view.plan.splits, table=name)
        return held_while_read(spark, frame, view.hold)
    if isinstance(found, SystemTable):
        return spark.createDataFrame(found.to_arrow(columns=columns, where=where, **when))
    metadata = metadata_fields(found.table_schema)
    wanted = column_names(columns, (), table=name)
    own = columns
    if not metadata.keys().isdisjoint(wanted):
        own = [c for c in wanted if c not in metadata]
    scan = found.scan(columns=own, where=where, **when)
    return frame_of(spark, scan, table=name, columns=wanted, exact=exact)
