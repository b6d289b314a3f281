"""Parses and analyses statements, and runs those that need no Spark.

Queries stay text, because Spark runs them. pyspark may not enter.
"""

from tidelake.sql.execution.execute import execute
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.parser.parse import parse

__all__ = ["SqlSession", "execute", "parse"]
