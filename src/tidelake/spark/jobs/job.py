"""One job: a query of Spark's, what state it is in and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from tidelake.errors import TidelakeError
from tidelake.spark.errors.run_errors import stream_failure

__all__ = ["Job", "JobStatus"]

JobStatus: TypeAlias = Literal["RUNNING", "FINISHED", "CANCELED", "FAILED"]
BEHIND = "snapshotsBehind"
"""Metric of a source: snapshots of its table that the job has not read."""
NO_WATERMARK = "1970-01-01T00:00:00.000Z"


@dataclass(eq=False)
class Job:
    """A job; made by INSERT in streaming mode, or by ``tl.write_stream``.

    Parameters
    ----------
    query : StreamingQuery
        Spark's query.
    name : str
        The job's name.
    target : str
        What it writes to: ``"database.table"``; empty if that is not known.
    started : datetime, optional
        When it was started, if it was started here.
    """

    query: StreamingQuery
    name: str
    target: str = ""
    started: datetime | None = None
    _is_stopped: bool = field(default=False, repr=False)

    def __repr__(self) -> str:
        return f"Job('{self.id}', name='{self.name}', status='{self.status}')"

    @property
    def id(self) -> str:
        """The job's id; that of its checkpoint, and so the same after a restart."""
        return str(self.query.id)

    @property
    def status(self) -> JobStatus:
        """In Flink's words: RUNNING, FINISHED, CANCELED (stopped) or FAILED."""
        if self.query.isActive:
            return "RUNNING"
        if self.query.exception() is not None:
            return "FAILED"
        return "CANCELED" if self._is_stopped else "FINISHED"

    @property
    def error(self) -> TidelakeError | None:
        """Why it failed; None if it did not."""
        failure = None if self.query.isActive else self.query.exception()
        return None if failure is None else stream_failure(failure)

    @property
    def progress(self) -> Mapping[str, Any]:
        """Spark's report on the newest batch; empty before the first."""
        return self.query.lastProgress or {}

    @property
    def batch(self) -> int | None:
        """Number of the newest batch, from 0."""
        found = self.progress.get("batchId")
        return None if found is None else int(found)

    @property
    def rows_per_second(self) -> float | None:
        """Rows that the newest batch processed in a second."""
        found = self.progress.get("processedRowsPerSecond")
        return None if found is None else round(float(found), 1)

    @property
    def watermark(self) -> datetime | None:
        """Event time up to which all rows are taken to have come; None without a watermark."""
        found = (self.progress.get("eventTime") or {}).get("watermark")
        if found is None or found == NO_WATERMARK:
            return None
        return datetime.fromisoformat(found).astimezone(UTC)

    @property
    def snapshots_behind(self) -> int | None:
        """Snapshots of its tables that it has not read, of all sources together."""
        metrics = [source.get("metrics") or {} for source in self.progress.get("sources") or ()]
        found = [int(one[BEHIND]) for one in metrics if BEHIND in one]
        return sum(found) if found else None

    def stop(self) -> None:
        """Stop it; its checkpoint stays, so that it can be started again. Does nothing twice."""
        if self.query.isActive:
            self._is_stopped = True
            self.query.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait; for ever by default.

        Returns
        -------
        bool
            True if it has ended.

        Raises
        ------
        TidelakeError
            It failed.
        """
        try:
            ended = self.query.awaitTermination(timeout)
        except PySparkException as error:
            raise stream_failure(error) from error
        return ended is not False
