"""A journal as files: one for each epoch, put if absent, so that two runs never share an epoch.

``epoch-<n>`` holds an :class:`~tidelake.cdc.journal.entry.JournalEntry`. Only the newest may be
unfinished: a job puts an entry when all commits of the one before are made. So a restart reads the
newest and applies it again, with the same rows, and the identity of its commits lets each take
effect once.

An entry holds what changed in the job's state; every :data:`FULL_EVERY`-th holds all of it, and
what lies before the newest full entry is deleted, but for :data:`KEPT_MIN` entries for people.

``dropped-<n>`` is what a job that was dropped leaves: the number of its last epoch.

``copy-again-<n>`` and ``replay-<n>`` are requests of a person, which the job removes when an entry
has taken them up.

Cost: one put an epoch; a start lists the folder and reads :data:`FULL_EVERY` entries or fewer.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidelake.cdc.journal.entry import JournalEntry
from tidelake.cdc.journal.epoch_record import EpochRecord, completed
from tidelake.cdc.journal.job_state import JobState
from tidelake.cdc.source.source_table import SourceName
from tidelake.engine.storage import FileIO, put_new
from tidelake.errors import ConflictError, CorruptError, NotFoundError

FULL_EVERY = 64
"""A state of 1,000 tables is about 1 MB: too much for each second, not for each minute."""
KEPT_MIN = 128
_NAME = re.compile(r"epoch-(\d{1,18})")
_DROPPED = re.compile(r"dropped-(\d{1,18})")
_REQUEST = {
    "copy-again": re.compile(r"copy-again-(\d{1,18})"),
    "replay": re.compile(r"replay-(\d{1,18})"),
}
COPY_AGAIN, REPLAY = _REQUEST


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a journal stands.

    Parameters
    ----------
    entry : JournalEntry or None
        The newest entry, which may be unfinished; None for a new job.
    state : JobState
        What its epoch began with.
    dropped_epoch : int
        The last epoch of a job of the same name that was dropped; -1 without one. A new one goes on
        from there, as commits of its tables are known by their numbers.
    """

    entry: JournalEntry | None
    state: JobState
    dropped_epoch: int = -1


class Journal(Protocol):
    """Keeps the epochs of one job."""

    def load(self) -> Progress:
        """Read where the job stands."""
        ...

    def append(self, entry: JournalEntry, state: JobState) -> None:
        """Begin an epoch: everything before it is done.

        Raises
        ------
        ConflictError
            Another run of the job began it: kind ``cdc_job_taken``.
        """
        ...

    def asked(self, what: str = ...) -> dict[int, tuple[SourceName, ...]]:
        """Give the requests that tables are copied again, or their rows replayed, by number."""
        ...

    def answered(self, numbers: Iterable[int], what: str = ...) -> None:
        """Remove requests that an entry has taken up."""
        ...


