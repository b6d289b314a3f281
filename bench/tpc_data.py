"""The rows of a suite, three upserts of its tables with keys, what becomes of them, and queries.

Usage: python tpc_data.py {tpch,tpcds} SCALE_FACTOR DIRECTORY

Runs in an environment of its own, beside DuckDB's extension of that name, which makes rows and
queries. DuckDB computes the final state and its answers too, so no code of ours says what a right
answer is.

Upsert n takes 2 % of the keys by their hash: a tenth of them is new, 3 of 20 were in the upsert
before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
from tpc_answers import unlimited
from tpc_suites import SUITES, UPSERTS, Suite


def buckets(n: int) -> range:
    """Which of 1,000 buckets of keys an upsert takes."""
    first = 20 * n - 3 * (n - 1)
    return range(first, first + 20)


def upserted(suite: Suite, table: str, n: int, types: dict[str, str]) -> str:
    """The rows of an upsert."""
    new = ", ".join(
        f"CAST({value.format(n=n)} AS {types[name]}) AS {name}"
        for name, value in suite.changed[table].items()
    )
    keys, own = ", ".join(suite.keys[table]), ", ".join(map(str, buckets(n)))
    return f"SELECT * REPLACE ({new}) FROM {table} WHERE hash({keys}) % 1000 IN ({own})"


def write_changing(db: duckdb.DuckDBPyConnection, suite: Suite, table: str, place: Path) -> None:
    """Write the first state of a table with keys, its upserts, and the last state.

    The last state takes the table's name in the database too.
    """
    keys = ", ".join(suite.keys[table])
    types = {name: kind for name, kind, *_ in db.execute(f"DESCRIBE {table}").fetchall()}
    # the last two of each upsert's buckets come with it
    new = ", ".join(str(b) for n in range(1, UPSERTS + 1) for b in buckets(n)[-2:])
    base = f"SELECT * FROM {table} WHERE hash({keys}) % 1000 NOT IN ({new})"
    states = [base, *(upserted(suite, table, n, types) for n in range(1, UPSERTS + 1))]
    for n, state in enumerate(states):
        copy(db, f"{table}-{n}", state, place)
    all_of_them = " UNION ALL ".join(
        f"SELECT *, {n} AS upsert FROM ({s})" for n, s in enumerate(states)
    )
    last = (
        f"SELECT * EXCLUDE (upsert) FROM ({all_of_them})"
        f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY upsert DESC) = 1"
        f" ORDER BY {keys}"
    )
    copy(db, table, last, place)
    db.execute(f"CREATE OR REPLACE TABLE {table} AS FROM '{place / table}.parquet'")


def copy(db: duckdb.DuckDBPyConnection, name: str, query: str, place: Path) -> None:
    """Write a query's rows."""
    db.execute(f"COPY ({query}) TO '{place / name}.parquet' (FORMAT parquet)")


def main() -> None:
    """Write everything."""
    suite, scale, place = SUITES[sys.argv[1]], float(sys.argv[2]), Path(sys.argv[3])
    packages = Path(duckdb.__file__).parents[1]
    (extension,) = (packages / f"duckdb_extension_{suite.name}").rglob("*.duckdb_extension")
    db = duckdb.connect(str(place / "rows.duckdb"))
    db.execute(f"LOAD '{extension}'")
    db.execute(f"CALL {suite.make}(sf = {scale})")
    for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        if table in suite.keys:
            write_changing(db, suite, table, place)
        else:
            copy(db, table, f"FROM {table}", place)
    found = db.execute(f"SELECT query_nr, query FROM {suite.name}_queries() ORDER BY 1").fetchall()
    texts = {f"q{n}": suite.text(f"q{n}", text, scale) for n, text in found}
    whole = {name: unlimited(text).replace("`", '"') for name, text in texts.items()}
    answers = {name: db.execute(text).fetchall() for name, text in whole.items()}
    (place / "answers.json").write_text(json.dumps(answers, default=str))
    (place / "queries.json").write_text(json.dumps(texts))
    db.close()
    (place / "rows.duckdb").unlink()


main()
