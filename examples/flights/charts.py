"""SVG, drawn with numbers and strings only. Colours come from the page's style sheet by class.

A delay of ``x`` minutes has the class ``d0`` .. ``d7`` by ``DELAY_EDGES``; the same scale serves the
heat map, the map and the bars.
"""

from __future__ import annotations

import datetime
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd
from life import LifePoint, Moment

DELAY_EDGES = (0, 5, 10, 15, 25, 40, 60)
DELAY_WORDS = ("early", "0-5", "5-10", "10-15", "15-25", "25-40", "40-60", "over 60")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
STATUS_ORDER = ("landed", "diverted", "departed", "scheduled", "gone")
STATUS_WORDS = {
    "landed": "landed",
    "diverted": "diverted",
    "departed": "in the air, or never reported",
    "scheduled": "still to leave",
    "gone": "cancelled: row deleted",
}
LEVEL_CLASSES = 6


def delay_class(minutes: float) -> str:
    """The colour class of a mean delay."""
    return f"d{bisect_right(DELAY_EDGES, minutes)}"


def compact(number: float) -> str:
    """A number for a label: 950, 12.3 k, 4.5 M.

    >>> compact(950), compact(12_345), compact(4_500_000)
    ('950', '12 k', '4.5 M')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f} {unit}" if scaled < 10 else f"{scaled:.0f} {unit}"
    return f"{number:.0f}"


def _text(x: float, y: float, words: str, css: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def _svg(width: float, height: float, parts: Sequence[str], label: str, extra: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" {extra}>'
        + "".join(parts)
        + "</svg>"
    )


def _day_of_year(month: int, day: int) -> int:
    return datetime.date(2013, month, day).timetuple().tm_yday - 1


def delay_legend(x: float, y: float, title: str) -> list[str]:
    """The scale of delays: eight swatches with words under them."""
    parts = [_text(x, y + 9, title, "axis")]
    x += len(title) * 5.9 + 12
    for at, words in enumerate(DELAY_WORDS):
        parts.append(f'<rect x="{x + at * 48}" y="{y}" width="47" height="10" class="d{at}"/>')
        parts.append(_text(x + at * 48 + 23.5, y + 22, words, "axis", "middle"))
    return parts


def calendar(hours: pd.DataFrame, cancelled: pd.DataFrame, rain: pd.DataFrame) -> str:
    """The year: mean departure delay by day and hour, under it cancellations and rain by day."""
    left, top, day_w, hour_h = 46, 44, 2.92, 10.5
    first_hour, last_hour = 5, 23
    height = (last_hour - first_hour + 1) * hour_h
    mean = hours["late_minutes"] / hours["flights"]
    paths: dict[str, list[str]] = {}
    known: dict[str, list[int]] = {}
    for month, day, hour, count, delay in zip(
        hours["month"], hours["day"], hours["hour"], hours["flights"], mean, strict=True
    ):
        column = _day_of_year(month, day)
        if hour < first_hour:
            continue
        x, y = left + column * day_w, top + (hour - first_hour) * hour_h
        cell = f"M{x:.1f} {y:.1f}h{day_w + 0.06:.2f}v{hour_h - 0.7:.1f}h-{day_w + 0.06:.2f}z"
        paths.setdefault(delay_class(delay), []).append(cell)
        known[f"{column},{hour}"] = [int(count), round(float(delay))]
    parts = [*delay_legend(left, 4, "mean departure delay, minutes")]
    parts += [f'<path class="{css}" d="{"".join(cells)}"/>' for css, cells in sorted(paths.items())]
    for hour in range(6, 24, 3):
        parts.append(
            _text(left - 6, top + (hour - first_hour + 0.8) * hour_h, f"{hour}:00", "axis", "end")
        )
    bars_top, bars_h = top + height + 26, 72
    rain_top, rain_h = bars_top + bars_h + 24, 34
    bottom = rain_top + rain_h
    for at, word in enumerate(MONTHS):
        x = left + _day_of_year(at + 1, 1) * day_w
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
        parts.append(_text(x + 4, bottom + 15, word, "axis"))
    parts += _day_bars(cancelled, "cancelled", left, bars_top, bars_h, day_w, "cancel")
    parts.append(_text(left, bars_top - 6, "cancelled flights a day", "axis"))
    parts += _peaks(cancelled, left, bars_top, bars_h, day_w)
    millimetres = rain.assign(mm=rain["inches"] * 25.4)
    parts += _day_bars(millimetres, "mm", left, rain_top, rain_h, day_w, "rain")
    parts.append(
        _text(
            left,
            rain_top - 6,
            f"rain and snow, mm a day (most: {millimetres['mm'].max():.0f})",
            "axis",
        )
    )
    grid = {"left": left, "top": top, "w": day_w, "h": hour_h, "hour": first_hour, "hours": 19}
    payload = escape(json.dumps({"grid": grid, "cells": known}, separators=(",", ":")))
    parts.append(
        f'<rect class="sense" x="{left}" y="{top}" width="{365 * day_w:.0f}" height="{height:.0f}"/>'
    )
    return _svg(
        1124,
        bottom + 22,
        parts,
        "Delays by day and hour of 2013",
        f'id="calendar" data-known="{payload}"',
    )


def _day_bars(
    frame: pd.DataFrame, column: str, left: float, top: float, height: float, day_w: float, css: str
) -> list[str]:
    most = float(frame[column].max())
    bars = []
    for month, day, value in zip(frame["month"], frame["day"], frame[column], strict=True):
        if value > 0:
            size = height * float(value) / most
            x = left + _day_of_year(month, day) * day_w
            bars.append(f"M{x:.1f} {top + height:.1f}v-{size:.1f}h{day_w - 0.5:.1f}v{size:.1f}z")
    base = f'<line x1="{left}" x2="{left + 365 * day_w:.0f}" y1="{top + height}" y2="{top + height}" class="base"/>'
    return [f'<path class="{css}" d="{"".join(bars)}"/>', base]


def _peaks(
    cancelled: pd.DataFrame, left: float, top: float, height: float, day_w: float
) -> list[str]:
    """Names of the days with most cancellations, where they do not hide each other."""
    most = cancelled["cancelled"].max()
    taken: list[float] = []
    parts = []
    for row in cancelled.sort_values("cancelled", ascending=False).head(12).itertuples():
        x = left + _day_of_year(row.month, row.day) * day_w
        if any(abs(x - other) < 96 for other in taken) or len(taken) == 6:
            continue
        taken.append(x)
        y = max(top + height * (1 - row.cancelled / most) + 9, top + 9)
        parts.append(_text(x + 7, y, f"{MONTHS[row.month - 1]} {row.day}: {row.cancelled}", "note"))
    return parts


# ---- the map --------------------------------------------------------------------------------------

_NEW_YORK = (40.69, -73.92)
_EARTH_MILES = 3958.8


def _from_new_york(lat: float, lon: float) -> tuple[float, float]:
    """Miles east and north of New York, azimuthal equidistant: distance and bearing are true."""
    a, b = math.radians(_NEW_YORK[0]), math.radians(lat)
    turn = math.radians(lon - _NEW_YORK[1])
    cosine = math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(turn)
    arc = math.acos(max(-1.0, min(1.0, cosine)))
    bearing = math.atan2(
        math.sin(turn) * math.cos(b),
        math.cos(a) * math.sin(b) - math.sin(a) * math.cos(b) * math.cos(turn),
    )
    return arc * _EARTH_MILES * math.sin(bearing), arc * _EARTH_MILES * math.cos(bearing)


def destinations(frame: pd.DataFrame, airports: pd.DataFrame) -> str:
    """All destinations around New York: width of a ray = flights, colour = mean arrival delay."""
    width, height, scale = 680.0, 500.0, 0.2295
    centre_x, centre_y = 592.0, 190.0

    def place(lat: float, lon: float) -> tuple[float, float]:
        east, north = _from_new_york(lat, lon)
        return centre_x + east * scale, centre_y - north * scale

    def inside(x: float, y: float) -> bool:
        return 6 < x < width - 6 and 30 < y < height - 6

    parts = [
        '<defs><clipPath id="frame"><rect x="0" y="26" width="680" height="474"/></clipPath></defs>'
    ]
    dots = []
    for lat, lon in zip(airports["lat"], airports["lon"], strict=True):
        x, y = place(lat, lon)
        if inside(x, y):
            dots.append(f"M{x:.1f} {y:.1f}h0")
    parts.append(f'<path class="airport" d="{"".join(dots)}"/>')
    for miles in (500, 1000, 1500, 2000, 2500):
        parts.append(
            f'<circle cx="{centre_x}" cy="{centre_y}" r="{miles * scale:.1f}" class="ring" clip-path="url(#frame)"/>'
        )
        turn = math.radians(200)
        x, y = centre_x + miles * scale * math.sin(turn), centre_y - miles * scale * math.cos(turn)
        if inside(x, y):
            parts.append(_text(x, y, f"{miles:,} mi", "axis", "middle"))
    known = frame.merge(airports, left_on="dest", right_on="faa").sort_values("flights")
    most = float(known["flights"].max())
    rays, labels = [], []
    for row in known.itertuples():
        x, y = place(row.lat, row.lon)
        delay = row.late_minutes / row.flights
        thick = 0.7 + 6.3 * math.sqrt(row.flights / most)
        far = not inside(x, y)
        if far:  # Alaska and Hawaii lie outside the frame: show the way
            across = (centre_x - 58) / (centre_x - x) if x < 58 else 1.0
            up = (centre_y - 46) / (centre_y - y) if y < 46 else 1.0
            shrink = min(across, up, 1.0)
            x, y = centre_x + (x - centre_x) * shrink, centre_y + (y - centre_y) * shrink
        css = delay_class(delay)
        rays.append(
            f'<g class="{css}"><title>{escape(row.name)} ({row.dest}): {row.flights:,} flights,'
            f" {delay:+.0f} min on arrival</title>"
            f'<line x1="{centre_x}" y1="{centre_y}" x2="{x:.1f}" y2="{y:.1f}" stroke-width="{thick:.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick / 2 + 1.4:.1f}"/></g>'
        )
        words = f"{row.dest} {'→ ' if far else ''}".strip()
        labels.append((row.flights + (most if far else 0), x, y, words))
    parts += rays
    parts += _free_labels(labels, width)
    parts.append(f'<circle cx="{centre_x}" cy="{centre_y}" r="5" class="hub"/>')
    parts.append(_text(centre_x + 10, centre_y + 4, "New York", "note"))
    return _svg(width, height, [*_map_legend(), *parts], "Delays by destination")


def _map_legend() -> list[str]:
    parts = []
    x = 2.0
    for at, words in enumerate(DELAY_WORDS[:6]):
        parts.append(f'<rect x="{x:.1f}" y="4" width="12" height="10" class="d{at}"/>')
        parts.append(_text(x + 16, 13, words, "axis"))
        x += 24 + len(words) * 6.2
    parts.append(
        _text(x + 4, 13, "minutes late on arrival, on average; a wider ray = more flights", "axis")
    )
    return parts


def _free_labels(labels: list[tuple[float, float, float, str]], width: float) -> list[str]:
    """Labels of the busiest places, each beside its dot, none over another."""
    boxes: list[tuple[float, float, float, float]] = [(590, 178, 672, 198)]
    parts = []
    for _, x, y, words in sorted(labels, reverse=True):
        size = len(words) * 6.4
        for dx, dy, anchor in (
            (7, 3.5, "start"),
            (-7, 3.5, "end"),
            (0, -8, "middle"),
            (0, 15, "middle"),
        ):
            low = x + dx - {"start": 0, "middle": size / 2, "end": size}[anchor]
            box = (low, y + dy - 9, low + size, y + dy + 2)
            if box[0] < 2 or box[2] > width - 2:
                continue
            if all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in boxes):
                boxes.append(box)
                parts.append(_text(x + dx, y + dy, words, "place", anchor))
                break
    return parts


# ---- bars -----------------------------------------------------------------------------------------


def airlines(frame: pd.DataFrame) -> str:
    """Airlines by mean arrival delay, with their flights and the share that was cancelled."""
    rows = frame.assign(mean=frame["late_minutes"] / frame["landed"]).sort_values("mean")
    zero, scale, row_h, top = 204.0, 6.6, 26.0, 30.0
    parts = [
        _text(0, 14, "airline", "axis"),
        _text(zero, 14, "mean delay on arrival, minutes", "axis", "middle"),
        _text(430, 14, "cancelled", "axis", "end"),
    ]
    for at, row in enumerate(rows.itertuples()):
        y = top + at * row_h
        size = abs(row.mean) * scale
        x = zero if row.mean >= 0 else zero - size
        parts.append(_text(0, y + 9, _short(row.name)[:21], "name"))
        parts.append(_text(0, y + 20, f"{compact(row.scheduled)} flights", "small"))
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{size:.1f}" height="15" rx="2" class="{delay_class(row.mean)}"/>'
        )
        end = x + size + 5 if row.mean >= 0 else zero + 5
        parts.append(_text(end, y + 12, f"{row.mean:+.1f}", "value"))
        parts.append(
            _text(430, y + 12, f"{100 * row.cancelled / row.scheduled:.1f} %", "value", "end")
        )
    bottom = top + len(rows) * row_h
    parts.append(f'<line x1="{zero}" x2="{zero}" y1="{top - 6}" y2="{bottom - 4}" class="base"/>')
    return _svg(436, bottom, parts, "Airlines by delay")


def cross_table(frame: pd.DataFrame, weathers: Sequence[str], ages: Sequence[str]) -> str:
    """Mean departure delay by weather and age of the plane: the join, as a coloured table."""
    cells = {(r.weather, r.age): r for r in frame.itertuples()}
    head = "".join(f"<th>{escape(a)}</th>" for a in ages)
    body = []
    for weather in weathers:
        row = [f"<th>{escape(weather)}</th>"]
        for age in ages:
            cell = cells.get((weather, age))
            if cell is None:
                row.append("<td></td>")
                continue
            mean = cell.late_minutes / cell.flights
            row.append(
                f'<td class="cell {delay_class(mean)}"><b>{mean:+.0f}</b><span>{compact(cell.flights)}</span></td>'
            )
        body.append(f"<tr>{''.join(row)}</tr>")
    return f'<table class="cross"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def airline_months(frame: pd.DataFrame) -> str:
    """Mean departure delay by airline and month: a coloured table, the busiest airline first."""
    busiest = frame.groupby("name")["flights"].sum().sort_values(ascending=False)
    months = dict(enumerate(MONTHS, start=1))
    cells = frame.assign(weather=frame["name"].map(_short), age=frame["month"].map(months))
    return cross_table(cells, [_short(name) for name in busiest.index], MONTHS)


def _short(name: str) -> str:
    """An airline's name without what all of them have."""
    for words in (" Inc.", " Co.", " Corporation"):
        name = name.replace(words, "")
    return name


