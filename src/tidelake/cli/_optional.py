"""What needs libraries that a plain installation lacks, loaded when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelake.cli.arguments import SqlArguments
from tidelake.errors import UnsupportedError

if TYPE_CHECKING:
    from tidelake.cli.spark_side import SparkSide
    from tidelake.cli.terminal import Terminal

__all__ = ["spark_side_class", "sql_command", "terminal_class"]


def sql_command() -> Callable[[SqlArguments], int]:
    """What runs ``tidelake sql``.

    Raises
    ------
    UnsupportedError
        sqlglot is not installed.
    """
    try:
        module = importlib.import_module("tidelake.cli.sql_command")
    except ModuleNotFoundError as error:
        raise _missing("tidelake sql", error, "sqlglot", "cli") from error
    run: Callable[[SqlArguments], int] = module.run
    return run


def terminal_class() -> type[Terminal]:
    """The lines of a terminal, with completion and history.

    Raises
    ------
    UnsupportedError
        prompt_toolkit is not installed.
    """
    try:
        module = importlib.import_module("tidelake.cli.terminal")
    except ModuleNotFoundError as error:
        what = "The prompt (-c, -f and pipes do without)"
        raise _missing(what, error, "prompt_toolkit", "cli") from error
    found: type[Terminal] = module.Terminal
    return found


def spark_side_class() -> type[SparkSide]:
    """What runs statements on Spark.

    Raises
    ------
    UnsupportedError
        pyspark is not installed.
    """
    try:
        module = importlib.import_module("tidelake.cli.spark_side")
    except ModuleNotFoundError as error:
        raise _missing("This statement needs Spark, which", error, "pyspark", "spark") from error
    found: type[SparkSide] = module.SparkSide
    return found


def _missing(
    what: str, error: ModuleNotFoundError, library: str, extra: str
) -> UnsupportedError | ModuleNotFoundError:
    """The error for a library that is not installed; other missing modules are faults of ours."""
    name = (error.name or "").partition(".")[0]
    if name == "tidelake" or not name:
        return error
    message = f"{what} needs the library '{name}': pip install 'tidelake[{extra}]'."
    return UnsupportedError(message, kind="library_missing", library=library)
