"""The demo in SQL, small: real flights, every result beside the raw data. Wherever it runs."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tidelake.cli.main import main

__all__ = ["CHANGED", "by_spark_sql", "by_tidelake_sql", "example", "raw"]

CHANGED = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
"""Settings of the session that the script changes."""
DAYS = 2
_FLIGHTS = Path(__file__).parents[1] / "examples" / "flights"
_EQUAL = (
    "flights_checked", "board_replayed", "delays_replayed", "late_before_checked",
    "late_after_checked", "board_checked", "delays_checked",
)  # fmt: skip
_CHECKS = {**dict.fromkeys(_EQUAL, "equal"), "changes_told": "none"}
"""The column of each check, and what it says."""


@contextlib.contextmanager
def example(name: str) -> Iterator[ModuleType]:
    """A module of the demo."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(_FLIGHTS))
        try:
            yield importlib.import_module(name)
        finally:
            sys.modules.pop(name, None)
            sys.modules.pop("data", None)


def raw(directory: Path) -> int:
    """Write the raw data; how many flights there are."""
    with example("source") as source:
        return source.write(directory, days=DAYS)


def by_tidelake_sql(
    where: Sequence[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run the script by ``tidelake sql``; what was shown.

    Parameters
    ----------
    where : sequence of str
        Arguments that name the warehouse.
    directory : Path
        Of the raw data.
    """
    view = f"CREATE TEMPORARY VIEW raw AS SELECT * FROM parquet.`file:{directory}/flights.parquet`"
    argv = ["sql", *where, "--format", "csv", "-c", view, "-f", str(_FLIGHTS / "flights.sql")]
    code = main(argv)
    shown = capsys.readouterr()
    assert code == 0, shown.err
    lines = shown.out.splitlines()
    for check, answer in _CHECKS.items():
        assert lines[lines.index(check) + 1] == answer
    return shown.out + shown.err


def by_spark_sql(spark: SparkSession, directory: Path) -> None:
    """Run the script by plain ``spark.sql`` of a session that has the warehouse as a catalog."""
    said = {}
    with example("plain_sql") as program:
        for _, answer in program.answers(spark, directory):
            if answer.columns and answer.columns[0] in _CHECKS:
                said[answer.columns[0]] = answer.collect()[0][0]
    assert said == _CHECKS
