"""The rows of TPC-H, three upserts of lineitem and orders, what becomes of them, and the queries.

Usage: python tpch_data.py SCALE_FACTOR DIRECTORY

Runs in an environment of its own, beside DuckDB's extension `tpch`, which makes rows and queries.
DuckDB computes the final state too, so no code of ours says what a right answer is.

Upsert n takes 2 % of the keys by their hash: a tenth of them is new, 3 of 20 were in the upsert
before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb

STATIC = ("customer", "nation", "part", "partsupp", "region", "supplier")
KEYS = {"lineitem": "l_orderkey, l_linenumber", "orders": "o_orderkey"}
CHANGED = {
    "lineitem": {
        "l_quantity": "(l_quantity + {n}) % 50 + 1",
        "l_extendedprice": "l_extendedprice + {n}",
        "l_discount": "(l_discount + 0.0{n}) % 0.11",
    },
    "orders": {"o_totalprice": "o_totalprice + {n}", "o_comment": "'upsert {n} ' || o_comment"},
}
UPSERTS = 3
FRACTION = "0.0001000000"
"""In q11, for scale factor 1."""


def buckets(n: int) -> range:
    """Which of 1,000 buckets of keys an upsert takes."""
    first = 20 * n - 3 * (n - 1)
    return range(first, first + 20)


def upserted(table: str, n: int) -> str:
    """The rows of an upsert."""
    new = ", ".join(
        f"CAST({value.format(n=n)} AS {'VARCHAR' if 'comment' in name else 'DECIMAL(15,2)'})"
        f" AS {name}"
        for name, value in CHANGED[table].items()
    )
    own = ", ".join(map(str, buckets(n)))
    return f"SELECT * REPLACE ({new}) FROM {table} WHERE hash({KEYS[table]}) % 1000 IN ({own})"


def main() -> None:
    """Write everything."""
    scale, place = float(sys.argv[1]), Path(sys.argv[2])
    packages = Path(duckdb.__file__).parents[1]
    (extension,) = (packages / "duckdb_extension_tpch").rglob("*.duckdb_extension")
    db = duckdb.connect(str(place / "rows.duckdb"))
    db.execute(f"LOAD '{extension}'")
    db.execute(f"CALL dbgen(sf = {scale})")

    def write(name: str, query: str) -> None:
        db.execute(f"COPY ({query}) TO '{place / name}.parquet' (FORMAT parquet)")

    for table in STATIC:
        write(table, f"FROM {table}")
    for table, keys in KEYS.items():
        # the last two of each upsert's buckets come with it
        new = ", ".join(str(b) for n in range(1, UPSERTS + 1) for b in buckets(n)[-2:])
        base = f"SELECT * FROM {table} WHERE hash({keys}) % 1000 NOT IN ({new})"
        write(f"{table}-0", base)
        states = [f"SELECT *, 0 AS upsert FROM ({base})"]
        for n in range(1, UPSERTS + 1):
            write(f"{table}-{n}", upserted(table, n))
            states.append(f"SELECT *, {n} AS upsert FROM ({upserted(table, n)})")
        write(
            table,
            f"SELECT * EXCLUDE (upsert) FROM ({' UNION ALL '.join(states)})"
            f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY upsert DESC) = 1"
            f" ORDER BY {keys}",
        )
    queries = dict(db.execute("SELECT query_nr, query FROM tpch_queries()").fetchall())
    texts = {f"q{number}": text.strip().rstrip(";") for number, text in sorted(queries.items())}
    # the benchmark divides it by the scale; without that no part of a large scale is above it
    texts["q11"] = texts["q11"].replace(FRACTION, f"{float(FRACTION) / max(1, scale):.10f}")
    (place / "queries.json").write_text(json.dumps(texts))
    db.close()
    (place / "rows.duckdb").unlink()


main()
