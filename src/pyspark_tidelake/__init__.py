"""Where Spark finds ``format("tidelake")`` unregistered: ``DefaultSource`` in ``pyspark_*``.

Spark looks for the package by this name alone. No code of ours may stand here.
"""

from tidelake.spark.source.data_source import TidelakeSource as DefaultSource

__all__ = ["DefaultSource"]
