"""The report as one self-contained HTML page: no script from elsewhere, light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path

import charts
import check
from life import Findings

HERE = Path(__file__).parent


def render(findings: Findings) -> str:
    """The page's text."""
    tiles = "".join(
        f"<div class=tile><b>{escape(figure)}</b><span>{escape(words)}</span><i>{escape(more)}</i></div>"
        for figure, words, more in findings.tiles
    )
    most = max(findings.changes.values(), default=1)
    changes = "".join(
        f'<div class=change><span>{escape(words)}</span><div class="bar" style="width:{max(60 * n / most, 0.6):.1f}%"></div>'
        f"<b>{n:,}</b></div>"
        for words, n in findings.changes.items()
    )
    checks = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(how)}</td></tr>" for what, how in findings.checks
    )
    marks = {m.snapshot: m.title for m in findings.moments}
    sections = {
        "tiles": tiles,
        "calendar": charts.calendar(findings.hours, findings.cancelled, findings.rain),
        "map": charts.destinations(findings.destinations, findings.airports),
        "airlines": charts.airlines(findings.carriers),
        "cross": charts.cross_table(findings.cross, check.WEATHER_CLASSES, check.AGE_BANDS),
        "moments": charts.moments(findings.moments),
        "changes_title": escape(findings.changes_title),
        "changes": changes,
        "life": charts.life(findings.life, marks),
        "checks": checks,
        "made": escape(findings.made),
    }
    text = (HERE / "page.html").read_text(encoding="utf-8")
    for name, part in sections.items():
        text = text.replace("{{" + name + "}}", part)
    return text
