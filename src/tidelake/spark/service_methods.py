"""The query service of a warehouse on a Spark session."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.service._optional import load
from tidelake.service.serving import options_of

if TYPE_CHECKING:
    from tidelake.service.local.query_service import QueryService


class ServiceMethods(abc.ABC):
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that executors run on."""

    def serve(
        self,
        tables: Sequence[str],
        *,
        parallelism: int = 2,
        directory: str | Path | None = None,
        limits: Mapping[str, float] | None = None,
        **connection: Any,
    ) -> QueryService:
        """Answer point reads of tables from the session's executors, until it is stopped.

        Parameters
        ----------
        tables : sequence of str
            ``"database.table"``; more can be added while it runs.
        parallelism : int
            Number of executors. Each holds a slot of the session for as long as the service runs.
        directory, limits
            As of :func:`tidelake.serve`.
        **connection
            As of :func:`tidelake.serve`; the driver and each executor read the files. On a cluster
            ``bind`` is ``"0.0.0.0"``, which takes a certificate and tokens.

        Returns
        -------
        QueryService
            As of :func:`tidelake.serve`: a context manager with ``address``, ``status()``,
            ``add(table)``, ``remove(table)``, ``wait_ready()`` and ``stop()``.

        Raises
        ------
        InvalidInputError
            The service would leave no slot for other jobs; the message says how many there are.
            Or an argument is wrong.
        UnsupportedError
            The session is one of Spark Connect, or the extra ``service`` is not installed.
        NotFoundError, ConflictError
            A table does not exist, or another service answers for it.

        Notes
        -----
        The address server runs in this process, and each executor in a task of its own, which is
        started again when it fails. With the session, or with this process, the service ends.
        """
        module = load("tidelake.spark.service.start", what="tl.serve")
        options = options_of(
            connection,
            limits,
            parallelism=parallelism,
            directory=directory,
            memory=self.catalog.env.memory.total_bytes,
        )
        service: QueryService = module.serve_on_spark(self.spark, self.catalog, tables, options)
        return service
