"""Fills the templates: a page of all tables, one of a table, and the file of a report."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import quote

from tidelake.engine.health import HealthFinding
from tidelake.ui._optional import load
from tidelake.ui.model.table_facts import TableFacts
from tidelake.ui.model.warehouse_watch import TABLES_SHOWN_MAX, Examination, TableSummary
from tidelake.ui.pages.charts import heat, share, timeline_chart
from tidelake.ui.pages.texts import bytes_text, iso_text, number_text, time_text

ROWS_SHOWN = 25
"""Rows of a long list on one page."""
REPORT_ROWS_SHOWN = 200
STYLE, SCRIPT = "ui.css", "ui.js"
MARK = (
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32'"
    " rx='7' fill='%230b6e75'/%3E%3Cpath d='M5 13c4-5 7-5 11 0s7 5 11 0M5 21c4-5 7-5 11 0s7 5 11"
    " 0' fill='none' stroke='white' stroke-width='3' stroke-linecap='round'/%3E%3C/svg%3E"
)


@dataclass(frozen=True, slots=True)
class Site:
    """What all pages of a server say of it.

    Parameters
    ----------
    warehouse : str
        Its location, without secrets.
    version : str
        Of this library.
    allows_actions : bool
        Whether a page offers what the doctor prescribes.
    has_login : bool
        Whether there is a session to leave.
    poll_ms : int
        The time between two looks of a page.
    """

    warehouse: str
    version: str
    allows_actions: bool = False
    has_login: bool = False
    poll_ms: int = 3_000


@dataclass(frozen=True, slots=True)
class Sliced:
    """A part of a long list.

    Parameters
    ----------
    page : int
        From 1 on.
    """

    rows: Sequence[Any]
    page: int
    pages: int
    total: int
    parameter: str

    @classmethod
    def of(cls, total: int, page: int, parameter: str, *, size: int = ROWS_SHOWN) -> Sliced:
        """A part without its rows: a page that is too high is the last one."""
        pages = max(1, -(-total // size))
        return cls((), min(max(page, 1), pages), pages, total, parameter)

    def with_rows(self, rows: Sequence[Any]) -> Sliced:
        """The part with its rows."""
        return Sliced(rows, self.page, self.pages, self.total, self.parameter)


class PageWriter:
    """Writes pages.

    Raises
    ------
    UnsupportedError
        The library ``jinja2`` is not installed.
    """

    def __init__(self, site: Site) -> None:
        jinja2 = load("jinja2", what="A page of tables")
        self.site = site
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("tidelake.ui.pages", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "number": number_text,
            "size": bytes_text,
            "time": time_text,
            "iso": iso_text,
            "name": lambda text: quote(text, safe=""),
        }
        self._templates.globals |= {
            "site": site,
            "share": share,
            "heat": heat,
            "mark": MARK,
            "is_report": False,
        }

    def warehouse(self, tables: Sequence[TableSummary]) -> str:
        """The page of all tables."""
        read = [table.facts for table in tables if table.facts is not None]
        sums = {
            "bytes": sum(f.layout.bytes for f in read if f.layout is not None),
            "files": sum(f.layout.files for f in read if f.layout is not None),
            "rows": sum(f.layout.rows for f in read if f.layout is not None),
            "warnings": sum(table.health == "warning" for table in tables),
            "failed": sum(table.health == "failed" for table in tables),
        }
        most = max((f.layout.bytes for f in read if f.layout is not None), default=0)
        pending = any(table.is_pending for table in tables)
        return self._page(
            "warehouse.html",
            tables=tables,
            sums=sums,
            most=most,
            pending=pending,
            shown_max=TABLES_SHOWN_MAX,
        )

    def table(
        self,
        facts: TableFacts,
        examination: Examination | None,
        *,
        pages: Mapping[str, int] | None = None,
    ) -> str:
        """The page of a table.

        Parameters
        ----------
        examination : Examination, optional
            None while the table is being examined.
        pages : mapping of str to int
            Which page of ``buckets``, ``partitions`` and ``snapshots`` is shown.
        """
        return self._page(
            "table.html", **self._of_table(facts, examination, pages or {}, ROWS_SHOWN)
        )

    def report(self, facts: TableFacts, examination: Examination, *, made_ms: int) -> str:
        """A table as one file that needs no other: style and script stand in it."""
        style, script = asset(STYLE).decode(), asset(SCRIPT).decode()
        return self._page(
            "report.html",
            **self._of_table(facts, examination, {}, REPORT_ROWS_SHOWN),
            is_report=True,
            style=style,
            script=script,
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
            made_ms=made_ms,
        )

    def action(self, facts: TableFacts, finding: HealthFinding, call: str, csrf: str) -> str:
        """What a call would do, with the button that makes it."""
        return self._page("action.html", facts=facts, finding=finding, call=call, csrf=csrf)

    def notice(self, title: str, words: str, *, back: str = "/", is_error: bool = True) -> str:
        """A page that says one thing."""
        return self._page("notice.html", title=title, words=words, back=back, is_error=is_error)

    def login(self, *, was_wrong: bool = False) -> str:
        """The page that asks for the token."""
        return self._page("login.html", was_wrong=was_wrong)

    def _page(self, template: str, **values: Any) -> str:
        text: str = self._templates.get_template(template).render(**values)
        return text

    def _of_table(
        self,
        facts: TableFacts,
        examination: Examination | None,
        pages: Mapping[str, int],
        size: int,
    ) -> dict[str, Any]:
        layout, snapshots = facts.layout, facts.timeline.snapshots
        counts = {
            "buckets": 0 if layout is None else layout.buckets_count,
            "partitions": 0 if layout is None else layout.partitions_count,
            "snapshots": len(snapshots),
        }
        parts = {n: Sliced.of(count, pages.get(n, 1), n, size=size) for n, count in counts.items()}
        first = {name: (part.page - 1) * size for name, part in parts.items()}
        if layout is not None:
            parts["buckets"] = parts["buckets"].with_rows(layout.buckets(first["buckets"], size))
            parts["partitions"] = parts["partitions"].with_rows(
                layout.partitions(first["partitions"], size)
            )
        newest_first = snapshots[::-1]
        shown = newest_first[first["snapshots"] : first["snapshots"] + size]
        parts["snapshots"] = parts["snapshots"].with_rows(shown)
        return {
            "facts": facts,
            "layout": layout,
            "examination": examination,
            "pending": examination is None,
            "parts": parts,
            "pages": {name: part.page for name, part in parts.items()},
            "chart": timeline_chart(snapshots),
            "kinds": facts.timeline.kinds(),
            "writers": facts.timeline.writers(),
            "cell_most": _cell_most(parts["buckets"].rows),
        }


def _cell_most(buckets: Sequence[Any]) -> int:
    return max((level.bytes for bucket in buckets for level in bucket.levels), default=0)


def asset(name: str) -> bytes:
    """The bytes of the style sheet or the script."""
    return resources.files("tidelake.ui.pages").joinpath("static", name).read_bytes()


def _csp_hash(text: str) -> str:
    """How a policy names an element with this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
