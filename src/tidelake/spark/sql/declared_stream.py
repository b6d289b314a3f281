"""A declared table of Kafka as a stream, with the watermark that its declaration gives."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.schemas import event_time
from tidelake.engine.tables import Catalog
from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.kafka.stream_source import kafka_stream
from tidelake.spark.streams.read.event_time import with_event_time
from tidelake.sql.syntax.ast import CreateTable
from tidelake.sql.syntax.watermark import watermark_options


def declared_stream(
    spark: SparkSession, catalog: Catalog, definition: CreateTable, options: Mapping[str, str]
) -> DataFrame:
    """Read a topic as a stream.

    Raises
    ------
    UnsupportedError
        Through Spark Connect, or the watermark is no column less a fixed time.
    InvalidInputError
        The declaration or an option is wrong.
    """
    table = kafka_table(definition, options)
    read = kafka_stream(spark, catalog, table)
    if definition.watermark is None:
        return read
    declares = event_time(watermark_options(definition.watermark), table=table.name)
    return read if declares is None else with_event_time(Gateway(spark), read, declares)
