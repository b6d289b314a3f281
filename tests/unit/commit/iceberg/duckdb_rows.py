"""Runs in an environment of its own: rows of Iceberg tables by DuckDB's extension, as JSON.

Usage: python duckdb_rows.py TABLE_DIRECTORY...
"""

import json
import sys
from pathlib import Path

import duckdb

PACKAGES = Path(duckdb.__file__).parents[1]

connection = duckdb.connect()
for name in ("avro", "iceberg"):
    (file,) = (PACKAGES / f"duckdb_extension_{name}").rglob("*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
found = {}
for table in sys.argv[1:]:
    cursor = connection.execute(f"SELECT * FROM iceberg_scan('{table}')")
    names = [column[0] for column in cursor.description]
    found[table] = sorted(repr(dict(zip(names, row, strict=True))) for row in cursor.fetchall())
json.dump(found, sys.stdout)
