"""Tidelake on Apache Spark: sessions, DataFrames from and to tables, the data source."""

from tidelake.spark.lake import Lake, attach
from tidelake.spark.session import session
from tidelake.spark.source import TidelakeSource

__all__ = ["Lake", "TidelakeSource", "attach", "session"]
