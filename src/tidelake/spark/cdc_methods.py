"""Change data capture into the tables of a Lake."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.tables import Catalog
from tidelake.spark._optional import epoch_frames_of, sync_of, sync_of_file
from tidelake.spark.streams.jobs import JobRegistry

if TYPE_CHECKING:
    from tidelake.spark.cdc.epoch_frames import EpochFrames
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

    @abc.abstractmethod
    def table(self, name: str, *, snapshot_id: int | None = None) -> DataFrame:
        """Read a table."""

    def cdc(self, command: str, **arguments: object) -> SparkSync:
        """Make a job that keeps tables equal to those of a database, as a query of Spark.

        Nothing is read or written before one of its methods is called.

        Parameters
        ----------
        command : str
            ``postgres_sync_table``, ``postgres_sync_database``, ``mysql_sync_table``,
            ``mysql_sync_database``, ``kafka_sync_table`` or ``kafka_sync_database``.
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
        return sync_of(self.spark, self.catalog, command, arguments, jobs=self._job_registry)

    def at_epoch(self, job: str, epoch: int | None = None) -> EpochFrames:
        """Read all tables of a job of change data capture as one epoch left them.

        A transaction of the source over several tables is seen whole. The job may run, here or
        elsewhere; its journal and the tables are read, and no connection is made to the source.

        Parameters
        ----------
        job : str
            Its name: by default that of the database it writes to.
        epoch : int, optional
            By default the newest that ends between two transactions of the source. Others are in
            ``<table>$cdc_epochs``.

        Returns
        -------
        EpochFrames
            A mapping from ``database.table`` to a DataFrame, with ``epoch``, ``position``,
            ``is_whole``, ``note``, ``snapshots`` and ``behind``.

        Raises
        ------
        NotFoundError
            There is no such job or epoch, or a snapshot of it has expired.
        InvalidInputError
            A table was rolled back to before the epoch.
        """
        return epoch_frames_of(
            self.catalog, job, epoch, lambda name, at: self.table(name, snapshot_id=at)
        )

    def cdc_from_file(self, path: str | Path) -> SparkSync:
        """Make the job that a TOML file describes, as a query of Spark.

        Parameters
        ----------
        path : str or Path
            On the driver's machine. The same file serves ``tidelake cdc run``.

        Returns
        -------
        SparkSync
            As of :meth:`cdc`.

        Raises
        ------
        InvalidInputError
            There is no such file, it is no TOML, a key is unknown or wrong, or it names another
            warehouse.
        UnsupportedError
            The session is one of Spark Connect.
        """
        return sync_of_file(self.spark, self.catalog, path, jobs=self._job_registry)
