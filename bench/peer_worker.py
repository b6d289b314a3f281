"""One engine's upsert commits, without Spark: takes commands on stdin, answers in JSON on stdout.

Usage: python peer_worker.py {tidelake,pypaimon} WORK_DIR DATA_DIR

Each runs in its own virtualenv and process, on the same Parquet inputs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

ENGINE, WORK, DATA = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
NATIVE = {
    "scan.native-plan.enabled": "true",
    "read.native.enabled": "true",
    "commit.native.enabled": "true",
    "write.native.enabled": "true",
}


class Ours:
    """Tidelake, compaction left out as the peer has none."""

    def __init__(self, buckets: int) -> None:
        import tidelake

        catalog = tidelake.open(str(WORK / "tidelake"))
        base = pq.read_table(DATA / "base.parquet")
        options = {"bucket": str(buckets), "write-only": "true"}
        name = f"db.t{buckets}"
        self.table = catalog.create_table(name, base.schema, primary_keys=["k"], options=options)
        self.table.write(base)

    def upsert(self, rows) -> None:
        self.table.write(rows)

    def count(self) -> int:
        return self.table.count()


class Pypaimon:
    """pypaimon with its native options."""

    def __init__(self, buckets: int) -> None:
        from pypaimon import CatalogFactory, Schema

        catalog = CatalogFactory.create({"warehouse": str(WORK / "pypaimon")})
        catalog.create_database("db", True)
        base = pq.read_table(DATA / "base.parquet")
        schema = Schema.from_pyarrow_schema(
            base.schema, primary_keys=["k"], options={"bucket": str(buckets), **NATIVE}
        )
        catalog.create_table(f"db.t{buckets}", schema, True)
        self.table = catalog.get_table(f"db.t{buckets}")
        self.upsert(base)

    def upsert(self, rows) -> None:
        builder = self.table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def count(self) -> int:
        builder = self.table.new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows


def main() -> None:
    """Answer `upsert N` and `count`."""
    engine = (Ours if ENGINE == "tidelake" else Pypaimon)(1)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        rows = pq.read_table(DATA / f"upsert-{arguments[0]}.parquet") if arguments else None
        cpu, began = time.process_time(), time.perf_counter()
        answer = engine.upsert(rows) if rows is not None else engine.count()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        print(json.dumps({"name": name, "cpu": cpu, "wall": wall, "answer": answer}), flush=True)


main()
