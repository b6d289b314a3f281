"""Writes a small warehouse of each kind of table, for later releases to read: `python make.py`.

Run it when a release is cut, with that release: it makes `tests/history/<version>/warehouse` and
`expected.json`, what each table holds at each snapshot. Both are committed and never made again: a
change of a directory that is there is a change of history. The world is seeded, so the same release
and the same libraries write the same bytes.

`expected.json` says what was written, kept in a dict beside the table, and not what was read back.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidelake
from tidelake.telemetry import Env
from tidelake.types import DataField, parse_type

VERSION = "0.1"
HERE = Path(__file__).parent
SEED = 20_240_501

Row = dict[str, Any]


def encoded(value: object) -> object:
    """A value as JSON has it, so that different values stay different."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return "nan" if math.isnan(value) else value.hex()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
    raise AssertionError(f"{value!r} has no form here")


def content(rows: pa.Table) -> list[list[object]]:
    """The rows of a table in a fixed order; nanoseconds as numbers."""
    columns = [
        (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) and c.type.unit == "ns" else c)
        for c in rows.columns
    ]
    values = [[encoded(v) for v in column.to_pylist()] for column in columns]
    return sorted(map(list, zip(*values, strict=True)), key=json.dumps)


class Told:
    """A table, and what it must hold after each of its snapshots."""

    def __init__(self, catalog: tidelake.Catalog, name: str, schema: object, **how: Any) -> None:
        self.table = catalog.create_table(f"db.{name}", schema, **how)
        self.keys = self.table.primary_keys
        self.rows: list[Row] = []
        self.snapshots: dict[str, list[list[object]]] = {}

    def write(self, rows: Iterable[Row], **how: Any) -> None:
        """Append or upsert; `self.rows` is told by the caller where another rule decides."""
        rows = list(rows)
        self.table.write(rows, **how)
        if self.keys:
            merged = {self._key(r): r for r in (*self.rows, *rows)}
            self.rows = list(merged.values())
        else:
            self.rows = [*self.rows, *rows]
        self.tell()

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Drop the rows that a change just made has dropped from the table."""
        self.rows = [r for r in self.rows if wanted(r)]
        self.tell()

    def tell(self) -> None:
        """Note the rows for all snapshots made since."""
        told = content(pa.Table.from_pylist(self.rows, schema=self.table.schema))
        for snapshot_id in range(len(self.snapshots) + 1, (self.table.latest_snapshot_id or 0) + 1):
            self.snapshots[str(snapshot_id)] = told

    def compact(self) -> None:
        """Everything into few files."""
        self.table.compact(full=True)
        self.tell()

    def told(self) -> Mapping[str, object]:
        """What the expectations hold of this table."""
        tags = self.table.system_table("tags").to_arrow().to_pylist()
        return {
            "columns": [[f.name, str(f.type)] for f in self.table.table_schema.fields],
            "primary_keys": list(self.table.primary_keys),
            "partition_keys": list(self.table.partition_keys),
            "tags": {tag["tag_name"]: tag["snapshot_id"] for tag in tags},
            "snapshots": self.snapshots,
        }

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(row[name] for name in self.keys)


def append(catalog: tidelake.Catalog) -> Told:
    """Without buckets, partitioned by a text that must be escaped; a name with a slash."""
    schema = pa.schema([("place", pa.string()), ("a/b", pa.int64()), ("v", pa.string())])
    told = Told(catalog, "append", schema, partition_keys=["place"])
    for number in range(3):
        told.write(
            {"place": p, "a/b": number, "v": f"{p}{number}"} for p in ("x/y", "Zürich", None)
        )
    told.table.tags.create("three")
    told.table.delete("place = 'x/y'")
    told.keep(lambda r: r["place"] != "x/y")
    told.compact()
    return told


def append_bucketed(catalog: tidelake.Catalog) -> Told:
    """Rows of a bucket stay in order; two buckets by hash."""
    schema = pa.schema([("k", pa.int32()), ("v", pa.float64())])
    told = Told(catalog, "append_bucketed", schema, options={"bucket": 2, "bucket-key": "k"})
    for number in range(3):
        told.write({"k": k, "v": k / 8 + number} for k in range(5))
    told.compact()
    return told


def keyed(catalog: tidelake.Catalog) -> Told:
    """One bucket, upserts, deletes, files on several levels."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 3}
    told = Told(catalog, "keyed", schema, primary_keys=["k"], options=options)
    told.write({"k": k, "v": f"first {k}"} for k in range(20))
    told.table.tags.create("first")
    told.write({"k": k, "v": f"second {k}"} for k in range(0, 20, 3))
    told.table.delete([{"k": k} for k in (1, 2, 3)])
    told.keep(lambda r: r["k"] not in {1, 2, 3})
    told.table.tags.create("deleted")
    told.write({"k": k, "v": None} for k in (2, 30))
    told.compact()
    told.write([{"k": 5, "v": "last"}])
    return told


def keyed_partitioned(catalog: tidelake.Catalog) -> Told:
    """A key of four columns, two of which partition; a partition is overwritten."""
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("region", pa.string()),
            ("id", pa.int32()),
            ("n", pa.int16()),
            ("price", pa.decimal128(12, 2)),
        ]
    )
    told = Told(
        catalog,
        "keyed_partitioned",
        schema,
        primary_keys=["day", "region", "id", "n"],
        partition_keys=["day", "region"],
        options={"bucket": 2},
    )
    days = [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]

    def rows(price: str) -> list[Row]:
        return [
            {"day": d, "region": r, "id": i, "n": -i, "price": Decimal(price) + i}
            for d in days
            for r in ("a=b", "é")
            for i in range(3)
        ]

    told.write(rows("1.25"))
    told.write(rows("-7.50")[::2])
    one = {"day": days[0], "region": "é", "id": 9, "n": 9, "price": None}
    told.table.write([one], mode="overwrite", partition={"day": days[0], "region": "é"})
    told.rows = [r for r in told.rows if (r["day"], r["region"]) != (days[0], "é")] + [one]
    told.tell()
    return told


