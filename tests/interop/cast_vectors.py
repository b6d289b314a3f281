"""What Java Paimon 1.3.1 made of many values (tests/golden/casts.jsonl, by java/Casts.java)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidelake.types import TypeRoot, parse_type
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import storage_to_arrow

LINES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden/casts.jsonl").read_text().splitlines()
]
VALUES = {line["from"]: line["values"] for line in LINES if "values" in line}
PAIRS = [line for line in LINES if "to" in line]
CASTS = [line for line in PAIRS if "cells" in line]
TEXTS = {TypeRoot.CHAR, TypeRoot.VARCHAR}
TIMES = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}


def column(cells, data_type):
    """The Arrow column of some cells."""
    arrow_type = to_arrow_type(data_type)
    if pa.types.is_floating(arrow_type):
        width, kind = (">u4", np.float32) if arrow_type == pa.float32() else (">u8", np.float64)
        bits = b"".join(bytes.fromhex(c[2:]) for c in cells)
        return pa.array(np.frombuffer(bits, width).astype(width[1:]).view(kind), arrow_type)
    if data_type.root is TypeRoot.DECIMAL:
        return pa.array([c[2:] for c in cells]).cast(arrow_type)
    if data_type.root is TypeRoot.BOOLEAN:
        return pa.array([c == "true" for c in cells])
    if data_type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}:
        return pa.array([c[2:] for c in cells])
    if data_type.root in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return pa.array([bytes.fromhex(c[2:]) for c in cells], pa.binary())
    return storage_to_arrow([int(c.rpartition(":")[2]) for c in cells], data_type)


def as_held(cell, target):
    """Java's cell as the type can hold it; "!" for what is refused here and only here."""
    if cell in {None, "!"}:
        return cell
    if target.root is TypeRoot.TIME and not 0 <= int(cell[3:]) < 86_400_000:
        return "!"  # a time of day beyond the day
    if target.root in TIMES:
        unit = {"ms": 10**6, "us": 10**3, "ns": 1}[to_arrow_type(target).unit]
        nanos = int(cell[3:]) // unit  # Java carries nanoseconds that the file cannot keep
        return f"ns:{nanos * unit}" if abs(nanos) < 2**63 else "!"
    return cell


def known_refusal(source, target, cell):
    """Values that Java casts and this library does not: they are refused, never cast wrongly."""
    if source.root is TypeRoot.DATE and target.root in {TypeRoot.VARCHAR}:
        return int(cell[4:]) < -719_528  # before the year 0
    if source.root in TEXTS and target == parse_type("TIMESTAMP(0)"):
        digits = cell[2:].lstrip("-")  # seconds that are no long in milliseconds
        return digits.isdecimal() and int(digits) > 2**63 // 1000
    if source.root in {TypeRoot.BINARY, TypeRoot.VARBINARY} and target.root in TEXTS:
        return b"\xff" in bytes.fromhex(cell[2:])  # no UTF-8
    return False
