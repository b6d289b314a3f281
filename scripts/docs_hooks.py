"""A hook of mkdocs: docstrings' ``:meth:`~a.b.name` `` become plain code on the reference page."""

from __future__ import annotations

import re

ROLE = re.compile(r":(?:class|data|exc|func|meth|mod):<code>(~?)([^<]+)</code>")


def on_page_content(html: str, **_: object) -> str:
    """Give a page without the marks of Sphinx; ``~`` leaves the last part of a name."""
    return ROLE.sub(lambda m: f"<code>{m[2].rpartition('.')[2] if m[1] else m[2]}</code>", html)
