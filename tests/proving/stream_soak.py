"""Streams on Spark run for minutes, and what they take does not grow.

``feed`` -> a stream -> ``first`` -> a stream -> ``second``: keyed tables of a fixed set of keys, so
that nothing grows but what leaks. Small commits go into ``feed`` all the time; each table expires
what its options allow and compacts. Now and then both are counted, driver and JVM: memory, threads,
open files, Python processes of the JVM, objects that either side of py4j keeps for the other.

After a warm-up a line is laid through each figure; what it rises by over the run must be within
:data:`LIMITS`. In the end ``second`` must equal ``first`` and a dict, and when the streams have
stopped their threads and leases must be gone.

Usage: ``python -m proving.stream_soak [SECONDS]``, by default as long as the size says; prints one
line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import quick_spark
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from sizes import SIZE

import tidelake
import tidelake.spark
from proving.growth import Samples, files_count, resident_mib, rises

TABLES = ("db.feed", "db.first", "db.second")
ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
KEYS = 200
ROWS_PER_COMMIT = 20
PAUSE_S = 0.25
SAMPLES = 40
WARM_UP = 0.35
"""The share of the time in which caches fill and the JVM compiles."""
END_S_MAX = 120
THREADS = ("tidelake-source-", "tidelake-sink-", "tidelake-compaction-")
OPTIONS = {
    "bucket": 1,
    "changelog-producer": "lookup",
    "snapshot.num-retained.min": 1,
    "snapshot.num-retained.max": 20,
    "snapshot.time-retained": "1 s",
}
LIMITS: dict[str, float] = {
    "driver_mib": 24,
    "heap_mib": 16,
    "jvm_mib": 96,
    "driver_threads": 3,
    "jvm_threads": 6,
    "driver_files": 6,
    "jvm_files": 12,
    "workers": 1,
    "proxies": 12,
    "java_objects": 300,
    "snapshots": 30,
}
"""What each figure may rise by: noise, and what a collector has not come to yet."""


@dataclass
class Counter:
    """Counts what driver and JVM take."""

    spark: SparkSession
    warehouse: Path

    def __call__(self) -> dict[str, float]:
        gc.collect()
        jvm = self.spark._jvm
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        beans = jvm.java.lang.management.ManagementFactory
        gateway = self.spark.sparkContext._gateway
        java_id = int(jvm.java.lang.ProcessHandle.current().pid())
        bindings = gateway.java_gateway_server.getGateway().getBindings()
        used = int(runtime.totalMemory()) - int(runtime.freeMemory())
        return {
            "driver_mib": resident_mib(os.getpid()),
            "heap_mib": used / 2**20,
            "jvm_mib": resident_mib(java_id),
            "driver_threads": threading.active_count(),
            "jvm_threads": int(beans.getThreadMXBean().getThreadCount()),
            "driver_files": files_count(os.getpid()),
            "jvm_files": files_count(java_id),
            "workers": len(Path(f"/proc/{java_id}/task/{java_id}/children").read_text().split()),
            "proxies": len(gateway.gateway_property.pool.dict),
            "java_objects": int(bindings.size()),
            "snapshots": len(list(self.warehouse.glob("*/*/snapshot/snapshot-*"))),
        }


def threads_of_streams() -> list[str]:
    """Those that end with their streams."""
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith(THREADS)]


def start(lake: Any, work: Path, number: int) -> StreamingQuery:
    """One of the streams."""
    return lake.write_stream(
        lake.read_stream(TABLES[number]),
        TABLES[number + 1],
        checkpoint=work / f"checkpoint-{number}",
        trigger="200 milliseconds",
    )


def feed(table: tidelake.Table, model: dict[int, int], number: int) -> None:
    """One small commit; deletes too."""
    keys = [(number * 7 + i * 11) % KEYS for i in range(ROWS_PER_COMMIT)]
    if number % 5 == 4:
        gone = [k for k in keys if k in model]
        table.write([{"k": k, "v": model.pop(k)} for k in gone], row_kinds=["-D"] * len(gone))
        return
    model.update(dict.fromkeys(keys, number))
    table.write([{"k": k, "v": number} for k in keys])


def rows(table: tidelake.Table) -> dict[int, int]:
    """What a table holds."""
    return {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}


def soak(work: Path, *, seconds: float) -> dict[str, object]:
    """Let the streams run; the figures, or AssertionError where something grew or got lost."""
    spark = quick_spark.session(work)
    lake = tidelake.spark.attach(spark, work / "warehouse")
    tables = [
        lake.catalog.create_table(name, ROWS, primary_keys=["k"], options=OPTIONS)
        for name in TABLES
    ]
    queries = [start(lake, work, number) for number in (0, 1)]
    counter = Counter(spark, work / "warehouse")
    model: dict[int, int] = {}
    samples: Samples = []
    began, commits = time.monotonic(), 0
    while (spent := time.monotonic() - began) < seconds:
        feed(tables[0], model, commits)
        commits += 1
        assert all(query.isActive for query in queries), [q.exception() for q in queries]
        if spent >= seconds * (len(samples) + 1) / SAMPLES:
            samples.append((spent, counter()))
        time.sleep(PAUSE_S)
    _until_equal(tables, model)
    batches = [int(query.lastProgress["batchId"]) for query in queries]
    for query in queries:
        query.stop()
        assert query._sink.run.wait(END_S_MAX)
    _until(lambda: not threads_of_streams(), "threads of streams stay")
    late = [one for one in samples if one[0] >= WARM_UP * seconds]
    found = rises(late, LIMITS)
    grown = {name: by for name, by in found.items() if by > LIMITS[name]}
    figures = {
        "check": "stream soak",
        "minutes": round((time.monotonic() - began) / 60, 1),
        "commits": commits,
        "batches": batches,
        "last": {name: round(value, 1) for name, value in samples[-1][1].items()},
        "rises": found,
        "violations": len(grown),
    }
    assert not grown, json.dumps(figures)
    return figures


def _until_equal(tables: list[tidelake.Table], model: dict[int, int]) -> None:
    assert rows(tables[0]) == model
    _until(lambda: rows(tables[1]) == model, "the first table lacks rows")
    _until(lambda: rows(tables[2]) == model, "the second table lacks rows")


def _until(is_so: Any, what: str) -> None:
    end = time.monotonic() + END_S_MAX
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        given = float(sys.argv[1]) if sys.argv[1:] else SIZE.stream_soak_s
        figures = soak(Path(directory), seconds=given)
    sys.stdout.write(f"{json.dumps(figures)}\n")
