"""Turns: a statement that lost several races asks the next commits to wait for it.

A statement that reads for seconds loses against commits of milliseconds to the same rows, however
often it is repeated. Longer waits would make it worse. So, once it has lost :data:`LOSSES_BEFORE`
times,

1. it puts a file ``turn-<end>-<holder>`` beside the table's schemas: the end of its lease in ms
   since the epoch, and a digest of its commit user. The lease is as long as two of its tries, at
   most :data:`LEASE_MS_MAX`. A try that is lost all the same renews it,
2. each attempt of each commit lists the schemas anyway, so it sees the turn without another call.
   It waits until the file is removed or the lease has ended, once per commit, and then begins again
   on the newest snapshot. Compactions do not wait,
3. a statement that holds a turn waits only for turns that end before its own,
4. the statement removes its file when it ends, however it ends. If it was killed, the file stays
   and the lease ends by time. A commit that sees the file :data:`STALE_MS` later removes it.

Turns are for fairness; a commit that does not wait is still correct. A clock that runs ahead
ignores a turn. A clock that is behind ignores a turn whose end is farther away than a lease can be.
Java Paimon reads only names that begin with ``schema-`` in this directory, so its commits do not
wait.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidelake.commit.context import CommitContext
from tidelake.errors import ConflictError, NotFoundError, StorageError
from tidelake.metadata.log.schema_log import SchemaLog

T = TypeVar("T")

LOSSES_BEFORE = 3
"""Number of lost tries after which a statement asks others to wait."""
LEASE_MS_MIN = 1_000
LEASE_MS_MAX = 30_000
"""The longest lease, and the longest wait of a commit for it, ms."""
LEASE_TRIES = 2
"""How many of the statement's longest tries, from the second on, a lease lasts."""
POLL_MS = 100
STALE_MS = 600_000
"""Time after a lease's end from which any commit removes the file, ms."""
PREFIX = "turn-"
HOLDER_BYTES = 8


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """The name of a turn's file.

    Parameters
    ----------
    until_ms : int
        The end of the lease, ms since the epoch.
    holder : str
        Digest of the commit user.
    """

    until_ms: int
    holder: str

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.until_ms}-{self.holder}"

    @classmethod
    def of(cls, name: str) -> _Turn | None:
        """Read a file's name; None of other files."""
        until, _, holder = name.removeprefix(PREFIX).partition("-")
        if not name.startswith(PREFIX) or not (until.isascii() and until.isdigit() and holder):
            return None
        return cls(int(until), holder)


def in_turns(
    context: CommitContext, user: str, work: Callable[[], T], *, kinds: Collection[str], tries: int
) -> T:
    """Repeat work until no other commit wins; ask others to wait after several losses.

    Parameters
    ----------
    work : callable
        Reads the newest snapshot and commits.
    kinds : collection of str
        The kinds of conflict after which it is repeated.
    tries : int
        The most tries.

    Raises
    ------
    ConflictError
        Others won each time.
    """
    request = _TurnRequest(context, user)
    try:
        for left in reversed(range(tries)):
            try:
                return work()
            except ConflictError as error:
                if error.kind not in kinds or not left:
                    raise
                request.lose()
    finally:
        request.withdraw()
    raise AssertionError("unreachable")


def somebody_waits(context: CommitContext) -> bool:
    """Whether a statement waits for its turn: compactions, which may make it lose, are put off."""
    turns = Turns(context)
    return bool(turns.due(turns.names(), user=""))


class _TurnRequest:
    """The turn that a statement asks for."""

    def __init__(self, context: CommitContext, user: str) -> None:
        self._context = context
        self._user = user
        self._losses = 0
        self._began_ms: int | None = None  # a statement that loses nothing reads no clock
        self._longest_ms = 0
        self._turn: _Turn | None = None

    def lose(self) -> None:
        """Count a lost try; ask for a turn once there are enough."""
        now_ms = self._context.env.clock.now_ms()
        if self._began_ms is not None:
            self._longest_ms = max(self._longest_ms, now_ms - self._began_ms)
        self._began_ms = now_ms
        self._losses += 1
        if self._losses < LOSSES_BEFORE:
            return
        lease_ms = min(max(LEASE_TRIES * self._longest_ms, LEASE_MS_MIN), LEASE_MS_MAX)
        before = self._turn
        turn = _Turn(now_ms + lease_ms, _digest(self._user))
        text = json.dumps({"commitUser": self._user, "untilMillis": turn.until_ms})
        try:
            self._context.fileio.put_if_absent(_path(self._context, turn), text.encode())
        except (StorageError, NotFoundError):
            return  # then no commit waits
        self._turn = turn
        if before not in {None, turn}:
            _remove(self._context, before)

    def withdraw(self) -> None:
        """Remove the turn."""
        if self._turn is not None:
            _remove(self._context, self._turn)


class Turns:
    """The turns of others, for one commit. Not thread-safe."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._has_waited = False

    def wait(self, names: Iterable[str], user: str) -> bool:
        """Wait for a statement whose turn it is, once in the life of this value.

        Returns
        -------
        bool
            Whether it waited, so that the newest snapshot may be another one.
        """
        if self._has_waited or not (due := self.due(names, user)):
            return False
        self._has_waited = True
        clock = self._context.env.clock
        end_ms = clock.now_ms() + LEASE_MS_MAX
        for _ in range(LEASE_MS_MAX // POLL_MS):
            if not due or clock.now_ms() >= end_ms:
                break
            clock.sleep_ms(POLL_MS)
            due = self.due(self.names(), user)
        return True

    def due(self, names: Iterable[str], user: str) -> list[_Turn]:
        """The turns that this user's commits wait for."""
        turns = sorted(turn for name in names if (turn := _Turn.of(name)) is not None)
        if not turns:
            return []
        now_ms, holder = self._context.env.clock.now_ms(), _digest(user)
        for turn in turns:
            if turn.until_ms + STALE_MS < now_ms:
                _remove(self._context, turn)
        held = [turn for turn in turns if 0 < turn.until_ms - now_ms <= LEASE_MS_MAX]
        mine = min((turn for turn in held if turn.holder == holder), default=None)
        return [turn for turn in held if turn.holder != holder and (mine is None or turn < mine)]

    def names(self) -> list[str]:
        """The names of the files beside the table's schemas."""
        try:
            return SchemaLog(self._context.fileio, self._context.paths).names()
        except (StorageError, NotFoundError):
            return []


def _digest(user: str) -> str:
    return hashlib.blake2b(user.encode(), digest_size=HOLDER_BYTES).hexdigest()


def _path(context: CommitContext, turn: _Turn) -> str:
    return f"{context.paths.schema_dir}/{turn.name}"


def _remove(context: CommitContext, turn: _Turn | None) -> None:
    if turn is None:
        return
    try:
        context.fileio.delete(_path(context, turn))
    except StorageError:
        return  # it ends by time
