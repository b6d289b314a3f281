"""The JDBC catalog of Paimon: databases and tables are rows of SQLite or PostgreSQL.

Statements and layout are those of Java. What a table holds, and how a commit becomes safe, is not
known here: no row of the database is ever relied on for that.
"""

from tidelake.catalog.jdbc.metastore import JdbcMetastore
from tidelake.catalog.jdbc.opening import jdbc_metastore
from tidelake.catalog.jdbc.options import JDBC_OPTIONS, PROPERTY_PREFIX

__all__ = ["JDBC_OPTIONS", "PROPERTY_PREFIX", "JdbcMetastore", "jdbc_metastore"]
