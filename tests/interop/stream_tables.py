"""The tables that streams of ours and of Java Paimon read, and where the streams begin."""

from __future__ import annotations

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
    table.maintenance.expire_snapshots(retain_max=newest - 1, retain_min=newest - 1)
    return table


CASES = [
    f"{name}/{start}"
    for name in TABLES
    for start in STARTS
    if start in {"default", "snapshot"} or name in EVERY_START
]


def options_of(case, table):
    """The options of a stream."""
    time_ms = str(table.handle.snapshots.load(4).time_ms)
    options = STARTS[case.partition("/")[2]]
    return {key: value.replace("TIME", time_ms) for key, value in options.items()}


def history(table):
    """What Java's answers depend on beside the rows: the kinds and counts of all snapshots."""
    columns = ["commit_kind", "total_record_count", "delta_record_count", "changelog_record_count"]
    return [list(row.values()) for row in table.history().select(columns).to_pylist()]
