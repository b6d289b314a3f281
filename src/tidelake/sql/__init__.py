"""Statements: parsed, analysed, and run where no Spark is needed.

Queries keep their text, for Spark runs them. pyspark may not enter.
"""

from tidelake.sql.execution.execute import execute
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.parser.parse import parse

__all__ = ["SqlSession", "execute", "parse"]
