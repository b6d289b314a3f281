"""Tidelake on Apache Spark: sessions, DataFrames from and to tables, the data source.

Only this package imports pyspark; the engine code on executors is the same as without Spark. No
rule of the format or of a merge belongs here.
"""

from tidelake.spark._pyspark import LibraryMissingError
from tidelake.spark.connect_server import ConnectServer, connect_server
from tidelake.spark.lake import Lake, attach
from tidelake.spark.sessions.session import session
from tidelake.spark.source.data_source import TidelakeSource
from tidelake.spark.sql.merge_builder import MergeBuilder
from tidelake.spark.streams.connector.provider import PROVIDER_CLASS as STREAM

__all__ = [
    "STREAM",
    "ConnectServer",
    "Lake",
    "LibraryMissingError",
    "MergeBuilder",
    "TidelakeSource",
    "attach",
    "connect_server",
    "session",
]
