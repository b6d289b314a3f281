"""How far a job is behind its source: in time, bytes and messages."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.cdc.source.lag import SourceLag

NO_POSITION = "the job has no position yet"
NO_TIME = "the journal notes no time at this position; it does with the next epoch"


@dataclass(frozen=True, slots=True)
class JobLag:
    """How far a job is behind.

    Parameters
    ----------
    seconds : float or None
        How much newer the source is than the tables: from the time at the job's position to the
        source's newest commit. 0 if all is applied, None if it is not known.
    is_bound : bool
        Whether it may be less: the source does not say when it committed last, so that its newest
        commit is taken as made now.
    note : str
        Why it is a bound, or not known; empty otherwise.
    """

    seconds: float | None
    bytes_count: int | None = None
    messages_count: int | None = None
    is_bound: bool = False
    note: str = ""

    def __str__(self) -> str:
        parts = []
        if self.seconds is not None:
            parts.append(f"{'at most ' if self.is_bound else ''}{self.seconds:,.1f} s")
        if self.bytes_count is not None:
            parts.append(f"{self.bytes_count:,} bytes of log")
        if self.messages_count is not None:
            parts.append(f"{self.messages_count:,} messages")
        note = f" ({self.note})" if self.note else ""
        return f"{', '.join(parts) or 'not known'}{note}"


def job_lag(found: SourceLag, *, is_behind: bool, start_ms: int | None, now_ms: int) -> JobLag:
    """Bring what the source says together with what the journal notes.

    Parameters
    ----------
    start_ms : int or None
        The source's time at the job's position.

    Examples
    --------
    >>> str(job_lag(SourceLag(512, newest_ms=9_000), is_behind=True, start_ms=6_500, now_ms=9_900))
    '2.5 s, 512 bytes of log'
    """
    sizes = found.bytes_count, found.messages_count
    if not is_behind:
        return JobLag(0.0, *sizes)
    if start_ms is None:
        return JobLag(None, *sizes, note=NO_TIME)
    if found.newest_ms is None:
        return JobLag(_seconds(start_ms, now_ms), *sizes, is_bound=True, note=found.note)
    return JobLag(_seconds(start_ms, found.newest_ms), *sizes)


def _seconds(start_ms: int, end_ms: int) -> float:
    return max(0, end_ms - start_ms) / 1_000
