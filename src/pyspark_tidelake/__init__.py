"""Where Spark finds ``format("tidelake")`` unregistered: ``DefaultSource`` in ``pyspark_*``."""

from tidelake.spark.source import TidelakeSource as DefaultSource

__all__ = ["DefaultSource"]
