"""One job: a Spark query with its state and progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from tidelake.errors import TidelakeError
from tidelake.spark.errors.run_errors import stream_failure

JobStatus: TypeAlias = Literal["RUNNING", "FINISHED", "CANCELED", "FAILED"]
BEHIND = "snapshotsBehind"
"""Metric of a source: snapshots of its table that the job has not read."""
ROWS = "rowsChanged"
"""Metric of a source whose batches bring no rows through Spark: rows that the newest one wrote."""
NO_WATERMARK = "1970-01-01T00:00:00.000Z"


@dataclass(eq=False)
class Job:
    """A job; started by INSERT in streaming mode, or by ``tl.write_stream``.

    Parameters
    ----------
    target : str
        The target: ``"database.table"``; empty if unknown.
    started : datetime, optional
        Time of its start, if this session started it.
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
        """The job's id, from its checkpoint; a restart keeps it."""
        return str(self.query.id)

    @property
    def status(self) -> JobStatus:
        """The state in Flink's terms: RUNNING, FINISHED, CANCELED (stopped) or FAILED."""
        if self.query.isActive:
            return "RUNNING"
        if self.query.exception() is not None:
            return "FAILED"
        return "CANCELED" if self._is_stopped else "FINISHED"

    @property
    def error(self) -> TidelakeError | None:
        """The error; None if it did not fail."""
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
        changed = self._metrics(ROWS)
        took_ms = (self.progress.get("durationMs") or {}).get("triggerExecution")
        if changed and took_ms:
            return round(1000 * sum(changed) / float(took_ms), 1)
        found = self.progress.get("processedRowsPerSecond")
        return None if found is None else round(float(found), 1)

    @property
    def watermark(self) -> datetime | None:
        """Event time up to which all rows count as read; None without a watermark."""
        found = (self.progress.get("eventTime") or {}).get("watermark")
        if found is None or found == NO_WATERMARK:
            return None
        return datetime.fromisoformat(found).astimezone(UTC)

    @property
    def snapshots_behind(self) -> int | None:
        """Number of unread snapshots of its tables, over all sources."""
        found = self._metrics(BEHIND)
        return sum(found) if found else None

    def _metrics(self, name: str) -> list[int]:
        """Numbers of one name of all sources that give it."""
        metrics = [source.get("metrics") or {} for source in self.progress.get("sources") or ()]
        return [int(one[name]) for one in metrics if name in one]

    def stop(self) -> None:
        """Stop it; its checkpoint stays for a restart. Does nothing if it has ended."""
        if self.query.isActive:
            self._is_stopped = True
            self.query.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends.

        Parameters
        ----------
        timeout : float, optional
            The most seconds to wait; no limit by default.

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
