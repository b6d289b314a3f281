"""The text of a row that is rejected: its columns as JSON, in the source's own texts."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from tidelake.cdc.mysql.binlog.times import Moments
from tidelake.cdc.mysql.values.cells import Cells
from tidelake.cdc.mysql.values.columns import ReadableColumn
from tidelake.cdc.mysql.values.lake_values import time_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def payload(columns: Sequence[ReadableColumn], cells: Mapping[int, Cells], row: int) -> str:
    """Print one row."""
    values = {columns[place].name: _text(columns[place], cells[place], row) for place in cells}
    return json.dumps(values, ensure_ascii=False)


def _text(column: ReadableColumn, cells: Cells, row: int) -> object:
    if cells.ok is not None and not cells.ok[row]:
        return None
    values = cells.values
    if isinstance(values, Moments):
        return _moment(column, values, row)
    if isinstance(values, np.ndarray):
        return values[row].item()
    value = values[row].as_py()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, list) or value is None else str(value)


def _moment(column: ReadableColumn, moments: Moments, row: int) -> str:
    name, value = column.native.name, int(moments.values[row])
    if name == "time":
        return time_text(value, column.native.length)
    if moments.is_zero[row]:
        return "0000-00-00" if name == "date" else "0000-00-00 00:00:00"
    if moments.texts is not None and moments.texts[row]:
        return str(moments.texts[row])
    try:
        whole = _EPOCH + (
            timedelta(days=value) if name == "date" else timedelta(microseconds=value)
        )
    except OverflowError:
        return str(value)
    if name == "date":
        return whole.date().isoformat()
    return whole.replace(tzinfo=None).isoformat(" ")
