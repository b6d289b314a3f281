"""The page that says which of Paimon's statements run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from paimon_statements import pages  # noqa: E402  (the path comes first)

HEAD = """\
# SQL beside Java Paimon

<!-- Written by scripts/sql_page.py from tests/spark/paimon_docs. -->

What of Paimon's SQL on Spark runs by [`tl.sql`](sql.md), as tests check.

## The statements of Paimon's pages

Every statement of Paimon's own pages on Spark (2.1) either runs, or is refused by an error of ours
that says why: never by an error of a parser or a stack trace of Java.

"""


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"


def sql_page() -> str:
    """The page as text."""
    lines = [_row(("Page", "Run", "Refused")), _row(("---", "---:", "---:"))]
    run = refused = 0
    for page in pages():
        own = page.own
        refused_here = sum(s.refused is not None for s in own)
        refused += refused_here
        run += len(own) - refused_here
        lines.append(_row((page.title, len(own) - refused_here, refused_here)))
    lines.append(_row(("**All**", f"**{run}**", f"**{refused}**")))
    return "".join([HEAD, *(f"{line}\n" for line in lines)])
