"""Statements: read from text, carried out on catalogs; queries are looked into, Spark runs them."""

from tidelake.sql.execute import execute
from tidelake.sql.parse import parse
from tidelake.sql.session import SqlSession

__all__ = ["SqlSession", "execute", "parse"]