def moments(items: Sequence[Moment]) -> str:
    """The table as of several moments: flights by status, one bar a moment."""
    parts, y, width = [], 26.0, 640.0
    total = max(sum(m.counts.values()) for m in items)
    x = 0.0
    for status in STATUS_ORDER:
        parts.append(f'<rect x="{x:.0f}" y="2" width="10" height="10" class="s-{status}"/>')
        parts.append(_text(x + 14, 11, STATUS_WORDS[status], "axis"))
        x += 28 + len(STATUS_WORDS[status]) * 5.9
    for moment in items:
        parts.append(_text(0, y + 15, moment.title, "name"))
        parts.append(_text(width, y + 15, moment.asked, "code", "end"))
        x = 0.0
        for status in STATUS_ORDER:
            count = moment.counts.get(status, 0)
            size = width * count / total
            if not count:
                continue
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 22}" width="{max(size, 1):.1f}" height="20" class="s-{status}">'
                f"<title>{escape(STATUS_WORDS[status])}: {count:,}</title></rect>"
            )
            if size > 48:
                parts.append(_text(x + size / 2, y + 36, f"{count:,}", "onbar", "middle"))
            x += size
        small = ", ".join(
            f"{moment.counts[s]:,} {STATUS_WORDS[s].split(',')[0].split(':')[0]}"
            for s in STATUS_ORDER
            if moment.counts.get(s, 0) and width * moment.counts[s] / total <= 48
        )
        parts.append(_text(0, y + 55, small, "small"))
        y += 66
    return _svg(width, y, parts, "The table at three moments")


