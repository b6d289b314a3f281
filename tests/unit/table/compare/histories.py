"""Drawn histories of tables of every kind."""

from __future__ import annotations

from sizes import FULL, SIZE

HISTORIES_COUNT = 30 if SIZE is FULL else 1
"""Drawn histories of each kind of table."""
COLUMNS = {"p": "INT NOT NULL", "k": "INT NOT NULL", "a": "INT", "b": "STRING"}
KINDS = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "max",
    },
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    "moving": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    "append": {},
    "append vectors": {"deletion-vectors.enabled": "true"},
    "append buckets": {"bucket": "2", "bucket-key": "k"},
}
DELETES = {"deduplicate", "vectors", "dynamic", "moving"}


def made(catalog, kind, name="db.t", **options):
    is_keyed = not kind.startswith("append")
    partitions = [] if kind == "append" else ["p"]
    own = {"bucket": "2"} if is_keyed else {}
    return catalog.create_table(
        name,
        COLUMNS,
        primary_keys=(["k"] if kind == "moving" else ["p", "k"]) if is_keyed else [],
        partition_keys=partitions,
        options={**own, **KINDS[kind], **options},
    )


def drawn_rows(rng, numbers=40):
    rows = {}
    for _ in range(rng.randint(1, 12)):
        k = rng.randrange(numbers)
        # of a key there is one partition, but where keys move
        rows[k] = {"p": k % 2, "k": k, "a": rng.choice([None, 1, 2]), "b": rng.choice("xyz")}
    return list(rows.values())


def step(table, kind, rng):
    rows = drawn_rows(rng)
    action = rng.choice(["write", "write", "write", "compact", "overwrite", "delete"])
    if kind == "moving":
        rows = [{**row, "p": rng.randrange(2)} for row in rows]
    if action == "write" or (action == "overwrite" and kind in {"first-row", "moving"}):
        table.write(rows)
    elif action == "compact":
        table.compact(full=rng.random() < 0.5)
    elif action == "overwrite":
        table.write([{**row, "p": 0} for row in rows if row["p"] == 0], mode="overwrite")
    elif kind in DELETES:
        table.write(rows, row_kinds=["-D"] * len(rows))
    elif kind.startswith("append"):
        table.delete(f"k < {rng.randrange(6)} and a = 1")
