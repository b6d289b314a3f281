"""The layout of the catalog in a database, on disk shared with Java: never change a name or type.

``paimon_tables`` has a row per table, ``paimon_database_properties`` at least the row ``exists`` =
``true`` per database, ``paimon_distributed_locks`` a row per lock that is held. Paimon 2 adds
``paimon_table_properties`` (copies of options), which is kept in step if it exists and never made
here, and ``paimon_views``, which the first view makes. Source: ``JdbcUtils`` of paimon-core (1.3.1,
2.0 and 2.1).
"""

from __future__ import annotations

TABLES = "paimon_tables"
DATABASE_PROPERTIES = "paimon_database_properties"
LOCKS = "paimon_distributed_locks"
TABLE_PROPERTIES = "paimon_table_properties"
VIEWS = "paimon_views"

CREATE_TABLES = (
    f"CREATE TABLE {TABLES}(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
    "table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name))"
)
CREATE_DATABASE_PROPERTIES = (
    f"CREATE TABLE {DATABASE_PROPERTIES}(catalog_key VARCHAR(255) NOT NULL,database_name"
    " VARCHAR(255) NOT NULL,property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY"
    " (catalog_key, database_name, property_key))"
)
CREATE_LOCKS = (
    f"CREATE TABLE {LOCKS}(lock_id VARCHAR({{length}}) NOT NULL,acquired_at TIMESTAMP DEFAULT"
    " CURRENT_TIMESTAMP NOT NULL,expire_time_seconds BIGINT DEFAULT 0 NOT NULL,PRIMARY KEY"
    " (lock_id))"
)

CREATE_VIEWS = (
    f"CREATE TABLE {VIEWS}(catalog_key VARCHAR(255) NOT NULL,database_name VARCHAR(255) NOT NULL,"
    "view_name VARCHAR(255) NOT NULL,view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key,"
    " database_name, view_name))"
)

DATABASES = "SELECT DISTINCT database_name FROM {table} WHERE catalog_key = ?"
DATABASE_EXISTS = (
    "SELECT database_name FROM {table} WHERE catalog_key = ? AND database_name = ? LIMIT 1"
)
TABLES_OF_DATABASE = f"SELECT table_name FROM {TABLES} WHERE catalog_key = ? AND database_name = ?"
TABLE_EXISTS = (
    f"SELECT table_name FROM {TABLES} WHERE catalog_key = ? AND database_name = ?"
    " AND table_name = ?"
)
VIEWS_OF_DATABASE = f"SELECT view_name FROM {VIEWS} WHERE catalog_key = ? AND database_name = ?"
VIEW = (
    f"SELECT view_schema FROM {VIEWS} WHERE catalog_key = ? AND database_name = ? AND view_name = ?"
)
INSERT_VIEW = (
    f"INSERT INTO {VIEWS} (catalog_key, database_name, view_name, view_schema) VALUES (?,?,?,?)"
)
UPDATE_VIEW = (
    f"UPDATE {VIEWS} SET view_schema = ? WHERE catalog_key = ? AND database_name = ?"
    " AND view_name = ? AND view_schema = ?"
)
INSERT_TABLE = f"INSERT INTO {TABLES} (catalog_key, database_name, table_name) VALUES (?,?,?)"
RENAME_TABLE = (
    "UPDATE {table} SET database_name = ?, table_name = ? WHERE catalog_key = ?"
    " AND database_name = ? AND table_name = ?"
)
DELETE_TABLE = "DELETE FROM {table} WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
DELETE_VIEW = f"DELETE FROM {VIEWS} WHERE catalog_key = ? AND database_name = ? AND view_name = ?"
INSERT_DATABASE = (
    f"INSERT INTO {DATABASE_PROPERTIES} (catalog_key, database_name, property_key, property_value)"
    " VALUES (?,?,?,?), (?,?,?,?)"
)
INSERT_DATABASE_IF_NEW = f"{INSERT_DATABASE} ON CONFLICT DO NOTHING"
DELETE_OF_DATABASE = (
    f"DELETE FROM {DATABASE_PROPERTIES} WHERE catalog_key = ? AND database_name = ?"
)

INSERT_LOCK_ON_POSTGRESQL = (
    f"INSERT INTO {LOCKS} (lock_id,expire_time_seconds) VALUES (?,?) RETURNING"
    " CAST(acquired_at AS VARCHAR(40))"
)
INSERT_LOCK_ON_SQLITE = (
    f"INSERT INTO {LOCKS} (lock_id,expire_time_seconds,acquired_at) VALUES (?,?,"
    "strftime('%Y-%m-%d %H:%M:%f', 'now') || printf('%09d', abs(random() % 1000000000)))"
    " RETURNING CAST(acquired_at AS VARCHAR(40))"
)
LOCK_IS_OURS = (
    f"SELECT lock_id FROM {LOCKS} WHERE lock_id = ? AND CAST(acquired_at AS VARCHAR(40)) = ?"
)
DELETE_LOCK = f"DELETE FROM {LOCKS} WHERE lock_id = ? AND CAST(acquired_at AS VARCHAR(40)) = ?"
DELETE_EXPIRED_LOCK_ON_SQLITE = (
    f"DELETE FROM {LOCKS} WHERE strftime('%s', 'now') - strftime('%s', acquired_at)"
    " > expire_time_seconds AND lock_id = ?"
)
DELETE_EXPIRED_LOCK_ON_POSTGRESQL = (
    f"DELETE FROM {LOCKS} WHERE EXTRACT(EPOCH FROM AGE(NOW(), acquired_at)) > expire_time_seconds"
    " AND lock_id = ?"
)
