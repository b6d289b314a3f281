"""Consumers: the progress of readers of changes, one file each, ``consumer/consumer-<id>``.

A consumer's file holds ``{"nextSnapshot": N}``: the reader has not read the changes of snapshot N,
so this snapshot and later ones are kept. Source: Paimon's ``ConsumerManager`` (1.3.1), which reads
these files and ignores unknown keys.

A **lease** beside it, ``lease-<term>-<id>``, names the run of a reader that uses the consumer now:

1. Terms rise from 1. A run takes the lease by put-if-absent of the next term's file, so only one of
   several runs succeeds. The file with the highest term is the lease; only its run writes it again.
2. It holds the run's name, its process, the next snapshot, and the time of the last renewal.
   Another run may take over from a run that was silent for `timeout_ms`, or whose process has
   certainly ended.
3. While a lease is live its own next snapshot counts, too. So a late write of an older run to the
   consumer's file cannot release the reader's snapshots.
4. No term is used twice while an older run may go on: a reset or removal of a consumer writes a
   closed lease of the next term. Without a consumer this lease is kept for :data:`END_RETAINED_MS`.
5. Neither file is synced. After a power loss the file that was written last may be torn. If it is
   the consumer's, the lease has the next snapshot; a torn lease counts as closed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO, FileStatus, OpenDirectory, put_new
from tidelake.metadata.log.json_file import parse_json
from tidelake.metadata.paths import TablePaths, numbered
from tidelake.telemetry import has_ended
from tidelake.types.json_checksum import with_checksum

CONSUMER_PREFIX = "consumer-"
LEASE_PREFIX = "lease-"
LEASE_TIMEOUT_MS = 60_000
"""Silence after which a run on another machine may take over; far more than clock skew."""
READ_RETAINED_MS = 3_600_000
"""Silence after which the lease of a killed read is forgotten."""
END_RETAINED_MS = 86_400_000
"""How long the closed lease of a removed consumer is kept: longer than runs are silent."""
STATE_DIGEST_BYTES = 8
READ_TRIES = 3
"""Java writes a consumer's file in place, so a reader may get a part of it."""


def state_holder(consumer_id: str) -> str:
    """Name the consumer that holds the first full state for another one, for Java's expiry.

    "Next is N" in a consumer means the changes of N, so the state needs a consumer of its own.
    """
    digest = hashlib.blake2s(consumer_id.encode(), digest_size=STATE_DIGEST_BYTES).hexdigest()
    return f"{consumer_id}-full-{digest}"


def holder_of_state(name: str) -> str:
    """Find the consumer for which a consumer holds a first full state; its own name for others.

    Examples
    --------
    >>> holder_of_state(state_holder("mailer")), holder_of_state("a-full-moon")
    ('mailer', 'a-full-moon')
    """
    consumer_id, _, _ = name.rpartition("-full-")
    return consumer_id if consumer_id and state_holder(consumer_id) == name else name


