"""The JDBC catalog of Paimon: databases and tables are rows of SQLite or PostgreSQL."""

from tidelake.catalog.jdbc.metastore import JdbcMetastore
from tidelake.catalog.jdbc.opening import jdbc_metastore
from tidelake.catalog.jdbc.options import JDBC_OPTIONS, PROPERTY_PREFIX

__all__ = ["JDBC_OPTIONS", "PROPERTY_PREFIX", "JdbcMetastore", "jdbc_metastore"]
