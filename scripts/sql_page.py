"""The page that says which of Paimon's statements run, and where answers differ from Java's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from interop.sql_differences import REASONS  # noqa: E402  (the path comes first)
from interop.sql_scripts import scripts  # noqa: E402
from paimon_statements import pages  # noqa: E402
from prose import wrapped  # noqa: E402

HEAD = """\
# SQL beside Java Paimon

<!-- Written by scripts/sql_page.py from tests/interop/sql and tests/spark/paimon_docs. -->

What of Paimon's SQL on Spark runs by [`tl.sql`](sql.md), and where it does something else. Both are
checked by tests.

## The statements of Paimon's pages

Every statement of Paimon's own pages on Spark (2.1) either runs, or is refused by an error of ours
that says why: never by an error of a parser or a stack trace of Java.

"""

COMPARED = """
## The same statements on Java Paimon

{scripts} scripts with {statements} statements run on Java Paimon 2.1 on Spark and by `tl.sql`,
each in an empty database; one of them on tables that Java wrote. Compared of every statement:
whether it is taken or refused, the columns and rows of its answer, and in the tables' files the new
snapshots (kinds, schemas, counts of rows) and schemas (fields with ids and types, keys, options,
comment). In the end Java reads all our tables and we read all of Java's.

| Script | Statements | About |
| --- | --- | --- |
"""

DIFFERENCES = """
## Where it differs

What differs, and in how many statements of the scripts; a test looks whether it still does. "Java"
is Java Paimon 2.1 on Spark 4.1, whose catalog also keeps the name of its user, as option `owner`.

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
    found = list(scripts())
    compared = COMPARED.format(
        scripts=len(found), statements=f"{sum(len(s.steps) for s in found):,}"
    )
    table = [_row((f"`{s.name}`", len(s.steps), s.about)) for s in found]
    named = [step.differs for script in found for step in script.steps if step.differs]
    differences = [
        wrapped(f"- `{name}` ({named.count(name)}): {reason}", indent="  ")
        for name, reason in REASONS.items()
    ]
    parts = [HEAD, *(f"{line}\n" for line in lines), compared, *(f"{line}\n" for line in table)]
    parts += [DIFFERENCES, *(f"{line}\n" for line in differences)]
    return "".join(parts)
