"""The demo in SQL, small: real flights, every result beside the raw data. Wherever it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidelake.cli.main import main

__all__ = ["CHANGED", "play"]

CHANGED = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
"""Settings of the session that the script changes."""
DAYS = 2
_FLIGHTS = Path(__file__).parents[1] / "examples" / "flights"
_EQUAL = (
    "flights_checked", "board_replayed", "delays_replayed", "late_before_checked",
    "late_after_checked", "board_checked", "delays_checked",
)  # fmt: skip


def play(
    where: Sequence[str],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    """Run the script; how many flights there are, and what was shown.

    Parameters
    ----------
    where : sequence of str
        Arguments of ``tidelake sql`` that name the warehouse.
    directory : Path
        For the raw data.
    """
    monkeypatch.syspath_prepend(str(_FLIGHTS))
    source = importlib.import_module("source")

    try:
        flights = source.write(directory, days=DAYS)
    finally:
        sys.modules.pop("source", None)
        sys.modules.pop("data", None)
    raw = f"CREATE TEMPORARY VIEW raw AS SELECT * FROM parquet.`file:{directory}/flights.parquet`"
    argv = ["sql", *where, "--format", "csv", "-c", raw, "-f", str(_FLIGHTS / "flights.sql")]
    code = main(argv)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    lines = shown.out.splitlines()
    for check in _EQUAL:
        assert lines[lines.index(check) + 1] == "equal"
    assert lines[lines.index("changes_told") + 1] == "none"
    return flights, shown.out + shown.err
