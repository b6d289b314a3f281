"""What makes a source keep its log: a reader's mark, such as a replication slot."""

from __future__ import annotations

from dataclasses import dataclass

MISSING = "missing"
"""The status of one that is not there."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A mark for which a source keeps its log, and what is wrong with it.

    Parameters
    ----------
    is_ours : bool
        Whether it is that of the job that asks.
    is_read : bool
        Whether a reader is connected.
    held_bytes : int or None
        Bytes of log that are kept for it.
    status : str
        In the source's own word; PostgreSQL's ``wal_status``.
    safe_bytes : int or None
        Bytes of log until it may be lost; None without a limit.
    problem : str
        A clause; empty if it is sound.
    mend : str
        The statement or command that mends it.
    """

    name: str
    is_ours: bool
    is_read: bool
    held_bytes: int | None
    status: str
    safe_bytes: int | None
    problem: str = ""
    mend: str = ""

    def __str__(self) -> str:
        facts = ["this job's" if self.is_ours else "another reader's"]
        if self.status != MISSING:
            facts.append("it is read" if self.is_read else "nobody reads it")
        if self.held_bytes is not None:
            facts.append(f"it holds {self.held_bytes:,} bytes of log")
        if self.status:
            facts.append(f"wal_status {self.status}")
        if self.safe_bytes is not None:
            facts.append(f"safe_wal_size {self.safe_bytes:,} bytes until it may be lost")
        elif self.held_bytes is not None:
            facts.append("no limit to what it may hold")
        problem = f"; {self.problem}. {self.mend}" if self.problem else ""
        return f"slot {self.name}: {', '.join(facts)}{problem}"
