"""A second, row-by-row implementation of deduplicate, written from the documents; no numpy.

`docs/format/merge.md`: rows of one key compare by user sequence fields (null smallest, also when
descending), then sequence number, then retract before add, then the age of their run. The newest
row is the key's row; a key with one row is left as it is; `ignore-delete` takes retracts out of a
merge of several rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelake.merge import MergeSpec
from tidelake.types import parse_type

ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "TINYINT": pa.int8(),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "DECIMAL(12, 2)": pa.decimal128(12, 2),
    "DECIMAL(30, 2)": pa.decimal128(30, 2),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP(6)": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Row:
    key: tuple[Any, ...]
    sequence: tuple[Any, ...]
    number: int
    kind: int
    value: str


def spec_of(keys: list[str], sequence: list[str] = (), **options: Any) -> MergeSpec:
    return MergeSpec(
        key_columns=tuple(f"k{i}" for i in range(len(keys))),
        key_types=tuple(parse_type(f"{t} NOT NULL") for t in keys),
        sequence_columns=tuple(f"s{i}" for i in range(len(sequence))),
        sequence_types=tuple(parse_type(t) for t in sequence),
        **options,
    )


def schema_of(keys: list[str], sequence: list[str] = ()) -> pa.Schema:
    return pa.schema(
        [pa.field(f"k{i}", ARROW[t], nullable=False) for i, t in enumerate(keys)]
        + [pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False)]
        + [pa.field("_VALUE_KIND", pa.int8(), nullable=False)]
        + [pa.field(f"s{i}", ARROW[t]) for i, t in enumerate(sequence)]
        + [pa.field("v", pa.string())]
    )


def to_batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    width = len([n for n in schema.names if n.startswith("k")])
    user = len([n for n in schema.names if n.startswith("s")])
    columns: list[list[Any]] = [[row.key[i] for row in rows] for i in range(width)]
    columns += [[row.number for row in rows], [row.kind for row in rows]]
    columns += [[row.sequence[i] for row in rows] for i in range(user)]
    columns += [[row.value for row in rows]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_run(rows: list[Row], schema: pa.Schema, *, batch_rows: int) -> list[pa.RecordBatch]:
    """The rows as batches that are slices of one, so that offsets are not zero."""
    whole = to_batch([*rows[:1], *rows, *rows[:1]], schema)
    return [
        whole.slice(1 + start, min(batch_rows, len(rows) - start))
        for start in range(0, len(rows), batch_rows)
    ]


def key_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def compare(a: Row, b: Row, *, descending: bool) -> int:
    for x, y in zip(a.sequence, b.sequence, strict=True):
        if x == y:
            continue
        if x is None or y is None:
            return -1 if x is None else 1
        smaller = (x.encode() < y.encode()) if isinstance(x, str) else x < y
        return (-1 if smaller else 1) * (-1 if descending else 1)
    if a.number != b.number:
        return -1 if a.number < b.number else 1
    return (a.kind % 2 == 0) - (b.kind % 2 == 0)


def deduplicate(
    rows: list[Row],
    *,
    descending: bool = False,
    ignore_delete: bool = False,
    drop_deletes: bool = False,
) -> list[Row]:
    """`rows` from the oldest run to the newest."""
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    result = []
    for key in sorted(by_key, key=key_order):
        candidates = by_key[key]
        candidates.sort(key=functools.cmp_to_key(functools.partial(compare, descending=descending)))
        if ignore_delete and len(candidates) > 1:
            candidates = [row for row in candidates if row.kind % 2 == 0]
        if candidates and not (drop_deletes and candidates[-1].kind % 2):
            result.append(candidates[-1])
    return result


def from_batches(batches: list[pa.RecordBatch]) -> list[Row]:
    rows = []
    for batch in batches:
        for record in batch.to_pylist():
            rows.append(
                Row(
                    tuple(v for n, v in record.items() if n.startswith("k")),
                    tuple(v for n, v in record.items() if n.startswith("s")),
                    record["_SEQUENCE_NUMBER"],
                    record["_VALUE_KIND"],
                    record["v"],
                )
            )
    return rows
