"""Golden files of encodings: cases at blank lines, `#` comments, answers below `----`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tidelake.types import DataType, parse_type

GOLDEN_DIR = Path(__file__).parents[2] / "golden"


def cases(name: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Head, input lines and answer lines of each case."""
    for block in (GOLDEN_DIR / name).read_text(encoding="utf-8").split("\n\n"):
        lines = [line.split("   #")[0].rstrip() for line in block.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if lines:
            cut = lines.index("----")
            yield lines[0], lines[1:cut], lines[cut + 1 :]


def types_of(head: str) -> tuple[DataType, ...]:
    """`row INT * 2; STRING` -> INT, INT, STRING."""
    types: list[DataType] = []
    for part in head.partition(" ")[2].split("; "):
        name, _, count = part.partition(" * ")
        types += [parse_type(name)] * int(count or 1)
    return tuple(types)


def values_of(line: str) -> tuple[object, ...]:
    return tuple(ast.literal_eval(line))
