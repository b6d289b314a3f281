"""Ranges of the log from one slot: :class:`SlotReader`.

1. The stream stays open between two reads. What has arrived beyond a range's end is kept for
   the next.
2. A read from another position, or after the connection broke, begins a new stream there. The
   server sends whole transactions; the changes that the position has are left out.
3. A range that ends where nothing is pending goes on to the place to which the server has decoded;
   one whose end is given ends just there, for the end is a part of its commits' identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tidelake.cdc.postgres.log.decoder import relations_after
from tidelake.cdc.postgres.log.log_cut import Cut, count_read, count_until, cut, position_after
from tidelake.cdc.postgres.log.log_messages import (
    NO_MESSAGES,
    Frames,
    LogMessages,
    Transaction,
    scan,
)
from tidelake.cdc.postgres.log.relation import RelationVersion
from tidelake.cdc.postgres.log.stream import ReplicationStream
from tidelake.cdc.postgres.position import LogPosition
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.cdc.source.source import EpochLimits
from tidelake.engine.env import Backoff, Env
from tidelake.errors import ConflictError, StorageError

FRAMES_MAX = 16_384
"""Messages that are scanned together."""
BYTES_TOGETHER = 16 << 20
FRAMES_FEW = 512
"""Fewer than these: more are waited for, so that arrays are not made for a handful."""
FEW_WAIT_MS = 10
ASK_MS = 1_000
ANSWER_MS_MAX = 100
SILENCE_MS_MAX = 120_000
"""A server that is asked and says nothing for so long is given up."""
RECONNECTS_MAX = 6
RECONNECT = Backoff(200, 5_000, longer=0.2)
IN_USE_TRIES = 12
"""About 15 seconds: after a crash the server frees the slot when it notices."""
IN_USE = Backoff(50, 2_000, longer=0.2)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Messages between two positions.

    Parameters
    ----------
    known : mapping of int to RelationVersion
        The versions of tables at its start.
    """

    messages: LogMessages
    known: Mapping[int, RelationVersion]
    end: LogPosition


class _Pending:
    """Messages that have arrived and were not taken yet, joined when they are looked at."""

    def __init__(self, messages: LogMessages = NO_MESSAGES) -> None:
        self._parts = [messages]
        self.changes_count = int(messages.is_change.sum())
        self.size_bytes = messages.size_bytes

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self._parts))

    @property
    def last(self) -> LogPosition:
        """What has arrived."""
        newest = self._parts[-1]
        return position_after(newest) if len(newest) else LogPosition(0)

    @property
    def messages(self) -> LogMessages:
        self._parts = [LogMessages.join(self._parts)]
        return self._parts[0]

    def add(self, messages: LogMessages) -> None:
        if len(messages):
            self._parts.append(messages)
            self.changes_count += int(messages.is_change.sum())
            self.size_bytes += messages.size_bytes

    def is_full(self, limits: EpochLimits) -> bool:
        return self.size_bytes >= limits.bytes_max or self.changes_count >= limits.rows_max


