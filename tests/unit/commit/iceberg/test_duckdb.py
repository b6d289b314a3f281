"""DuckDB reads row by row what the tables hold. Its extension is not there for the newest DuckDB,
so it runs in an environment of its own, which ``make test`` and ``make
iceberg`` make."""

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from unit.commit.iceberg.iceberg_lake import IcebergLake
from unit.commit.iceberg.test_append_tables import WIDE, wide_row
from unit.commit.iceberg.test_keyed_tables import KEYED, SCHEMA, VECTORS, rows

ROOT = Path(__file__).parents[4]
PYTHON = Path(os.environ.get("TIDELAKE_DUCKDB_PYTHON", ROOT / ".venv-duckdb" / "bin" / "python"))
SNAPPY = {"metadata.iceberg.manifest-compression": "snappy"}

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="DuckDB's Iceberg extension is not there: run 'make iceberg'"
)


def by_duckdb(*directories):
    script = Path(__file__).with_name("duckdb_rows.py")
    done = subprocess.run(
        [str(PYTHON), str(script), *map(str, directories)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "TZ": "UTC"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours(table):
    return sorted(repr(row) for row in table.to_arrow().to_pylist())


def test_duckdb_reads_what_the_tables_hold(tmp_path):
    wide = pa.schema([f for f in WIDE if f.name not in {"instant", "weights"}])
    append = IcebergLake(tmp_path / "a", wide, options=SNAPPY, partition_keys=["day"])
    wanted = set(wide.names)
    for start in (0, 8):
        some = (wide_row(i) for i in range(start, start + 8) if i % 5 != 4)
        append.table.write([{k: v for k, v in row.items() if k in wanted} for row in some])
    keyed = IcebergLake(tmp_path / "k", SCHEMA, options=SNAPPY | {"bucket": "2"}, **KEYED)
    keyed.table.write(rows(0, 30, "a"))
    keyed.table.write(rows(10, 40, "b"))
    keyed.table.delete("k < 3")
    keyed.table.compact(full=True)
    evolved = IcebergLake(tmp_path / "e", {"k": "INT", "v": "STRING"}, options=SNAPPY)
    evolved.table.write([{"k": 1, "v": "a"}])
    changed = evolved.table.retype_column("k", "BIGINT").rename_column("v", "w")
    changed = changed.add_column("n", "INT")
    changed.write([{"k": 2**40, "w": "b", "n": 3}])
    vectors = IcebergLake(tmp_path / "v", SCHEMA, options=SNAPPY | VECTORS, **KEYED)
    vectors.table.write(rows(0, 20_000, "a"))
    vectors.table.write(rows(7, 12, "b"))
    assert int(vectors.document()["snapshots"][-1]["summary"]["total-position-deletes"]) == 5
    expected = {
        str(lake.directory.parent): ours(table)
        for lake, table in (
            (append, append.table),
            (keyed, keyed.table),
            (evolved, changed),
            (vectors, vectors.table),
        )
    }
    found = by_duckdb(*expected)
    for directory, expected_rows in expected.items():
        assert found[directory] == expected_rows, directory