@dataclass(frozen=True, slots=True)
class Lease:
    """The run that uses a consumer.

    Parameters
    ----------
    term : int
        Rises by one with each run that takes the lease.
    next_snapshot_id : int
        The oldest snapshot that the run still needs; 0 if unknown.
    renewed_ms : int
        Time of its last renewal, ms since the epoch.
    timeout_ms : int
        Silence after which another run may take over.
    retained_ms : int, optional
        Time after that until the consumer is forgotten; None: by the table's options.
    process : str
        The holder's process; see :func:`tidelake.telemetry.process_name`.
    is_closed : bool
        Whether its holder has closed it.
    before : str, optional
        Identity of the snapshot before `next_snapshot_id`, as the run has read it. Another one with
        its id means that the table was rolled back.
    of_state : bool
        Whether its holder reads a first full state, before which the consumer has no progress.
    began_ms : int
        When a batch read began, ms since the epoch; 0 for others.
    """

    consumer_id: str
    term: int
    run_id: str
    next_snapshot_id: int
    renewed_ms: int
    timeout_ms: int
    retained_ms: int | None = None
    process: str = ""
    is_closed: bool = False
    before: str | None = None
    of_state: bool = False
    began_ms: int = 0

    def is_live(self, now_ms: int) -> bool:
        """Whether its holder may still be at work."""
        is_silent = now_ms - self.renewed_ms >= self.timeout_ms
        return not (self.is_closed or is_silent or has_ended(self.process))

    @property
    def is_of_read(self) -> bool:
        """Whether it is a batch read's: no later run goes on with its consumer."""
        return self.began_ms > 0

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{LEASE_PREFIX}{self.term}-{self.consumer_id}"

    @property
    def is_end(self) -> bool:
        """Whether no run ever held it: :meth:`ended` made it."""
        return self.is_closed and bool(self.run_id) and self.timeout_ms == 0

    def ended(self, run_id: str, now_ms: int, *, next_snapshot_id: int = 0) -> Lease:
        """Make the closed lease of the next term, which ends a run that may still go on.

        Parameters
        ----------
        next_snapshot_id : int
            The next snapshot of the consumer; 0 if it is removed.
        """
        return Lease(
            self.consumer_id,
            self.term + 1,
            run_id,
            next_snapshot_id,
            now_ms,
            timeout_ms=0,
            retained_ms=END_RETAINED_MS,
            is_closed=True,
        )

    def to_json(self) -> str:
        """Write the text of its file."""
        document = {
            "runId": self.run_id,
            "nextSnapshot": self.next_snapshot_id,
            "renewedMs": self.renewed_ms,
            "timeoutMs": self.timeout_ms,
            "retainedMs": self.retained_ms,
            "process": self.process,
            "isClosed": self.is_closed,
        }
        if self.before is not None:
            document["before"] = self.before
        if self.of_state:
            document["ofState"] = True
        if self.began_ms:
            document["beganMs"] = self.began_ms
        return json.dumps(with_checksum(document), indent=2)

    @classmethod
    def from_json(cls, text: bytes, *, consumer_id: str, term: int, path: str) -> Lease:
        """Read a lease's file; a torn one counts as closed, without a snapshot."""
        try:
            document = parse_json(text, path=path)
        except CorruptError:
            document = {}
        numbers = [document.get(key) for key in ("nextSnapshot", "renewedMs", "timeoutMs")]
        run_id, retained_ms = document.get("runId"), document.get("retainedMs")
        is_whole = isinstance(run_id, str) and all(map(_is_number, numbers))
        if not is_whole or not (retained_ms is None or _is_number(retained_ms)):
            return cls(consumer_id, term, "", 0, 0, 0, is_closed=True)
        next_id, renewed_ms, timeout_ms = numbers
        before, began_ms = document.get("before"), document.get("beganMs")
        return cls(
            consumer_id,
            term,
            str(run_id),
            int(next_id or 0),
            int(renewed_ms or 0),
            int(timeout_ms or 0),
            retained_ms,
            str(document.get("process", "")),
            bool(document.get("isClosed", False)),
            before if isinstance(before, str) else None,
            bool(document.get("ofState", False)),
            int(began_ms or 0) if _is_number(began_ms) else 0,
        )


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer and its lease, as read.

    Parameters
    ----------
    next_snapshot_id : int, optional
        The snapshot in its file; None without a file.
    modified_ms : int
        Time of the file's last write, ms since the epoch; 0 without a file.
    lease : Lease, optional
        The lease of the highest term.
    """

    consumer_id: str
    next_snapshot_id: int | None = None
    modified_ms: int = 0
    lease: Lease | None = None

    def is_in_use(self, now_ms: int) -> bool:
        """Whether a run may be reading with it."""
        return self.lease is not None and self.lease.is_live(now_ms)

    @property
    def is_end(self) -> bool:
        """Whether only the closed lease of a removed consumer is left."""
        return self.next_snapshot_id is None and self.lease is not None and self.lease.is_end

    @property
    def is_unfinished(self) -> bool:
        """Whether its first full state was begun and not read to its end; it has no progress."""
        return self.next_snapshot_id is None and self.lease is not None and self.lease.of_state

    def held_from(self, now_ms: int) -> int | None:
        """The oldest snapshot that it keeps; None if it keeps none."""
        held = [self.next_snapshot_id]
        if self.lease is not None and self.lease.is_live(now_ms):
            held.append(self.lease.next_snapshot_id)
        return min((number for number in held if number is not None), default=None)

    def is_forgotten(self, now_ms: int, retained_ms: int | None) -> bool:
        """Whether it was silent for so long that it keeps no snapshot.

        Parameters
        ----------
        retained_ms : int, optional
            The table's ``consumer.expiration-time``.
        """
        lease = self.lease
        heard_ms = self.modified_ms
        if lease is not None:
            if lease.is_live(now_ms):
                return False
            if lease.is_of_read and has_ended(lease.process):
                return True
            heard_ms = max(heard_ms, lease.renewed_ms)
            if lease.retained_ms is not None and (self.is_end or not lease.is_end):
                retained_ms = lease.retained_ms
        if self.next_snapshot_id is None and not self.is_end and not self.is_unfinished:
            return True  # a lease without its consumer keeps nothing
        return retained_ms is not None and now_ms - heard_ms > retained_ms


class ConsumerLog:
    """The consumers of one table."""

    def __init__(self, fileio: FileIO, paths: TablePaths) -> None:
        self._fileio = fileio
        self._paths = paths

    def open_dir(self) -> OpenDirectory:
        """Open their directory, and create it if missing; ``NotFoundError`` without a table."""
        return self._fileio.open_dir(self._paths.consumer_dir, make=True)

    def next_ids(self) -> dict[str, int]:
        """Read the next snapshot of each consumer, by the consumer's id, sorted.

        Raises
        ------
        CorruptError
            A consumer's file is damaged; the message names it.
        """
        return dict(sorted(self._next_ids(self._listed()).items()))

    def next_id(self, consumer_id: str) -> int | None:
        """Read the next snapshot of a consumer; None if the consumer does not exist.

        Raises
        ------
        CorruptError
            Its file is damaged.
        """
        path = self._path(f"{CONSUMER_PREFIX}{consumer_id}")
        for tries in range(READ_TRIES):
            try:
                return _next_id(self._fileio.read_bytes(path), path)
            except NotFoundError:
                return None
            except CorruptError:
                lease = self.lease(consumer_id) if tries == READ_TRIES - 1 else None
                if lease is not None and lease.next_snapshot_id > 0:
                    return lease.next_snapshot_id
                if tries == READ_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def record(
        self, consumer_id: str, next_snapshot_id: int, *, within: OpenDirectory | None = None
    ) -> None:
        """Write the next snapshot of a consumer."""
        document = with_checksum({"nextSnapshot": next_snapshot_id})
        path = self._path(f"{CONSUMER_PREFIX}{consumer_id}")
        held = {} if within is None else {"within": within}
        self._fileio.replace(path, json.dumps(document, indent=2).encode(), **held)

    def delete_consumer(self, consumer_id: str, *, within: OpenDirectory) -> None:
        """Remove only a consumer's file."""
        self._fileio.delete(self._path(f"{CONSUMER_PREFIX}{consumer_id}"), within=within)

    def delete(self, consumer_id: str) -> bool:
        """Remove a consumer and its lease; False if the consumer does not exist.

        The consumer is removed first: a lease alone keeps nothing once its run has ended.
        """
        is_gone = self._fileio.delete(self._path(f"{CONSUMER_PREFIX}{consumer_id}"))
        for _, name in self._terms(self._listed(), consumer_id):
            self._fileio.delete(self._path(name))
        return is_gone

    def states(self) -> dict[str, ConsumerState]:
        """Read all consumers with their leases, by id, sorted.

        Raises
        ------
        CorruptError
            A file is damaged; the message names it.
        """
        listed = self._listed()
        modified = {status.name: status.modified_ms for status in listed}
        found = {
            name: ConsumerState(name, next_id, modified[f"{CONSUMER_PREFIX}{name}"])
            for name, next_id in self._next_ids(listed).items()
        }
        for name in {_lease_of(status.name)[1] for status in listed if _is_lease(status)}:
            lease = self._newest(listed, name)
            if lease is not None:
                found[name] = replace(found.get(name, ConsumerState(name)), lease=lease)
        return dict(sorted(found.items()))

    def state(self, consumer_id: str) -> ConsumerState:
        """Read one consumer with its lease; only the id is set if it does not exist."""
        listed, name = self._listed(), f"{CONSUMER_PREFIX}{consumer_id}"
        modified_ms = next((s.modified_ms for s in listed if s.name == name), 0)
        lease = self._newest(listed, consumer_id)
        return ConsumerState(consumer_id, self.next_id(consumer_id), modified_ms, lease)

    def forget(self, state: ConsumerState, now_ms: int) -> bool:
        """Remove a consumer unless a run took it since `state` was read; return whether.

        It first writes the next term's lease. A concurrent run either takes its term before that,
        or takes the term behind it, whose lease stays.
        """
        term = 0 if state.lease is None else state.lease.term
        none = Lease(state.consumer_id, term, "", 0, 0, 0)
        end = none.ended("forgotten", now_ms)
        with self.open_dir() as place:
            if not self.take(end, within=place):
                return False
            self.delete_consumer(state.consumer_id, within=place)
            self.delete_lease(end, within=place)
        return True

    def lease(self, consumer_id: str) -> Lease | None:
        """Read the lease of a consumer; None without one."""
        return self._newest(self._listed(), consumer_id)

    def newest_term(self, consumer_id: str) -> int:
        """Find the highest term of a consumer; 0 without a lease. One listing, no read."""
        return max((term for term, _ in self._terms(self._listed(), consumer_id)), default=0)

    def take(self, lease: Lease, *, within: OpenDirectory) -> bool:
        """Write a lease of a new term, and remove older ones; False if another run has it.

        A removed term may be free again, so a run checks for a later term after its write.
        """
        path = self._path(lease.file_name)
        if not put_new(self._fileio, path, lease.to_json().encode(), within=within):
            return False
        terms = self._terms(self._listed(), lease.consumer_id)
        if any(term > lease.term for term, _ in terms):
            self._fileio.delete(path, within=within)
            return False
        for term, name in terms:
            if term < lease.term:
                self._fileio.delete(self._path(name), within=within)
        return True

    def lease_of(self, consumer_id: str, term: int) -> Lease | None:
        """Read the lease of one term; None if it was removed. One read."""
        path = self._path(f"{LEASE_PREFIX}{term}-{consumer_id}")
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError:
            return None
        return Lease.from_json(data, consumer_id=consumer_id, term=term, path=path)

    def write_lease(self, lease: Lease, *, within: OpenDirectory | None = None) -> None:
        """Write a lease again, for its holder."""
        path = self._path(lease.file_name)
        held = {} if within is None else {"within": within}
        self._fileio.replace(path, lease.to_json().encode(), **held)

    def delete_own(self, lease: Lease) -> None:
        """Remove a consumer that only one run ever used, with its lease. Two calls, no listing."""
        self._fileio.delete(self._path(f"{CONSUMER_PREFIX}{lease.consumer_id}"))
        self._fileio.delete(self._path(lease.file_name))

    def delete_lease(self, lease: Lease, *, within: OpenDirectory) -> None:
        """Remove a lease's file."""
        self._fileio.delete(self._path(lease.file_name), within=within)

    def _listed(self) -> list[FileStatus]:
        return [s for s in self._fileio.list_dir(self._paths.consumer_dir) if not s.is_dir]

    def _next_ids(self, listed: list[FileStatus]) -> dict[str, int]:
        found = {}
        for status in listed:
            if status.name.startswith(CONSUMER_PREFIX):
                name = status.name.removeprefix(CONSUMER_PREFIX)
                next_id = self.next_id(name)
                if next_id is not None:  # it may be removed during the read
                    found[name] = next_id
        return found

    def _terms(self, listed: list[FileStatus], consumer_id: str) -> list[tuple[int, str]]:
        """List terms of a consumer's leases with their file names, the newest first."""
        found = []
        for status in listed:
            if _is_lease(status):
                term, name = _lease_of(status.name)
                if name == consumer_id:
                    found.append((term, status.name))
        return sorted(found, reverse=True)

    def _newest(self, listed: list[FileStatus], consumer_id: str) -> Lease | None:
        for term, _ in self._terms(listed, consumer_id):
            lease = self.lease_of(consumer_id, term)
            if lease is not None:
                return lease
        return None

    def _path(self, name: str) -> str:
        return f"{self._paths.consumer_dir}/{name}"


def _is_lease(status: FileStatus) -> bool:
    return _lease_of(status.name)[0] > 0


def _lease_of(name: str) -> tuple[int, str]:
    """Parse term and consumer from a lease's file name; term 0 for another file."""
    digits, dash, consumer_id = name.removeprefix(LEASE_PREFIX).partition("-")
    term = numbered(f"{LEASE_PREFIX}{digits}", LEASE_PREFIX)
    is_lease = name.startswith(LEASE_PREFIX) and bool(dash and consumer_id)
    return (term or 0, consumer_id) if is_lease else (0, "")


def _next_id(data: bytes, path: str) -> int:
    document: Mapping[str, Any] = parse_json(data, path=path)
    next_id = document.get("nextSnapshot")
    if not _is_number(next_id):
        message = f"Consumer file {path} has no nextSnapshot: delete it, or restore it."
        raise CorruptError(message, kind="consumer_file", path=path)
    return int(next_id or 0)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