class FileJournal:
    """A journal in a folder of a storage. For one thread.

    Parameters
    ----------
    path : str
        The folder, as `fileio` names it.
    job : str
        The job's name, for messages.
    """

    def __init__(self, fileio: FileIO, path: str, job: str) -> None:
        self._fileio = fileio
        self._path = path
        self._job = job
        self._state = JobState()
        self._since_full = FULL_EVERY
        self._newest: int | None = None

    def load(self) -> Progress:
        """Read where the job stands.

        Raises
        ------
        CorruptError
            An entry is damaged or missing.
        """
        epochs = self._epochs()
        if not epochs:
            return Progress(None, JobState(), max(self._numbers(_DROPPED), default=-1))
        read: list[JournalEntry] = []
        for epoch in range(epochs[-1], epochs[0] - 1, -1):
            read.append(self._read(epoch))
            if read[-1].is_full:
                break
        else:
            message = (
                f"Job '{self._job}': the journal {self._path} begins with epoch {epochs[0]}, which"
                " does not hold the whole state: files were deleted. Put them back from a copy, or"
                " begin anew with another name of the job, which copies the tables again."
            )
            raise CorruptError(message, kind="cdc_journal_damaged", path=self._path)
        state = JobState()
        for entry in reversed(read):
            state = self._updated(state, entry)
        self._state, self._newest = state, read[0].epoch
        self._since_full = len(read) - 1
        return Progress(read[0], state)

    def append(self, entry: JournalEntry, state: JobState) -> None:
        """Begin an epoch; see :meth:`Journal.append`."""
        assert self._newest is None or entry.epoch == self._newest + 1, "epochs rise by one"
        is_full = self._since_full + 1 >= FULL_EVERY
        base = JobState() if is_full else self._state
        whole = replace(entry, state=state.changes_from(base), is_full=is_full)
        if self._newest is None:
            self._fileio.make_dirs(self._path)
        data = whole.to_bytes()
        if not put_new(self._fileio, self._file(entry.epoch), data) and not self._is_own(whole):
            message = (
                f"Job '{self._job}': another run began epoch {entry.epoch}. Only one may run: stop"
                " this one, or give it a name of its own."
            )
            raise ConflictError(message, kind="cdc_job_taken", job=self._job, epoch=entry.epoch)
        self._state, self._newest = state, entry.epoch
        self._since_full = 0 if is_full else self._since_full + 1
        if is_full:
            self._trim(entry.epoch - KEPT_MIN)

    def history(self) -> list[EpochRecord]:
        """Give the epochs that are proved complete and still in the journal, oldest first.

        Cost: reads all entries, :data:`KEPT_MIN` + :data:`FULL_EVERY` or fewer.
        """
        read: list[JournalEntry] = []
        for epoch in reversed(self._epochs()):
            entry = self._find(epoch)
            if entry is None:
                break  # a running job trims the journal from its oldest entry on
            read.append(entry)
        while read and not read[-1].is_full:
            read.pop()
        begun, state = [], JobState()
        for entry in reversed(read):
            state = self._updated(JobState() if entry.is_full else state, entry)
            begun.append((entry, state))
        return completed(begun)

    # ---- requests

    def ask(self, tables: Sequence[SourceName], what: str = COPY_AGAIN) -> None:
        """Leave a request that tables are copied again.

        Parameters
        ----------
        what : str
            :data:`COPY_AGAIN`, or :data:`REPLAY` for the rows of the tables in the quarantine.
        """
        self._fileio.make_dirs(self._path)
        number = 1 + max(self._requests(what), default=0)
        names = [[name.database, name.schema, name.table] for name in tables]
        while not put_new(self._fileio, self._request(what, number), json.dumps(names).encode()):
            number += 1

    def asked(self, what: str = COPY_AGAIN) -> dict[int, tuple[SourceName, ...]]:
        """Give the requests that wait, by their number."""
        found = {}
        for number in self._requests(what):
            path = self._request(what, number)
            try:
                names = json.loads(self._fileio.read_bytes(path))
                found[number] = tuple(SourceName(*name) for name in names)
            except NotFoundError:
                continue  # another run took it up
            except (ValueError, TypeError) as error:
                message = f"The request {path} is damaged: {error!r}. Delete it and ask again."
                raise CorruptError(message, kind="cdc_journal_damaged", path=path) from error
        return found

    def answered(self, numbers: Iterable[int], what: str = COPY_AGAIN) -> None:
        """Remove requests that an entry has taken up."""
        for number in numbers:
            self._fileio.delete(self._request(what, number))

    def remove(self) -> None:
        """Delete the journal, but for ``dropped-<n>``."""
        epochs = self._epochs()
        if not epochs:
            return
        put_new(self._fileio, f"{self._path}/dropped-{epochs[-1]}", b"")
        paths = [self._file(epoch) for epoch in epochs]
        paths += [
            f"{self._path}/{file.name}"
            for file in self._fileio.list_dir(self._path)
            if any(pattern.fullmatch(file.name) for pattern in _REQUEST.values())
        ]
        for path in paths:
            with contextlib.suppress(NotFoundError):
                self._fileio.delete(path)

    def _requests(self, what: str) -> list[int]:
        return self._numbers(_REQUEST[what])

    def _request(self, what: str, number: int) -> str:
        return f"{self._path}/{what}-{number}"

    # ---- files

    def _is_own(self, entry: JournalEntry) -> bool:
        """Whether a put whose answer was lost had taken effect."""
        found = self._read(entry.epoch)
        return (found.run, found.kind, found.end) == (entry.run, entry.kind, entry.end)

    def _updated(self, state: JobState, entry: JournalEntry) -> JobState:
        try:
            return state.updated(entry.state)
        except (KeyError, TypeError, ValueError) as error:
            path = self._file(entry.epoch)
            message = f"The journal entry {path} is damaged: {error!r}. Put it back from a copy."
            raise CorruptError(message, kind="cdc_journal_damaged", path=path) from error

    def _epochs(self) -> list[int]:
        """The numbers of the entries, ascending."""
        return self._numbers(_NAME)

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        try:
            files = self._fileio.list_dir(self._path)
        except NotFoundError:
            return []
        names = [pattern.fullmatch(file.name) for file in files]
        return sorted(int(found[1]) for found in names if found)

    def _find(self, epoch: int) -> JournalEntry | None:
        path = self._file(epoch)
        try:
            return JournalEntry.from_bytes(self._fileio.read_bytes(path), path=path)
        except NotFoundError:
            return None

    def _read(self, epoch: int) -> JournalEntry:
        found = self._find(epoch)
        if found is not None:
            return found
        path = self._file(epoch)
        message = (
            f"Job '{self._job}': the journal lacks {path}. Put it back from a copy, or begin"
            " anew with another name of the job, which copies the tables again."
        )
        raise CorruptError(message, kind="cdc_journal_damaged", path=path)

    def _trim(self, before: int) -> None:
        """Delete old entries; what cannot be deleted is tried again with the next full entry."""
        for epoch in self._epochs():
            if epoch >= before:
                return
            with contextlib.suppress(NotFoundError):
                self._fileio.delete(self._file(epoch))

    def _file(self, epoch: int) -> str:
        return f"{self._path}/epoch-{epoch}"
