"""Parts that the driver alone needs, loaded at first use: executors never load them.

Statements need sqlglot. Jobs of change data capture need a sixth of the time that this package
takes to load, which each Python process of an executor would spend too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.tables import Catalog
from tidelake.errors import UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.streams.jobs import JobRegistry

if TYPE_CHECKING:
    from tidelake.spark.cdc.epoch_frames import EpochFrames
    from tidelake.spark.cdc.spark_sync import SparkSync
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


def sync_of(
    spark: SparkSession,
    catalog: Catalog,
    command: str,
    arguments: dict[str, object],
    *,
    jobs: JobRegistry,
) -> SparkSync:
    """Make a job of change data capture; see :meth:`tidelake.spark.Lake.cdc`."""
    module = importlib.import_module("tidelake.spark.cdc.spark_sync")
    made: SparkSync = module.spark_sync(spark, catalog, command, arguments, jobs=jobs)
    return made


def sync_of_file(
    spark: SparkSession, catalog: Catalog, path: str | Path, *, jobs: JobRegistry
) -> SparkSync:
    """Make a job of a file; see :meth:`tidelake.spark.Lake.cdc_from_file`."""
    module = importlib.import_module("tidelake.spark.cdc.spark_sync")
    made: SparkSync = module.spark_sync_of_file(spark, catalog, path, jobs=jobs)
    return made


def epoch_frames_of(
    catalog: Catalog, job: str, epoch: int | None, read: Callable[[str, int], DataFrame]
) -> EpochFrames:
    """Find an epoch of a job; see :meth:`tidelake.spark.Lake.at_epoch`."""
    module = importlib.import_module("tidelake.spark.cdc.epoch_frames")
    made: EpochFrames = module.epoch_frames(catalog, job, epoch, read)
    return made
