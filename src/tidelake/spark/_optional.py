"""The parts that need sqlglot, loaded at first use: executors never load them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.errors import UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.streams.jobs import JobRegistry

if TYPE_CHECKING:
    from tidelake.spark.sql.statements import Statements


def statements_of(
    spark: SparkSession,
    catalog: Catalog,
    *,
    catalog_name: str,
    runner_of: Callable[[Catalog], ProcedureRunner],
    jobs: JobRegistry,
) -> Statements:
    """The runner of a session's statements.

    Raises
    ------
    UnsupportedError
        sqlglot is not installed; the message says how to install it.
    """
    try:
        module = importlib.import_module("tidelake.spark.sql.statements")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sqlglot":
            raise
        message = "tl.sql needs the library 'sqlglot': pip install 'tidelake[sql]'."
        raise UnsupportedError(message, kind="library_missing", library="sqlglot") from error
    made: Statements = module.Statements.on(
        spark, catalog, catalog_name=catalog_name, runner_of=runner_of, jobs=jobs
    )
    return made
