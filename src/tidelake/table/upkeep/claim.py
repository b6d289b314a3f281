"""Claims: of several maintenance jobs, one at a time works on a table.

``<table>/upkeep/claim-<term>`` names the run that works on the table now. A run takes the table by
put-if-absent of the next term's file, so only one of several runs gets it; then it removes older
files. It writes its file again while it works, and at the end. The file stays when the work is
done, and says when the table's orphan files were last searched for.

A claim saves work. Nothing relies on it: a commit of two jobs at once is decided where all commits
are, and the second one gives way. So a claim ends when its run was silent for
:data:`CLAIM_TIMEOUT_MS` by this machine's clock, whichever clock is ahead, or when its process has
certainly ended. A torn file counts as ended. Java Paimon looks at no directory of this name.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, replace
from typing import Any

from tidelake.errors import CorruptError, NotFoundError, TidelakeError
from tidelake.fileio import OpenDirectory, put_new
from tidelake.metadata.log.json_file import parse_json
from tidelake.table.handle.handle import TableHandle
from tidelake.telemetry import ProcessMark, has_ended, process_name
from tidelake.types.json_checksum import with_checksum

CLAIM_PREFIX = "claim-"  # on disk: never rename
CLAIM_TIMEOUT_MS = 60_000
"""Silence after which another run may take the table; far more than clock skew."""
RENEW_MS = CLAIM_TIMEOUT_MS // 3
TAKE_TRIES = 3
"""A claim may end, and its file go, while it is looked at."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The run that works on a table, or worked on it last.

    Parameters
    ----------
    term : int
        Rises by one with each run that takes the table; 0 if none did yet.
    orphans_ms : int
        When a search for orphan files ended last, ms since the epoch; 0 if there was none.
    """

    term: int = 0
    run_id: str = ""
    renewed_ms: int = 0
    process: str = ""
    is_closed: bool = True
    orphans_ms: int = 0

    def is_live(self, now_ms: int) -> bool:
        """Whether its run may be at work."""
        is_silent = abs(now_ms - self.renewed_ms) >= CLAIM_TIMEOUT_MS
        return not (self.is_closed or is_silent or has_ended(self.process))

    def to_json(self) -> bytes:
        """The bytes of its file."""
        document = {
            "runId": self.run_id,
            "renewedMs": self.renewed_ms,
            "process": self.process,
            "isClosed": self.is_closed,
            "orphansMs": self.orphans_ms,
        }
        return json.dumps(with_checksum(document), indent=2).encode()

    @classmethod
    def from_json(cls, data: bytes, *, term: int, path: str) -> Claim:
        """Read a file; a torn one has ended."""
        try:
            document: dict[str, Any] = parse_json(data, path=path)
            return cls(
                term,
                str(document["runId"]),
                int(document["renewedMs"]),
                str(document["process"]),
                bool(document["isClosed"]),
                int(document["orphansMs"]),
            )
        except (CorruptError, KeyError, TypeError, ValueError):
            return cls(term)


class TableClaim:
    """A table that this run works on; made by :meth:`take`, ends with a ``with`` block.

    The keeper of the process renews it (:mod:`tidelake.telemetry.keeper`).
    """

    def __init__(self, handle: TableHandle, claim: Claim, place: OpenDirectory) -> None:
        self._handle = handle
        self._claim = claim
        self._place = place
        self._mark = ProcessMark()
        self._guard = threading.Lock()
        self.is_over = False

    @classmethod
    def take(cls, handle: TableHandle, run_id: str) -> TableClaim | None:
        """Take a table; None if another run is at work on it.

        Raises
        ------
        NotFoundError
            The table was dropped, and perhaps created again.
        StorageError
            The table may not be written.
        """
        place = handle.fileio.open_dir(handle.paths.upkeep_dir, make=True)
        taken = None
        try:
            # the directory is held before the check: a new table at this path gets no claim
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            for _ in range(TAKE_TRIES):
                now_ms = handle.env.clock.now_ms()
                held = newest_claim(handle)
                if held.is_live(now_ms):
                    break
                asked = Claim(held.term + 1, run_id, now_ms, process_name(), False, held.orphans_ms)
                taken = cls(handle, asked, place)
                # before the put: at whichever line an interrupt comes, somebody lets the table go
                handle.env.keeper.keep(taken)
                if put_new(handle.fileio, _path(handle, asked.term), asked.to_json(), within=place):
                    _remove_older(handle, asked.term, place)
                    return taken
                taken.is_over = True
        except BaseException:
            if taken is not None:
                with contextlib.suppress(TidelakeError):
                    taken.end()
            place.close()
            raise
        place.close()
        return None

    @property
    def orphans_ms(self) -> int:
        """When a search for orphan files ended last, ms since the epoch; 0 if there was none."""
        return self._claim.orphans_ms

    def note_orphans(self) -> None:
        """Say that a search for orphan files has ended now."""
        with self._guard:
            now_ms = self._handle.env.clock.now_ms()
            self._claim = replace(self._claim, orphans_ms=now_ms)

    def tend(self) -> None:
        """Renew it if that is due, for the keeper."""
        with self._guard:
            if self.is_over or not self._mark.is_here:
                self.is_over = True
                return
            if self._claim.is_closed:  # an interrupt came while the table was let go
                self._let_go()
                return
            now_ms = self._handle.env.clock.now_ms()
            if abs(now_ms - self._claim.renewed_ms) >= RENEW_MS:
                self._claim = replace(self._claim, renewed_ms=now_ms)
                self._write()

    def end(self) -> None:
        """Let the table go; may be called more than once.

        If an interrupt comes meanwhile, the keeper lets it go.
        """
        with self._guard:
            if not self.is_over and self._mark.is_here:
                self._claim = replace(self._claim, is_closed=True)
                self._let_go()

    def __enter__(self) -> TableClaim:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _let_go(self) -> None:
        try:
            self._write()
        except Exception:
            self._forget()
            raise
        self._forget()

    def _forget(self) -> None:
        self.is_over = True
        self._place.close()

    def _write(self) -> None:
        """Write the file again, unless another run has the table or the table is gone."""
        handle, claim = self._handle, self._claim
        with contextlib.suppress(NotFoundError):
            newest = newest_claim(handle)
            if (newest.term, newest.run_id) == (claim.term, claim.run_id):
                handle.fileio.replace(
                    _path(handle, claim.term), claim.to_json(), within=self._place
                )


def newest_claim(handle: TableHandle) -> Claim:
    """Read the claim of the highest term; one of term 0 if no run worked on the table yet."""
    terms = sorted(_terms(handle), reverse=True)
    for term in terms:
        path = _path(handle, term)
        with contextlib.suppress(NotFoundError):  # removed meanwhile
            return Claim.from_json(handle.fileio.read_bytes(path), term=term, path=path)
    return Claim(max(terms, default=0))


def _terms(handle: TableHandle) -> list[int]:
    names = (status.name for status in handle.fileio.list_dir(handle.paths.upkeep_dir))
    ends = (name.removeprefix(CLAIM_PREFIX) for name in names if name.startswith(CLAIM_PREFIX))
    return [int(end) for end in ends if end.isascii() and end.isdecimal()]


def _path(handle: TableHandle, term: int) -> str:
    return f"{handle.paths.upkeep_dir}/{CLAIM_PREFIX}{term}"


def _remove_older(handle: TableHandle, term: int, place: OpenDirectory) -> None:
    for other in _terms(handle):
        if other < term:
            handle.fileio.delete(_path(handle, other), within=place)
