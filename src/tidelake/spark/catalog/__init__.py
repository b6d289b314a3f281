"""The warehouse as a catalog of Spark's own session: plain ``spark.sql``, without a jar.

Python objects implement the Java interfaces of Spark's connectors. Rows never pass here:
:mod:`tidelake.spark.read` and :mod:`~tidelake.spark.write` carry them.
"""

from tidelake.spark.catalog.named_catalog import register
from tidelake.spark.catalog.registration import opened_catalog

__all__ = ["opened_catalog", "register"]
