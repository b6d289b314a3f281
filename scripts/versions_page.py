"""The table of Spark's versions in the page of compatibility, of what tests recorded on each.

`make sparks` runs ``tests/spark/test_every_version.py`` on each version, and keeps what it saw. A
test shows what every version does, or a capability of :mod:`tidelake.spark.versions`: there, or
what takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelake.spark.versions import CAPABILITIES, MINORS

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "spark" / "every_version.json"
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- Written by scripts/versions_page.py from tests. -->\n", "<!-- end -->\n"
YES = "yes"


def recorded() -> Mapping[str, Mapping[str, Any]]:
    """What was seen on each minor version."""
    found: Mapping[str, Mapping[str, Any]] = json.loads(RECORD.read_text())
    return found


def versions_table(record: Mapping[str, Mapping[str, Any]]) -> str:
    """The table: what all do first, then what not every version can.

    Raises
    ------
    AssertionError
        A version or a capability was not tried.
    """
    assert tuple(record) == MINORS, f"tried were {', '.join(record)}: run 'make sparks'"
    head = ["", *(f"Spark {found['pyspark']}" for found in record.values())]
    lines = [_row(head), _row(["---"] * len(head))]
    cells = [
        {test["shows"]: _cell(test) for test in found["tests"].values()}
        for found in record.values()
    ]
    assert all(one.keys() == cells[0].keys() for one in cells), "tests differ: run 'make sparks'"
    capabilities = [one.name for one in CAPABILITIES]
    common = [shown for shown in cells[0] if shown not in capabilities]
    lines += [_row([shown, *(one[shown] for one in cells)]) for shown in (*common, *capabilities)]
    return "\n".join(lines) + "\n"


def _cell(test: Mapping[str, Any]) -> str:
    if test.get("has", True):
        return YES
    (capability,) = [one for one in CAPABILITIES if one.name == test["shows"]]
    return capability.before


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def compatibility_page() -> str:
    """The whole page, with the table anew."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{versions_table(recorded())}\n{END}{rest.split(END)[1]}"
