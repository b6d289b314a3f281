"""One entry of a journal: an epoch, and what the epochs before it made of the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidelake.errors import CorruptError

VERSION = 1


class EntryKind(StrEnum):
    """What an epoch does."""

    COPY = "copy"
    """Copies tables; `end` is not known yet, so that it never continues: it begins again."""
    CHANGES = "changes"
    """Applies the changes between `start` and `end`."""
    REPLAY = "replay"
    """Applies rows of the quarantine; `start` and `end` are the position that the job has. It never
    continues: rows that it did not come to are tried again when they are asked for."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One epoch. It is put before the epoch's first commit, and proves that all before it are done.

    Parameters
    ----------
    start, end : str
        Positions of the source. Of a copy both are the position that the job had.
    run : str
        The run of the job that began it.
    state : mapping
        What :meth:`~tidelake.cdc.journal.job_state.JobState.changes_from` gives of the epochs
        before, since the entry before.
    is_full : bool
        Whether `state` is the whole state, from nothing.
    start_ms : int or None
        The source's time at `start`: the tables show what it had committed until then. None if it
        is not known, as in entries of older versions.
    """

    epoch: int
    kind: EntryKind
    start: str
    end: str
    run: str
    begun_ms: int
    state: Mapping[str, Any] = field(default_factory=dict)
    is_full: bool = False
    start_ms: int | None = None

    def to_bytes(self) -> bytes:
        """Write it. On disk: never change it within a version."""
        document = {
            "v": VERSION,
            "epoch": self.epoch,
            "kind": str(self.kind),
            "start": self.start,
            "end": self.end,
            "run": self.run,
            "begun": self.begun_ms,
            "full": self.is_full,
            "state": self.state,
            "at": self.start_ms,
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> JournalEntry:
        """Read it.

        Raises
        ------
        CorruptError
            The file is damaged, or of a later version.
        """
        try:
            found = json.loads(data)
            if found["v"] != VERSION:
                message = (
                    f"The journal entry {path} is of version {found['v']}, which this version of"
                    " Tidelake does not know: use the one that wrote it."
                )
                raise CorruptError(message, kind="cdc_journal_damaged", path=path)
            return cls(
                int(found["epoch"]),
                EntryKind(found["kind"]),
                str(found["start"]),
                str(found["end"]),
                str(found["run"]),
                int(found["begun"]),
                dict(found["state"]),
                bool(found["full"]),
                None if found.get("at") is None else int(found["at"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            message = (
                f"The journal entry {path} is damaged: {error!r}. Put the file back from a copy, or"
                " begin anew with another name of the job, which copies the tables again."
            )
            raise CorruptError(message, kind="cdc_journal_damaged", path=path) from error
