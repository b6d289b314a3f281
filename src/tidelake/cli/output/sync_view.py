"""A running sync as text: a table that is drawn again in place."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.cdc.door import (
    CopyFigures,
    JobFigures,
)

HEAD = ("table", "from", "phase", "rows applied", "rows/s")
NUMBERS = ("rows applied", "rows/s")
BAR_CHARS = 24
MINUTE, HOUR = 60, 3600
SETTLED = ("live", "left out")
"""Phases of which nothing is to be said besides."""


def sync_lines(figures: JobFigures) -> list[str]:
    """The lines of the table: the job, its tables, the copy on its way, the last DDL.

    Examples
    --------
    >>> sync_lines(JobFigures("ods", 7, "0/1A", "0/1A", 400))[0]
    'job ods: epoch 7 at 0/1A, 0.4 s after the source'
    >>> sync_lines(JobFigures("ods", copy=CopyFigures("ods.t", 500, 2_000, 10.0)))[-1]
    'copying ods.t ######------------------ 25 %, 500 of about 2,000 rows, 0:00:30 left'
    """
    rows = [
        (
            one.target,
            one.source,
            one.phase,
            f"{one.rows:,}",
            f"{one.rows_per_second:,.1f}" if one.rows_per_second else "-",
        )
        for one in figures.tables
    ]
    lines = [_head(figures)]
    if rows:
        lines += ["", *_aligned([HEAD, *rows])]
    waiting = [one for one in figures.tables if one.reason and one.phase not in SETTLED]
    lines += [f"{one.source}: {one.phase} ({one.reason})" for one in waiting]
    if figures.last_ddl is not None:
        ddl = figures.last_ddl
        what = "; ".join(ddl.changes) or ddl.reason or ddl.action
        lines.append(f"last DDL, epoch {ddl.epoch}: {ddl.table}: {what}")
    if figures.copy is not None:
        lines.append(_copy_line(figures.copy))
    return lines


def redrawn(lines: Sequence[str], *, before_count: int, columns: int) -> str:
    r"""The text that puts lines in the place of those before; each is cut at the width.

    Examples
    --------
    >>> redrawn(["abc", "d"], before_count=2, columns=2)
    '\x1b[2F\x1b[Jab\nd\n'
    """
    up = f"\x1b[{before_count}F\x1b[J" if before_count else ""
    return up + "".join(f"{line[:columns]}\n" for line in lines)


def _head(figures: JobFigures) -> str:
    if figures.epoch < 0:
        return f"job {figures.job}: begins"
    text = f"job {figures.job}: epoch {figures.epoch} at {figures.position}"
    if figures.lag_ms is not None:
        text += f", {figures.lag_ms / 1_000:.1f} s after the source"
    if figures.quarantined:
        text += f", {figures.quarantined:,} rows in the quarantine"
    return text


def _copy_line(copy: CopyFigures) -> str:
    share, left = copy.share, copy.seconds_left
    if share is None or left is None:
        return f"copying {copy.target}, {copy.rows:,} rows"
    bar = "#" * int(share * BAR_CHARS)
    seconds = int(left)
    clock = f"{seconds // HOUR}:{seconds // MINUTE % MINUTE:02}:{seconds % MINUTE:02}"
    return (
        f"copying {copy.target} {bar:-<{BAR_CHARS}} {share:.0%}".replace("%", " %")
        + f", {copy.rows:,} of about {copy.rows_estimated:,} rows, {clock} left"
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for name, cell, width in zip(HEAD, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
