"""Methods of a Lake that run maintenance jobs."""

from __future__ import annotations

import abc

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.spark.streams.jobs import Job, JobRegistry


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

    @property
    def _job_registry(self) -> JobRegistry:
        if self._registry is None:
            self._registry = JobRegistry(self.spark, self.catalog.env.clock)
        return self._registry
