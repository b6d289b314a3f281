"""Statements by ``tl.sql`` and by plain ``spark.sql``: two doors to one implementation."""

from __future__ import annotations

from pyspark.errors import PySparkException

from tidelake.errors import InvalidInputError
from tidelake.spark.errors.passed_errors import passed_error

DOORS = ("tl.sql", "spark.sql")


def run(lake, text, door):
    """Run a statement on tables of ``default``; errors are ours by either door."""
    if door == "tl.sql":
        return lake.sql(text)
    spark = lake.spark
    spark.sql("USE tidelake.default")
    try:
        return spark.sql(text)
    except PySparkException as error:
        said = str(error)
        assert "\tat " not in said, said
        assert "_tidelake_" not in said, said
        found = passed_error(said)
        if found is None:  # Spark's own analysis
            found = InvalidInputError(said, kind="sql_analysis")
        raise found from error
    finally:
        spark.sql("USE spark_catalog.default")