class SlotReader:
    """Reads a slot. Used by one thread.

    Parameters
    ----------
    check : callable
        Raises if the slot no longer has a position.
    """

    def __init__(
        self, settings: PostgresSettings, env: Env, check: Callable[[LogPosition], None]
    ) -> None:
        self._settings = settings
        self._env = env
        self._check = check
        self._stream: ReplicationStream | None = None
        self._at = LogPosition(0)
        self._pending = _Pending()
        self._transaction = Transaction()
        self._known: dict[int, RelationVersion] = {}

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._stream is not None

    def read(
        self,
        start: LogPosition,
        limits: EpochLimits,
        oids: Callable[[], Collection[int]],
        end: LogPosition | None,
    ) -> LogRange:
        """Read a range; a broken connection is made again.

        Parameters
        ----------
        oids : callable
            Gives the tables whose TRUNCATE must stand alone.
        end : LogPosition or None
            Where exactly it ends, if that is known.
        """
        attempt = 0
        while True:
            try:
                return self._range(start, limits, oids, end)
            except StorageError as error:
                if error.kind != "cdc_unreachable" or attempt >= RECONNECTS_MAX:
                    raise
                RECONNECT.sleep(attempt, self._env.clock, self._env.rng)
                attempt += 1

    def _range(
        self,
        start: LogPosition,
        limits: EpochLimits,
        oids: Callable[[], Collection[int]],
        end: LogPosition | None,
    ) -> LogRange:
        is_whole = False
        try:
            if self._stream is None or self._at != start:
                self._open(start)
            if end is not None:
                found = self._taken(self._until(end))
            else:
                found = self._taken_on(self._gather(start, limits, oids))
            is_whole = True
        finally:
            # what was taken from the connection last may be lost, by an interrupt too
            if not is_whole:
                self.close()
        return found

    def confirm(self, position: LogPosition) -> bool:
        """Confirm on the open stream; False if there is none, or it broke."""
        if self._stream is None:
            return False
        try:
            self._stream.confirm(position.lsn)
        except StorageError:
            self.close()
            return False
        return True

    def close(self) -> None:
        """End the connection and forget what has arrived."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._pending, self._known = _Pending(), {}
        self._transaction = Transaction()

    def _open(self, start: LogPosition) -> None:
        self.close()
        self._check(start)
        for attempt in range(IN_USE_TRIES):
            try:
                self._stream = ReplicationStream(self._settings, start.lsn, self._env.clock)
            except ConflictError:
                if attempt == IN_USE_TRIES - 1:
                    raise
                IN_USE.sleep(attempt, self._env.clock, self._env.rng)
            else:
                break
        self._at = start

    def _pump(self, bytes_max: int) -> int:
        """Take what has arrived; gives the number of frames."""
        assert self._stream is not None
        frames = Frames()
        self._stream.read(frames, count_max=FRAMES_MAX, bytes_max=bytes_max)
        if not frames.lengths:
            return 0
        messages, self._transaction = scan(frames, self._transaction)
        had = count_read(messages, self._at)
        if had:
            self._known = relations_after(messages.part(0, had), self._known)
            messages = messages.part(had, len(messages))
        self._pending.add(messages)
        return len(frames.lengths)

    def _gather(
        self, start: LogPosition, limits: EpochLimits, oids: Callable[[], Collection[int]]
    ) -> Cut:
        assert self._stream is not None
        clock = self._env.clock
        began = clock.monotonic_seconds()
        first = heard = began
        asked = None
        while True:
            now = clock.monotonic_seconds()
            has_any = not self._pending.is_empty
            first = first if has_any else now
            if self._pending.is_full(limits):
                chosen = cut(self._pending.messages, limits.rows_max, limits.bytes_max, oids())
                if chosen is not None:
                    return chosen
            count = self._pump(limits.bytes_max)
            if count:
                heard = now
            if count >= FRAMES_FEW:
                continue
            left_ms = (
                limits.gather_ms - (now - first) * 1000
                if has_any
                else limits.wait_ms - (now - began) * 1000
            )
            if left_ms <= 0 and not has_any and asked is None:
                # without a wait too the server says to where it has decoded
                left_ms = ANSWER_MS_MAX
            if left_ms <= 0:
                chosen = cut(self._pending.messages, limits.rows_max, limits.bytes_max, oids())
                if chosen is not None:
                    return chosen
                if not self._transaction.is_open:
                    # what is left then says nothing, such as a message outside of transactions
                    return Cut(len(self._pending.messages), start)
                _give_up(now - heard, self._settings)
                left_ms = ASK_MS
            if not has_any and not count and (asked is None or now - asked >= ASK_MS / 1000):
                self._stream.answer(wants=True)
                asked = now
            if count:
                clock.sleep_ms(min(FEW_WAIT_MS, left_ms))
            else:
                self._stream.wait(min(left_ms, ASK_MS))

    def _until(self, end: LogPosition) -> Cut:
        assert self._stream is not None
        clock = self._env.clock
        heard = asked = clock.monotonic_seconds()
        while True:
            is_quiet = not self._transaction.is_open and not end.index
            if self._pending.last >= end or (is_quiet and self._stream.decoded_lsn >= end.lsn):
                return Cut(count_until(self._pending.messages, end), end)
            now = clock.monotonic_seconds()
            if self._pump(BYTES_TOGETHER):
                heard = now
                continue
            _give_up(now - heard, self._settings)
            if now - asked >= ASK_MS / 1000 or asked == heard:
                self._stream.answer(wants=True)
                asked = now
            self._stream.wait(ASK_MS)

    def _taken_on(self, chosen: Cut) -> LogRange:
        """Take a range that ends where we choose: behind it, as far as the server has decoded."""
        assert self._stream is not None
        position = chosen.position
        is_all = chosen.count == len(self._pending.messages)
        if is_all and not self._transaction.is_open and not position.index:
            position = max(position, LogPosition(self._stream.decoded_lsn))
        return self._taken(Cut(chosen.count, position))

    def _taken(self, chosen: Cut) -> LogRange:
        """Take a range out of what has arrived."""
        messages, position = self._pending.messages, chosen.position
        taken, rest = messages, NO_MESSAGES
        if chosen.count < len(messages):
            taken = messages.part(0, chosen.count)
            rest = messages.part(chosen.count, len(messages))
        known = self._known
        self._known = relations_after(taken, known)
        self._pending, self._at = _Pending(rest), position
        return LogRange(taken, known, position)


def _give_up(silence_seconds: float, settings: PostgresSettings) -> None:
    if silence_seconds * 1000 < SILENCE_MS_MAX:
        return
    message = (
        f"PostgreSQL at {settings.hostname}:{settings.port} has been silent for"
        f" {silence_seconds:.0f} s on the slot '{settings.slot}'."
    )
    raise StorageError(message, kind="cdc_unreachable")
