"""The figures of a query service as text: a table that is drawn again in place, or a line.

A terminal gets the table: the cursor goes up over the lines of the one before. Lines are cut at
the terminal's width, since one that wraps would take two. A pipe or a file gets a line for each
look, so that ``grep`` and ``tail -f`` work, or a JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from wcwidth import clip, width

from tidelake.cli.output.cell_text import json_text
from tidelake.service.observe.figures import ExecutorFigures, ServiceFigures, TableFigures

UNKNOWN = "-"
UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
STEP = 1024
MS, S, MINUTE, HOUR = 1000, 1_000_000, 60, 3600
SECONDS_SHOWN_MS = 1000
TABLE_HEAD = (
    "table",
    "state",
    "snapshot",
    "lag",
    "executors",
    "buckets",
    "gets/s",
    "hits",
    "p50",
    "p99",
    "mapped",
    "disk",
)
EXECUTOR_HEAD = (
    "executor",
    "address",
    "process",
    "state",
    "heartbeat",
    "buckets",
    "gets/s",
    "mapped",
    "disk",
)
LEFT = ("table", "state", "address")
"""Columns of text; all others are numbers."""


def table_lines(figures: ServiceFigures) -> list[str]:
    """The lines of the table: the service, its tables, its executors, what is wrong.

    Examples
    --------
    >>> nothing = ServiceFigures("a1", "127.0.0.1:4000", 61_000, 0, 2, (), ())
    >>> table_lines(nothing)[0]
    'Query service at 127.0.0.1:4000: 0 of 2 executors ready, up 0:01:01'
    """
    lines = [_head(figures), ""]
    lines += _aligned(TABLE_HEAD, [_table_cells(table) for table in figures.tables])
    lines.append("")
    lines += _aligned(EXECUTOR_HEAD, [_executor_cells(one) for one in figures.executors])
    problems = [f"{table.table}: {table.problem}" for table in figures.tables if table.problem]
    return [*lines, *([""] if problems else []), *problems]


def redrawn(lines: Sequence[str], *, before_count: int, columns: int) -> str:
    r"""The text that puts lines in the place of those before.

    Parameters
    ----------
    before_count : int
        How many were drawn the last time; 0 for none.

    Examples
    --------
    >>> redrawn(["abc", "d"], before_count=2, columns=2)
    '\x1b[2F\x1b[Jab\nd\n'
    """
    up = f"\x1b[{before_count}F\x1b[J" if before_count else ""
    return up + "".join(f"{clip(line, 0, columns)}\n" for line in lines)


def text_line(figures: ServiceFigures, *, now_ms: int) -> str:
    """All figures that matter as one line."""
    tables = [
        f"{table.table} {_state(table)}, snapshot {table.snapshot}, lag {_lag(table)},"
        f" {_rate(table.gets_per_second)} gets/s, hits {_share(table.hit_ratio)},"
        f" p50 {_time(table.p50_us)}, p99 {_time(table.p99_us)}"
        for table in figures.tables
    ]
    ready = f"{figures.ready_count}/{figures.executors_count} executors"
    return "; ".join([f"{_moment(now_ms)} {ready}", *tables])


def json_line(figures: ServiceFigures, *, now_ms: int) -> str:
    """The same as a JSON object, with plain numbers."""
    return json_text(
        {
            "at": _moment(now_ms),
            "service": figures.service_id,
            "address": figures.address,
            "executors": figures.executors_count,
            "executors_ready": figures.ready_count,
            "tables": [
                {
                    "table": table.table,
                    "ready": table.is_ready,
                    "snapshot": table.snapshot,
                    "lag": table.lag,
                    "buckets": table.buckets_count,
                    "gets_per_second": round(table.gets_per_second, 1),
                    "hit_ratio": table.hit_ratio,
                    "p50_us": table.p50_us,
                    "p99_us": table.p99_us,
                    "mapped_bytes": table.mapped_bytes,
                    "disk_bytes": table.disk_bytes,
                    "problem": table.problem or None,
                }
                for table in figures.tables
            ],
        }
    )


def _head(figures: ServiceFigures) -> str:
    seconds = figures.up_ms // 1000
    up = f"{seconds // HOUR}:{seconds // MINUTE % MINUTE:02}:{seconds % MINUTE:02}"
    ready = f"{figures.ready_count} of {figures.executors_count} executors ready"
    return f"Query service at {figures.address}: {ready}, up {up}"


def _table_cells(table: TableFigures) -> tuple[str, ...]:
    return (
        table.table,
        _state(table),
        str(table.snapshot or UNKNOWN),
        _lag(table),
        f"{table.ready_count}/{table.executors_count}",
        str(table.buckets_count),
        _rate(table.gets_per_second),
        _share(table.hit_ratio),
        _time(table.p50_us),
        _time(table.p99_us),
        _size(table.mapped_bytes),
        _size(table.disk_bytes),
    )


def _executor_cells(executor: ExecutorFigures) -> tuple[str, ...]:
    return (
        str(executor.index),
        executor.address,
        str(executor.process or UNKNOWN),
        "ready" if executor.is_ready else "loading",
        f"{executor.heartbeat_age_ms} ms",
        str(executor.buckets_count),
        _rate(executor.gets_per_second),
        _size(executor.mapped_bytes),
        _size(executor.disk_bytes),
    )


def _state(table: TableFigures) -> str:
    if table.is_ready:
        return "ready"
    return "loading" if not table.problem else "problem"


def _lag(table: TableFigures) -> str:
    if table.lag is None:
        return UNKNOWN
    return f"{table.lag} ({table.lag_ms / 1000:.1f} s)" if table.lag else "0"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}"


def _share(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio:.1%}"


def _time(microseconds: int) -> str:
    """A time for the eye.

    Examples
    --------
    >>> [_time(us) for us in (0, 850, 12_300, 2_100_000)]
    ['-', '0.85 ms', '12.3 ms', '2.1 s']
    """
    if not microseconds:
        return UNKNOWN
    if microseconds >= S:
        return f"{microseconds / S:.1f} s"
    return f"{microseconds / MS:.3g} ms"


def _size(size_bytes: float) -> str:
    """A size for the eye.

    Examples
    --------
    >>> [_size(n) for n in (0, 1023, 1536, 340 << 20)]
    ['0 B', '1023 B', '1.5 KB', '340 MB']
    """
    unit = 0
    while size_bytes >= STEP and unit < len(UNITS) - 1:
        size_bytes /= STEP
        unit += 1
    return f"{size_bytes:.4g} {UNITS[unit]}" if not unit else f"{size_bytes:.3g} {UNITS[unit]}"


def _moment(now_ms: int) -> str:
    text = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; numbers stand at the right."""
    widths = [max(width(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = [
        " │ ".join(_padded(*cell) for cell in zip(row, widths, head, strict=True))
        for row in (head, *rows)
    ]
    return [line.rstrip() for line in (lines[0], "─┼─".join("─" * w for w in widths), *lines[1:])]


def _padded(text: str, columns: int, head: str) -> str:
    blanks = " " * (columns - width(text))
    return text + blanks if head in LEFT else blanks + text
