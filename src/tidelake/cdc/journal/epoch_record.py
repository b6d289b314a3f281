"""The epochs of which a journal proves that they are complete, and what they left behind.

An entry is put when the epochs before it are done, with two exceptions:

1. A copy that a crash or a change of schema cut off is followed by another copy. One that is done
   is followed by an epoch without changes at once.
2. A job that lost its position in the source gives its epoch up and copies all tables: an entry
   without a start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One complete epoch.

    Parameters
    ----------
    end : str
        The position of the source that the targets show after it.
    state : JobState
        After it.
    """

    epoch: int
    kind: EntryKind
    start: str
    end: str
    begun_ms: int
    state: JobState = field(repr=False)


def completed(begun: Sequence[tuple[JournalEntry, JobState]]) -> list[EpochRecord]:
    """Give the complete epochs.

    Parameters
    ----------
    begun : sequence of tuple
        Entries that follow each other, each with the state that its epoch began with.
    """
    records = [
        _record(entry, following.start, state)
        for (entry, _), (following, state) in pairwise(begun)
        if _proves(following, entry)
    ]
    if begun:
        entry, state = begun[-1]
        if entry.kind is EntryKind.CHANGES and entry.start == entry.end:
            records.append(_record(entry, entry.end, state))
    return records


def _proves(following: JournalEntry, entry: JournalEntry) -> bool:
    """Whether an entry proves that the epoch before it is complete."""
    if entry.kind is EntryKind.COPY:
        return following.kind is EntryKind.CHANGES and following.start == following.end
    return entry.start == entry.end or bool(following.start)


def _record(entry: JournalEntry, end: str, state: JobState) -> EpochRecord:
    return EpochRecord(entry.epoch, entry.kind, entry.start, end, entry.begun_ms, state)
