"""The warehouse as a catalog of Spark's own session: plain ``spark.sql``, without a jar."""

from tidelake.spark.catalog.registration import register

__all__ = ["register"]