# ---- the table's life -------------------------------------------------------------------------------


def life(points: Sequence[LifePoint], marks: Mapping[int, str]) -> str:
    """Files by level and sorted runs per snapshot, and under them the bytes."""
    left, right, top, height = 52.0, 1064.0, 34.0, 150.0
    step = (right - left) / len(points)
    most_files = max(p.files for p in points)
    most_runs = max(p.runs_max for p in points)
    levels = sorted({level for p in points for level in p.files_by_level})
    parts = _life_legend(left, levels)
    paths: dict[int, list[str]] = {level: [] for level in levels}
    for at, point in enumerate(points):
        x, y = left + at * step, top + height
        for level in reversed(levels):
            size = height * point.files_by_level.get(level, 0) / most_files
            if size:
                y -= size
                paths[level].append(
                    f"M{x:.1f} {y:.1f}h{step * 0.86:.2f}v{size:.1f}h-{step * 0.86:.2f}z"
                )
    parts += [
        f'<path class="l{min(level, LEVEL_CLASSES - 1)}" d="{"".join(cells)}"/>'
        for level, cells in paths.items()
    ]
    parts += _axis(left, top, height, most_files, "live files", "end", -6)
    parts += _axis(right, top, height, most_runs, "sorted runs", "start", 6)
    line = " ".join(
        f"{left + (at + 0.43) * step:.1f},{top + height - height * p.runs_max / most_runs:.1f}"
        for at, p in enumerate(points)
    )
    parts.append(f'<polyline class="runs" points="{line}"/>')
    low_top, low_h = top + height + 44, 110.0
    written, total = [], 0
    for point in points:
        total += point.bytes_added
        written.append(total)
    most = float(max(written[-1], max(p.live_bytes for p in points)))
    floor = low_top + low_h

    def curve(values: Sequence[float]) -> str:
        return " ".join(
            f"{left + (at + 0.43) * step:.1f},{floor - low_h * v / most:.1f}"
            for at, v in enumerate(values)
        )

    live = [p.live_bytes for p in points]
    parts.append(
        f'<polygon class="live" points="{left + 0.43 * step:.1f},{floor} {curve(live)} {right - 0.57 * step:.1f},{floor}"/>'
    )
    parts.append(f'<polyline class="written" points="{curve(written)}"/>')
    parts += _axis(left, low_top, low_h, most / 1e6, "MB", "end", -6)
    parts.append(_text(left + 2, low_top - 8, "bytes: ", "axis"))
    parts.append(f'<rect x="{left + 44}" y="{low_top - 17}" width="10" height="10" class="live"/>')
    parts.append(_text(left + 58, low_top - 8, "a reader meets", "axis"))
    parts.append(
        f'<line x1="{left + 158}" x2="{left + 176}" y1="{low_top - 12}" y2="{low_top - 12}" class="written"/>'
    )
    parts.append(
        _text(left + 182, low_top - 8, "written since the beginning, compaction included", "axis")
    )
    for at, point in enumerate(points):
        if point.snapshot in marks:
            x = left + (at + 0.43) * step
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{floor}" class="mark"/>'
            )
            anchor = "end" if x > right - 160 else "start"
            parts.append(
                _text(
                    x + (4 if anchor == "start" else -4),
                    floor + 30,
                    marks[point.snapshot],
                    "note",
                    anchor,
                )
            )
    every = max(1, round(len(points) / 12 / 5) * 5)
    for at, point in enumerate(points):
        if point.snapshot % every == 0:
            parts.append(
                _text(left + (at + 0.43) * step, floor + 14, str(point.snapshot), "axis", "middle")
            )
    parts.append(_text(left - 6, floor + 14, "snapshot", "axis", "end"))
    return _svg(1124, floor + 38, parts, "The table's life, snapshot by snapshot")


