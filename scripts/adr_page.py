"""The list of decisions, from the pages themselves; a number without a page is named as unused."""

from __future__ import annotations

import re
from pathlib import Path

from prose import wrapped

__all__ = ["adr_page"]

HEAD = """\
# Decisions

<!-- Written by scripts/gen_docs.py from docs/adr: change the pages there. -->

A decision that others will ask about has a page: what was asked, what was decided, what else was
possible. A number is given once and never again.

"""


def adr_page(directory: Path) -> str:
    """Give the page that lists all decisions of a directory."""
    pages = {int(p.name[:4]): p for p in directory.glob("[0-9]*.md")}
    rows = [_row(number, pages.get(number)) for number in range(1, max(pages) + 1)]
    return HEAD + "".join(rows)


def _row(number: int, page: Path | None) -> str:
    if page is None:
        return f"- {number}: not used.\n"
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# \d+\. (.*)$", text, re.MULTILINE)
    status = re.search(r"^Status: (.*?)(?:, [\d-]+)?\.?$", text, re.MULTILINE)
    assert title, f"{page.name} needs a title"
    assert status, f"{page.name} needs a status"
    line = f"[{title[1]}]({page.name}) ({status[1]})"
    return wrapped(line, first=f"- {number}: ", indent="  ") + "\n"
