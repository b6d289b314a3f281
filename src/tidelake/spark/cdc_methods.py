"""Change data capture into the tables of a Lake."""

from __future__ import annotations

import abc
import importlib
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.spark.streams.jobs import JobRegistry

if TYPE_CHECKING:
    from tidelake.spark.cdc.spark_sync import SparkSync


class CdcMethods(abc.ABC):
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that queries run on."""

    @property
    @abc.abstractmethod
    def _job_registry(self) -> JobRegistry:
        """The jobs of the session."""

    def cdc(self, command: str, **arguments: object) -> SparkSync:
        """Make a job that keeps tables equal to those of a database, as a query of Spark.

        Nothing is read or written before one of its methods is called.

        Parameters
        ----------
        command : str
            ``postgres_sync_table``, ``postgres_sync_database``, ``mysql_sync_table`` or
            ``mysql_sync_database``.
        **arguments : object
            As of :func:`tidelake.cdc.sync`, without ``warehouse`` and ``catalog_conf``: the tables
            are those of this warehouse.

        Returns
        -------
        SparkSync
            With ``plan()``, ``run()``, ``start()``, ``status()``, ``resnapshot(table)`` and
            ``drop()``. A job that was begun without Spark goes on here, and the reverse: one at a
            time.

        Raises
        ------
        InvalidInputError
            An argument is unknown, missing or wrong; the message has near names.
        UnsupportedError
            The session is one of Spark Connect.
        """
        module = importlib.import_module("tidelake.spark.cdc.spark_sync")
        made: SparkSync = module.spark_sync(
            self.spark, self.catalog, command, arguments, jobs=self._job_registry
        )
        return made
