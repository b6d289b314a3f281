"""A stream from here gives the rows of Java Paimon's stream of the same table, start by start."""

from __future__ import annotations

import json
import subprocess

import pytest

import tidelake
from interop.readers import HERE, SPARK_JAR, AbsentError, JavaOnSpark, environment
from tidelake.table.stream import StreamPlan

pytestmark = pytest.mark.oracle

TABLES = {
    "appended": ([], [], {}),
    "queue": ([], [], {"bucket": "1", "bucket-key": "k"}),
    "marked": ([], [], {"deletion-vectors.enabled": "true"}),
    "upserted": (["k"], [], {"bucket": "1"}),
    "logged": (["k"], [], {"bucket": "1", "changelog-producer": "input"}),
    "looked": (["k"], [], {"bucket": "1", "changelog-producer": "lookup"}),
    "full": (
        ["k"],
        [],
        {
            "bucket": "1",
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": "2",
        },
    ),
    "first": (
        ["k"],
        [],
        {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"},
    ),
    "summed": (
        ["k"],
        [],
        {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "changelog-producer": "lookup",
        },
    ),
    "vectors": (
        ["k"],
        [],
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ),
    "parted": (["p", "k"], ["p"], {"bucket": "1", "scan.plan-sort-partition": "true"}),
    "dynamic": (["k"], [], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
}
SKIPS = {"streaming-read-overwrite": "false"}
"""What Java does by default."""
STARTS = {
    "default": {},
    "compacted": {"scan.mode": "compacted-full"},
    "snapshot": {"scan.snapshot-id": "3"},
    "snapshot-full": {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"},
    "time": {"scan.timestamp-millis": "TIME"},
}
"""Left out, for Java's source on Spark departs from Java's plan of a stream: ``latest`` gives the
newest snapshot too, a start by files' age is not looked at, an expired start is refused."""
EVERY_START = {"appended", "upserted", "looked"}


def written(catalog, name):
    """A table of some commits, the first of which has expired."""
    keys, partitions, options = TABLES[name]
    table = catalog.create_table(
        f"db.{name}",
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "INT"},
        primary_keys=keys,
        partition_keys=partitions,
        options={"num-sorted-run.compaction-trigger": "3", **options},
    )
    for number in range(5):
        rows = [{"p": (k + number) % 2, "k": k, "v": k + number} for k in range(number, number + 4)]
        table.write(rows)
    if name in {"upserted", "logged", "looked"}:
        table.write([{"p": 0, "k": 5, "v": 0}], row_kinds=["-D"])
    if name == "marked":
        table.delete("k = 3")
    if name in {"appended", "upserted"}:
        table.write([{"p": 7, "k": 70, "v": 7}], mode="overwrite")
        table.write([{"p": 8, "k": 80, "v": 8}])
    newest = table.latest_snapshot_id
    table.expire_snapshots(retain_max=newest - 1, retain_min=newest - 1)
    return table


def ours(table, options):
    plan = StreamPlan.of(table.handle, {**SKIPS, **options})
    start, until = plan.initial(), plan.latest()
    rows = []
    while start is not None and start.position < until.position:
        end = plan.next(start, until=until)
        assert end != start
        rows += plan.parts(start, end).reader().read_all().to_pylist()
        start = end
    keyed = bool(table.primary_keys)
    return [list(row.values())[0 if keyed else 1 :] for row in rows]


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Each stream's table, options, and Java's rows; one Spark session for all."""
    engine = JavaOnSpark()
    try:
        engine.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon on Spark is absent: {reason}")
    scratch = tmp_path_factory.mktemp("streams")
    catalog = tidelake.open(scratch / "warehouse")
    requests, tables = {}, {}
    for name in TABLES:
        table = tables[name] = written(catalog, name)
        time_ms = str(table.handle.snapshots.load(4).time_ms)
        for start, options in STARTS.items():
            if start == "default" or start == "snapshot" or name in EVERY_START:
                own = {key: value.replace("TIME", time_ms) for key, value in options.items()}
                requests[f"{name}/{start}"] = {"table": table.paths.location, "options": own}
    (scratch / "requests.json").write_text(
        json.dumps(
            {
                key: {
                    **r,
                    "options": r["options"]
                    | (
                        {"read.changelog": "true"}
                        if tables[key.partition("/")[0]].primary_keys
                        else {}
                    ),
                }
                for key, r in requests.items()
            }
        )
    )
    command = [engine.python, HERE / "stream_dump.py", scratch / "requests.json"]
    command += [scratch / "answers.json", SPARK_JAR]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads((scratch / "answers.json").read_text())
    return {
        key: (tables[key.partition("/")[0]], requests[key]["options"], answers[key])
        for key in requests
    }


CASES = [
    f"{name}/{start}"
    for name in TABLES
    for start in STARTS
    if start in {"default", "snapshot"} or name in EVERY_START
]


@pytest.mark.parametrize("case", CASES)
def test_a_stream_gives_the_rows_of_java_s(streams, case):
    table, options, java = streams[case]
    mine = ours(table, options)
    if case.endswith(("/default", "/compacted")):  # Java shows deletes that a state still holds
        java = [row for row in java if row[0] != "-D" or row in mine]
    assert sorted(map(str, mine)) == sorted(map(str, java))
    if TABLES[case.partition("/")[0]][2].get("bucket") == "1":  # within a bucket order holds
        assert mine == java