def sequenced(catalog: tidelake.Catalog, name: str, order: str) -> Told:
    """The largest or the smallest `at` wins, not the last row."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("at", pa.int64())])
    options = {"bucket": 1, "sequence.field": "at", "sequence.field.sort-order": order}
    told = Told(catalog, name, schema, primary_keys=["k"], options=options)
    sign = 1 if order == "ascending" else -1
    told.write({"k": k, "v": "middle", "at": 5 * sign} for k in range(4))
    told.table.write([{"k": 0, "v": "late", "at": 4 * sign}, {"k": 4, "v": "new", "at": 0}])
    told.rows.append({"k": 4, "v": "new", "at": 0})
    told.tell()
    told.write([{"k": 1, "v": "newest", "at": 6 * sign}])
    told.table.write(
        [{"k": k, "v": None, "at": (4 + k) * sign} for k in (0, 2)], row_kinds=["-D"] * 2
    )
    told.keep(lambda r: r["k"] != 2)  # the delete of 0 is older than the row
    told.compact()
    return told


def types(catalog: tidelake.Catalog) -> Told:
    """All scalar types: their bounds, zero, null."""
    lowest = dt.datetime(1, 1, 1)
    highest = dt.datetime(9999, 12, 31, 23, 59, 59)
    utc = dt.UTC
    columns: list[tuple[str, list[object]]] = [
        ("BOOLEAN", [True, False]),
        ("TINYINT", [-128, 127]),
        ("SMALLINT", [-(2**15), 2**15 - 1]),
        ("INT", [-(2**31), 2**31 - 1]),
        ("BIGINT", [-(2**63), 2**63 - 1]),
        ("FLOAT", [-0.5, math.inf]),
        ("DOUBLE", [math.nan, 5e-324]),
        ("DECIMAL(9, 2)", [Decimal("-9999999.99"), Decimal("0.01")]),
        ("DECIMAL(18, 4)", [Decimal("-99999999999999.9999"), Decimal("1.0000")]),
        ("DECIMAL(38, 10)", [Decimal("-1234567890123456789012345678.0123456789"), Decimal(0)]),
        ("CHAR(3)", ["abc", "é"]),
        ("VARCHAR(5)", ["", "表表表表表"]),
        ("STRING", ["x" * 100, "\U0001f600 '\"\n"]),
        ("BINARY(2)", [b"\x00\xff", b"ab"]),
        ("VARBINARY(4)", [b"", b"\x00\x01"]),
        ("BYTES", [b"\x00" * 50, b"z"]),
        ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        ("TIME(3)", [dt.time(0, 0), dt.time(23, 59, 59, 999_000)]),
        ("TIMESTAMP(0)", [lowest, highest]),
        ("TIMESTAMP(3)", [lowest, highest.replace(microsecond=999_000)]),
        ("TIMESTAMP(6)", [lowest, highest.replace(microsecond=999_999)]),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [dt.datetime(1970, 1, 1, tzinfo=utc), None]),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [dt.datetime(2024, 2, 29, 1, tzinfo=utc), None]),
    ]
    fields = [DataField(0, "k", parse_type("INT"))]
    fields += [DataField(i + 1, f"c{i}", parse_type(t)) for i, (t, _) in enumerate(columns)]
    told = Told(catalog, "types", fields, primary_keys=["k"], options={"bucket": 1})
    empty = dict.fromkeys([f.name for f in fields[1:]])
    for number in range(2):
        values = {f"c{i}": v[number] for i, (_, v) in enumerate(columns)}
        told.write([{"k": number, **values}, {"k": 2 + number, **empty}])
    return told


def fine_times(catalog: tidelake.Catalog) -> Told:
    """Timestamps of nanoseconds, which are INT96."""
    fields = [
        DataField(0, "k", parse_type("INT")),
        DataField(1, "at", parse_type("TIMESTAMP(9)")),
        DataField(2, "utc", parse_type("TIMESTAMP(7) WITH LOCAL TIME ZONE")),
    ]
    told = Told(catalog, "fine_times", fields)
    for nanos in (-1, 1_700_000_000_123_456_700):
        rows = pa.table(
            [
                pa.array([1, 2], pa.int32()),
                pa.array([nanos, None]),
                pa.array([nanos // 100 * 100] * 2),
            ],
            names=["k", "at", "utc"],
        ).cast(told.table.schema)
        told.table.write(rows)
        before = [r for s in list(told.snapshots.values())[-1:] for r in s]
        both = sorted(before + content(rows), key=json.dumps)
        told.snapshots[str(told.table.latest_snapshot_id)] = both
    return told


def make(place: Path) -> None:
    """Write the warehouse and its expectations into a directory that is not there yet."""
    place.mkdir(parents=True)
    catalog = tidelake.open(place / "warehouse", env=Env.seeded(SEED))
    told = [
        append(catalog),
        append_bucketed(catalog),
        keyed(catalog),
        keyed_partitioned(catalog),
        sequenced(catalog, "sequenced", "ascending"),
        sequenced(catalog, "sequenced_down", "descending"),
        types(catalog),
        fine_times(catalog),
    ]
    expected = {t.table.identifier: t.told() for t in told}
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (place / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if (HERE / VERSION).exists():
        sys.exit(f"{HERE / VERSION} is there: history is not written twice. Raise VERSION.")
    try:
        make(HERE / VERSION)
    except BaseException:
        shutil.rmtree(HERE / VERSION, ignore_errors=True)
        raise
