"""Formats answers as lines: a table, one JSON object per row, CSV, or one line per value.

Rows are streamed, so an answer of any size takes little memory. The first rows decide the widths of
a table's columns; a longer value later makes its own line longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol

import pyarrow as pa
from wcwidth import width as cell_width

from tidelake.cli.output.cell_text import csv_field, json_text, shown
from tidelake.cli.output.cells import plain_values
from tidelake.errors import InvalidInputError

WIDTH_ROWS = 1000
"""Rows that decide the widths of a table's columns."""
Row = Sequence[Any]


class Format(Protocol):
    """Formats rows as lines."""

    def __call__(self, schema: pa.Schema, rows: Iterator[Row]) -> Iterator[str]:
        """Yield the lines, without line ends."""
        ...


def rows_of(batches: Iterable[pa.RecordBatch], zone: str) -> Iterator[Row]:
    """Yield the rows of batches as tuples of plain values."""
    for batch in batches:
        columns = [plain_values(column, zone) for column in batch.columns]
        yield from zip(*columns, strict=True)


def _json(schema: pa.Schema, rows: Iterator[Row]) -> Iterator[str]:
    names = list(schema.names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = (
            f"Two columns of the answer are named '{twice[0]}', which JSON cannot show: rename one"
            " of them (AS)."
        )
        raise InvalidInputError(message, kind="column_twice", column=twice[0])
    for row in rows:
        yield json_text(dict(zip(names, row, strict=True)))


def _csv(schema: pa.Schema, rows: Iterator[Row]) -> Iterator[str]:
    yield ",".join(map(csv_field, schema.names))
    for row in rows:
        # a line of one null would be an empty line, which readers skip
        yield ",".join(map(csv_field, row)) if len(row) > 1 or row[0] is not None else '""'


def _vertical(schema: pa.Schema, rows: Iterator[Row]) -> Iterator[str]:
    names = [shown(name) for name in schema.names]
    width = max(map(cell_width, names), default=0)
    for number, row in enumerate(rows, 1):
        yield f"-[ row {number} ]".ljust(width + 12, "-")
        for name, value in zip(names, row, strict=True):
            first, *more = shown(value).split("\n")
            yield f"{_padded(name, width)} | {first}".rstrip()
            yield from (f"{' ' * width} | {line}".rstrip() for line in more)


def _table(
    schema: pa.Schema, rows: Iterator[Row], *, width_rows: int = WIDTH_ROWS
) -> Iterator[str]:
    names = [shown(name).replace("\n", "\\n") for name in schema.names]
    right = [_is_number(field.type) for field in schema]
    first = [[shown(value).split("\n") for value in row] for row in islice(rows, width_rows)]
    widths = [
        max(cell_width(name), *(cell_width(line) for row in first for line in row[at]), 1)
        for at, name in enumerate(names)
    ]
    yield _line([[name] for name in names], widths, [False] * len(names))[0]
    yield "─┼─".join("─" * width for width in widths)
    later = ([shown(value).split("\n") for value in row] for row in rows)
    for cells in chain(first, later):
        yield from _line(cells, widths, right)


def _line(cells: Sequence[list[str]], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Format one row; a cell may have several lines."""
    lines = []
    for number in range(max(map(len, cells))):
        texts = [cell[number] if number < len(cell) else "" for cell in cells]
        padded = [
            _padded(text, width, right=is_right)
            for text, width, is_right in zip(texts, widths, right, strict=True)
        ]
        lines.append(" │ ".join(padded).rstrip())
    return lines


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - cell_width(text))
    return blanks + text if right else text + blanks


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def live_lines(
    name: str, schema: pa.Schema, rows: Iterator[Row], *, first_count: int
) -> Iterator[str]:
    """Format rows of a stream as they come.

    Parameters
    ----------
    rows : iterator of tuple
        The rows; the iterator may block.
    first_count : int
        Rows that exist already; they decide the widths of a table's columns.
    """
    if name == "table":
        return _table(schema, rows, width_rows=min(first_count, WIDTH_ROWS))
    return FORMATS[name](schema, rows)


FORMATS: Mapping[str, Format] = {
    "table": _table,
    "json": _json,
    "csv": _csv,
    "vertical": _vertical,
}