def _life_legend(left: float, levels: Sequence[int]) -> list[str]:
    parts, x = [_text(left + 2, 14, "files:", "axis")], left + 44
    for level in levels:
        parts.append(
            f'<rect x="{x}" y="5" width="10" height="10" class="l{min(level, LEVEL_CLASSES - 1)}"/>'
        )
        parts.append(_text(x + 14, 14, f"level {level}", "axis"))
        x += 68
    parts.append(f'<line x1="{x + 6}" x2="{x + 24}" y1="10" y2="10" class="runs"/>')
    parts.append(_text(x + 30, 14, "sorted runs in the fullest bucket (right axis)", "axis"))
    return parts


def _axis(
    x: float, top: float, height: float, most: float, title: str, anchor: str, shift: float
) -> list[str]:
    parts = [_text(x + shift, top - 6, title, "axis", anchor)]
    nice = 10 ** math.floor(math.log10(max(most, 1)))
    step = next(s * nice / 10 for s in (2, 5, 10, 20, 50) if most / (s * nice / 10) <= 5)
    if title in {"live files", "sorted runs"}:
        step = max(1, round(step))
    value = 0.0
    while value <= most:
        y = top + height - height * value / most
        parts.append(_text(x + shift, y + 3.5, f"{value:g}", "axis", anchor))
        value += step
    return parts
