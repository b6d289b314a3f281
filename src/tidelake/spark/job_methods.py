"""Methods of a Lake that run maintenance jobs."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from tidelake.engine.jobs import (
    CloneResult,
    MaintenanceRound,
    MigrateResult,
    OrphansOfTables,
    RewrittenIndexes,
    Runner,
    TablePlan,
)
from tidelake.engine.tables import Catalog, Table, Time
from tidelake.errors import InvalidInputError
from tidelake.spark.sessions.time_zone import session_ms
from tidelake.spark.streams.jobs import Job, JobRegistry
from tidelake.spark.write.maintenance import ROUND_S, spark_workers
from tidelake.spark.write.orphan_listing import SparkLister


class JobMethods(abc.ABC):
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog
    _registry: JobRegistry | None = None

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that reads and writes run on."""

    def jobs(self) -> list[Job]:
        """List the jobs: queries over streams that run in the session, and the latest that ended.

        Returns
        -------
        list of Job
            In the order of their start: those of ``INSERT`` in streaming mode, of
            ``tl.write_stream``, and all others of the session. A query that another call started is
            listed after its end only if an earlier call of this method saw it running.
        """
        return self._job_registry.all()

    def job(self, id: str) -> Job:
        """Return a job.

        Parameters
        ----------
        id : str
            Its id, or its name; of several with one name the newest counts.

        Raises
        ------
        NotFoundError
            There is none; the message offers near names.
        """
        return self._job_registry.job(id)

    def remove_orphan_files(
        self,
        name: str,
        *,
        older_than: Time | None = None,
        dry_run: bool = False,
        parallelism: int | None = None,
    ) -> OrphansOfTables:
        """Remove orphan files; executors list the directories where there are many.

        Parameters
        ----------
        name : str
            ``"database.table"``, ``"database.*"`` or ``"*.*"``.
        older_than, dry_run
            As of :meth:`tidelake.catalog.Catalog.remove_orphan_files`. A time without a zone is in
            the session's.
        parallelism : int, optional
            The most tasks of Spark's; by default two for each core of the session.

        Returns
        -------
        OrphansOfTables
            What was removed, put into quarantine, and could not be searched.

        Raises
        ------
        InvalidInputError
            An argument is wrong.
        """
        if parallelism is not None and parallelism < 1:
            message = f"parallelism must be a number from 1 on, not {parallelism!r}."
            raise InvalidInputError(message, kind="bad_argument", table=name)
        return self.catalog.remove_orphan_files(
            name,
            older_than=None if older_than is None else session_ms(self.spark, older_than),
            dry_run=dry_run,
            lister=SparkLister(self.spark, parallelism),
        )

    def maintain(
        self,
        *tables: str,
        interval: float | timedelta = ROUND_S,
        rounds: int | None = None,
        seconds: float | None = None,
        dry_run: bool = False,
        options: Mapping[str, object] | None = None,
        watch: Callable[[MaintenanceRound], object] | None = None,
        tasks: int | None = None,
    ) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Keep tables healthy, with compactions on the executors, until it is interrupted.

        Parameters
        ----------
        *tables : str
            ``"database.table"``, ``"database.*"`` or ``"*.*"``, which is the default.
        interval, rounds, seconds, dry_run, options, watch
            As of :meth:`tidelake.catalog.Catalog.maintain`.
        tasks : int, optional
            The most tasks of Spark's for a compaction; by default as many as a scan of so many
            bytes has.

        Returns
        -------
        MaintenanceRound or tuple of TablePlan
            The last round; of a dry run, what is due in each table.

        Raises
        ------
        NotFoundError
            There is no such table.
        InvalidInputError
            An argument is wrong.
        """
        return self.catalog.maintain(
            *tables,
            interval=interval,
            rounds=rounds,
            seconds=seconds,
            dry_run=dry_run,
            options=options,
            watch=watch,
            workers=spark_workers(self.spark, tasks),
        )

    def clone_table(
        self,
        source: str | Table,
        target: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        where: object = None,
        history: bool = False,
        dry_run: bool = False,
        tasks: int | None = None,
    ) -> CloneResult:
        """Copy a table; executors copy the files where they are many bytes.

        Parameters
        ----------
        source, target, snapshot, tag, where, history, dry_run
            As of :meth:`tidelake.catalog.Catalog.clone_table`.
        tasks : int, optional
            The most tasks of Spark's; by default as many as a scan of so many bytes has.

        Returns
        -------
        CloneResult
            How many files the copy has, and what of the source it does not have.

        Raises
        ------
        AlreadyExistsError
            The target exists.
        NotFoundError
            There is no such table, snapshot or tag.
        """
        return self.catalog.clone_table(
            source,
            target,
            snapshot=snapshot,
            tag=tag,
            where=where,
            history=history,
            dry_run=dry_run,
            runner=self.plan_runner(tasks),
        )

    def migrate_table(  # noqa: PLR0913 - as of the catalog
        self,
        kind: str,
        source: str | Path,
        target: str,
        *,
        options: Mapping[str, object] | None = None,
        partition_types: Mapping[str, str] | None = None,
        storage: Mapping[str, object] | None = None,
        delete_origin: bool = False,
        dry_run: bool = False,
        tasks: int | None = None,
    ) -> MigrateResult:
        """Make a table of another format a new table; executors copy files that cannot be linked.

        Parameters
        ----------
        kind, source, target, options, partition_types, storage, delete_origin, dry_run
            As of :meth:`tidelake.catalog.Catalog.migrate_table`.
        tasks : int, optional
            The most tasks of Spark's; by default as many as a scan of so many bytes has.

        Returns
        -------
        MigrateResult
            Rows, files and partition columns of the table, and what of the source it lacks.

        Raises
        ------
        AlreadyExistsError
            The target exists.
        NotFoundError
            The source has no file.
        InvalidInputError, UnsupportedError
            A file or the source has what a table cannot take as it is; nothing was written.
        """
        return self.catalog.migrate_table(
            kind,
            source,
            target,
            options=options,
            partition_types=partition_types,
            storage=storage,
            delete_origin=delete_origin,
            dry_run=dry_run,
            runner=self.plan_runner(tasks),
        )

    def rewrite_file_index(
        self, name: str, *, where: object = None, dry_run: bool = False, tasks: int | None = None
    ) -> RewrittenIndexes:
        """Give data files the file indexes of the table's options; executors read many bytes.

        Parameters
        ----------
        name : str
            ``"database.table"``.
        where, dry_run
            As of :meth:`tidelake.table.maintenance.Maintenance.rewrite_file_index`.
        tasks : int, optional
            The most tasks of Spark's; by default as many as a scan of so many bytes has.

        Returns
        -------
        RewrittenIndexes
            ``files_count``, ``partitions_count`` and the ``snapshot_id`` of the commit.

        Raises
        ------
        ConflictError
            Others compacted all of the buckets meanwhile; nothing was changed.
        InvalidInputError
            The condition names other columns.
        """
        table = self._data_table(name, use="indexes are made for")
        runner = self.plan_runner(tasks)
        return table.maintenance.rewrite_file_index(where=where, dry_run=dry_run, runner=runner)

    def plan_runner(self, tasks: int | None = None) -> Runner:
        """Return what runs the tasks of a job: executors if they are many bytes, else the driver.

        Parameters
        ----------
        tasks : int, optional
            The most tasks of Spark's; by default as many as a scan of so many bytes has.
        """
        return spark_workers(self.spark, tasks).runner

    @abc.abstractmethod
    def _data_table(self, name: str, *, use: str = ...) -> Table:
        """Open a table that is no system table."""

    @property
    def _job_registry(self) -> JobRegistry:
        if self._registry is None:
            self._registry = JobRegistry(self.spark, self.catalog.env.clock)
        return self._registry
