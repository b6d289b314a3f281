"""What a maintenance job would do with a table, and what it did: values that print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tidelake.table.upkeep.policy import Task

Figures = Mapping[str, int]


def _none() -> Figures:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One piece of work that is due.

    Parameters
    ----------
    figures : mapping of str to int
        How much of it there is, by what is counted: ``buckets``, ``bytes``, ``snapshots``.
    """

    task: Task
    figures: Figures = field(default_factory=_none)

    def __str__(self) -> str:
        return f"{self.task}{_listed(self.figures)}"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What is due in a table; nothing is changed by it.

    Parameters
    ----------
    error : Exception, optional
        Why that is not known.
    """

    table: str
    tasks: tuple[TaskPlan, ...] = ()
    error: Exception | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.table} failed: {self.error}"
        return f"{self.table}: {'; '.join(map(str, self.tasks)) or 'nothing is due'}"


@dataclass(frozen=True, slots=True)
class TaskDone:
    """One piece of work that was done.

    Parameters
    ----------
    figures : mapping of str to int
        What it did, by what is counted: ``buckets``, ``files``, ``bytes``, ``snapshots``; as
        ``gave_way``, compactions that were dropped since another commit came first.
    error : Exception, optional
        Why it failed. The table is as it was, or part of the work is done.
    """

    task: Task
    figures: Figures = field(default_factory=_none)
    error: Exception | None = None

    def __str__(self) -> str:
        failed = "" if self.error is None else f" failed: {self.error}"
        return f"{self.task}{_listed(self.figures)}{failed}"


@dataclass(frozen=True, slots=True)
class TableDone:
    """What a round did with a table.

    Parameters
    ----------
    tasks : tuple of TaskDone
        Without those that found nothing to do.
    is_taken : bool
        Whether another job was at work on the table, so that nothing was done.
    """

    table: str
    tasks: tuple[TaskDone, ...] = field(default=())
    is_taken: bool = False

    @property
    def errors(self) -> tuple[Exception, ...]:
        """Why tasks failed."""
        return tuple(done.error for done in self.tasks if done.error is not None)

    def __str__(self) -> str:
        if self.is_taken:
            return f"{self.table}: another job is at work on it"
        return f"{self.table}: {'; '.join(map(str, self.tasks)) or 'nothing was due'}"


def _listed(figures: Figures) -> str:
    counted = [f"{count:,} {name.replace('_', ' ')}" for name, count in figures.items() if count]
    return f" ({', '.join(counted)})" if counted else ""
