"""A catalog of pypaimon's, one command a line; see ``java/Catalogs.java``.

Runs in a virtual environment of its own: ``python pypaimon_catalogs.py``.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pypaimon

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def _rows(table: Any) -> str:
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    rows = [] if found is None else found.to_pylist()
    return ",".join(sorted(f"{row['k']}={row['v']}" for row in rows))


def _run(catalog: Any, words: list[str]) -> None:
    match words:
        case ["list"]:
            for database in catalog.list_databases():
                for name in catalog.list_tables(database):
                    print(f"{database}.{name}\t{_rows(catalog.get_table(f'{database}.{name}'))}")
                print(database)
        case ["create", name]:
            catalog.create_database(name.partition(".")[0], True)
            made = pypaimon.Schema.from_pyarrow_schema(
                COLUMNS, primary_keys=["k"], options={"bucket": "1"}
            )
            catalog.create_table(name, made, False)
        case ["write", name, key, value]:
            builder = catalog.get_table(name).new_batch_write_builder()
            write, commit = builder.new_write(), builder.new_commit()
            write.write_arrow(pa.Table.from_pylist([{"k": int(key), "v": value}], schema=COLUMNS))
            commit.commit(write.prepare_commit())
            write.close()
            commit.close()
        case ["rename", source, target]:
            catalog.rename_table(source, target)
        case ["drop", name]:
            catalog.drop_table(name)
        case ["dropdb", name]:
            catalog.drop_database(name, False, True)
        case _:
            raise ValueError(words)


def _main() -> None:
    catalog = None
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        try:
            if words[0] == "open":
                options = dict(pair.split("=", 1) for pair in words[1:])
                catalog = pypaimon.CatalogFactory.create(options)
            else:
                _run(catalog, words)
            print(".")
        except Exception as error:  # noqa: BLE001 - the other end decides what it means
            print("!", repr(error).replace("\n", " "))
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
