"""The statements of Paimon's pages on Spark, one file a page under ``tests/spark/paimon_docs``.

Their forms are facts of its documentation (of commit 5dacde5); tables and columns have other names.
Statements end with ``;`` at the end of a line. A line ``--! page: name`` names the page,
``--! setup:`` says that the next line is no statement of the page, ``--! refused: words`` that the
next one is refused with these words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(__file__).parent / "spark" / "paimon_docs"

_DIRECTIVE = re.compile(r"--! (\w+): ?(.*)")


@dataclass(frozen=True, slots=True)
class DocStatement:
    """One statement.

    Parameters
    ----------
    place : str
        File and line.
    text : str
        Without the semicolon.
    refused : str, optional
        Words of the error with which it is refused.
    is_setup : bool
        Whether it is ours and no statement of the page.
    """

    place: str
    text: str
    refused: str | None = None
    is_setup: bool = False


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page."""

    name: str
    title: str
    statements: tuple[DocStatement, ...]

    @property
    def own(self) -> list[DocStatement]:
        """The statements of the page itself."""
        return [s for s in self.statements if not s.is_setup]


def pages() -> Iterator[DocPage]:
    """All pages, by name."""
    for path in sorted(PLACE.glob("*.sql")):
        said: dict[str, str] = {}
        title, statements = "", []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            directive = _DIRECTIVE.fullmatch(line)
            if directive is not None and directive[1] == "page":
                title = directive[2]
            elif directive is not None:
                assert directive[1] in {"setup", "refused"}, f"{path.name}:{number}"
                said[directive[1]] = directive[2]
            elif line:
                assert line.endswith(";"), f"{path.name}:{number}: no ';' at the end"
                place = f"{path.name}:{number}"
                statements.append(
                    DocStatement(place, line[:-1], said.get("refused"), "setup" in said)
                )
                said = {}
        yield DocPage(path.stem, title, tuple(statements))
