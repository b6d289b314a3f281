"""The report as one self-contained HTML page: no script from elsewhere, light and dark."""

from __future__ import annotations

from html import escape
from pathlib import Path

import charts
import check
from life import Findings, FourthAct, SecondAct

HERE = Path(__file__).parent


FOURTH_HEAD = ("table", "the doctor found", "and named", "figure", "before", "predicted", "after")
STORY_HEAD = ("", "state", "plane", "left", "min. late", "landed", "min. late")


def second_rows(second: SecondAct) -> list[tuple[str, str, str]]:
    """The figures of the second act: words, figure, and more words."""
    before, after = second.scans
    rows = [
        (f"stream: {count.name}", f"{count.records:,}", f"{count.late:,} of them came too late")
        for count in second.counts
    ]
    taken = f"{second.taken_back:,}"
    killed = f"streams killed once, after snapshot {second.killed_after}, and started again"
    batches = f"each committed once; {killed}" if second.killed_after else "each committed once"
    return [
        *rows,
        ("cancelled", taken, "flights taken back from the sums"),
        ("micro-batches", f"{second.commits}", batches),
        *(
            (
                f"scan {scan.when}",
                f"{scan.seconds:.2f} s",
                f"{scan.files} files, {scan.rows:,} rows",
            )
            for scan in (before, after)
        ),
    ]


def _second(second: SecondAct | None) -> dict[str, str]:
    """The parts of the page that show the second act."""
    if second is None:
        return dict.fromkeys(("second_months", "second_rows", "second_story"), "")
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td><b>{escape(figure)}</b></td><td>{escape(more)}</td></tr>"
        for words, figure, more in second_rows(second)
    )
    head = "".join(f"<th>{escape(words)}</th>" for words in STORY_HEAD)
    story = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in second.story
    )
    return {
        "second_months": charts.airline_months(second.months),
        "second_rows": rows,
        "second_story": f"<thead><tr>{head}</tr></thead><tbody>{story}</tbody>",
    }


def fourth_rows(fourth: FourthAct) -> list[tuple[str, str, str]]:
    """The figures of the fourth act: words, figure, and more words."""
    return [
        (
            f"{one.table}: {figure}",
            f"{before:,g} -> {now:,g}",
            f"{said:,g} by {one.kind}: {one.remedy}",
        )
        for one in fourth.prescriptions
        for figure, (before, said, now) in one.became.items()
    ]


def _fourth(fourth: FourthAct | None) -> dict[str, str]:
    """The parts of the page that show the fourth act."""
    if fourth is None:
        return dict.fromkeys(("fourth_commits", "fourth_rows", "fourth_plan"), "")
    cells = [
        (one.table, one.kind, one.remedy, figure, *(f"{value:,g}" for value in values))
        for one in fourth.prescriptions
        for figure, values in one.became.items()
    ]
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in cells
    )
    head = "".join(f"<th scope=col>{escape(words)}</th>" for words in FOURTH_HEAD)
    lines = [("dry run", line) for line in fourth.planned] + [
        ("done", line) for line in fourth.done
    ]
    plan = "".join(f"<tr><td>{words}</td><td>{escape(line)}</td></tr>" for words, line in lines)
    return {
        "fourth_commits": f"{fourth.commits}",
        "fourth_rows": f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>",
        "fourth_plan": f"<tbody>{plan}</tbody>",
    }


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
        **_second(findings.second),
        **_fourth(findings.fourth),
        "checks": checks,
        "made": escape(findings.made),
    }
    text = (HERE / "page.html").read_text(encoding="utf-8")
    for name, part in sections.items():
        text = text.replace("{{" + name + "}}", part)
    return text
