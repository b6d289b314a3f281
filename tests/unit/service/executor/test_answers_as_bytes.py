"""The bytes of an answer are those of its Arrow rows, packed: few keys and many, whatever files."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pytest

import tidelake
from tidelake.lookup import RawColumn
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_columns import pack, pack_column

VALUES = {
    "BOOLEAN": [True, None, False],
    "TINYINT": [-128, None, 127],
    "FLOAT": [0.5, None, -0.0],
    "DECIMAL(10, 2)": [Decimal("1.25"), None, Decimal("-3.50")],
    "DECIMAL(38, 3)": [Decimal(10) ** 30, None, Decimal("-1.125")],
    "STRING": ["", None, "ü€"],
    "BYTES": [b"\0", None, b""],
    "DATE": [dt.date(1, 1, 1), None, dt.date(2026, 11, 25)],
    "TIME(3)": [dt.time(1, 2, 3, 4000), None, dt.time(0)],
    "TIMESTAMP(6)": [dt.datetime(1969, 1, 1, 1, 1, 1, 5), None, dt.datetime(2026, 1, 1)],
}
COUNT = 240
CASES = {
    "plain": {},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "not mapped": {"lookup.cache-max-memory-size": "0 b"},
    "merged": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "first row": {"merge-engine": "first-row"},
}


def row_of(number, draw):
    row = {"k": number, "code": f"{number:08d}", "text": "x" * draw.randrange(5)}
    for place, values in enumerate(VALUES.values()):
        row[f"c{place}"] = draw.choice(values)
    return row


def filled(catalog, options):
    columns = {"k": "INT", "code": "STRING", "text": "STRING"}
    columns |= {f"c{place}": kind for place, kind in enumerate(VALUES)}
    options = {"bucket": 2, "write-only": "true", **options}
    table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
    draw = random.Random(5)
    table.write([row_of(n, draw) for n in range(COUNT)])
    if "merge-engine" not in options:
        table.write([row_of(n, draw) for n in range(40)], row_kinds=["-D"] * 40)
    table.add_column("late", "BIGINT")
    table.write([{**row_of(n, draw), "late": n} for n in range(20, COUNT, 3)])
    if "deletion-vectors.enabled" in options:
        table.compact()
    return table


def as_packed(count, columns, types):
    return pb.PackedRows(
        count=count,
        columns=[
            pb.Column(values=c.values, offsets=c.offsets, valid=c.valid)
            if isinstance(c, RawColumn)
            else pack_column(c, t)
            for c, t in zip(columns, types, strict=True)
        ],
    )


@pytest.mark.parametrize("case", CASES)
def test_bytes_are_those_of_packed_rows(tmp_path, case):
    table = filled(tidelake.open(tmp_path / "warehouse"), CASES[case])
    types = [field.type for field in table.table_schema.fields]
    draw = random.Random(7)
    with table.local_query(directory=tmp_path / "lookup") as query:
        for size in (1, 5, 60, COUNT + 30):
            keys = draw.sample(range(-20, COUNT + 10), size)
            batch = query._keys.batch(keys)
            result = query.lookup(batch)
            wanted = pack(result.rows, types)
            located = query.locate(batch)
            assert as_packed(located.rows_count, located.columns(), types) == wanted
            assert (located.found == result.found).all()
            raw = query.raw_rows([(key,) for key in keys])
            if raw is None:
                assert case == "merged"
                continue
            assert as_packed(raw.rows_count, raw.columns, types) == wanted
            assert list(map(int, f"{int.from_bytes(raw.found, 'little'):0{size}b}"[::-1])) == [
                *map(int, result.found)
            ]
        names = ("late", "code")
        some = query.raw_rows([(key,) for key in range(0, 20, 3)], columns=names)
        assert some is not None, "one file has them"
        rows = query.lookup(query._keys.batch(list(range(0, 20, 3))), columns=names).rows
        kinds = [table.table_schema.field(name).type for name in names]
        assert as_packed(some.rows_count, some.columns, kinds) == pack(rows, kinds)


def test_columns_of_nested_types_have_no_bytes(tmp_path):
    columns = {"k": "INT", "v": "ARRAY<INT>"}
    table = tidelake.open(tmp_path).create_table("db.t", columns, primary_keys=["k"])
    table.write([{"k": 1, "v": [2]}])
    with table.local_query(directory=tmp_path / "lookup") as query:
        assert query.raw_rows([(1,)]) is None
        assert query.raw_rows([(1,)], columns=("k",)).rows_count == 1
