"""How keys are looked up, whatever goes wrong.

1. Keys are cut into parts, one or more per executor, and all parts are asked at once.
2. The failure of a part says what comes next
   (:mod:`tidelake.service.client.connection.failures`). Only the keys without an answer are asked
   again: perhaps elsewhere, perhaps in smaller parts.
3. If all keys must be answered from one snapshot, the parts behind the newest are asked again with
   that as the least. A table without commits meets at once; one with commits all the time within a
   few rounds.
4. An answer older than one that this client has shown meanwhile is asked again.
5. The deadline ends it with the last failure as the cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelake.errors import InvalidInputError, StorageError
from tidelake.service.client.calls import called
from tidelake.service.client.connection.failures import Failure, Remedy
from tidelake.service.client.keys.key_batch import KeyBatch
from tidelake.service.client.keys.key_router import Positions, RequestPart
from tidelake.service.client.session import Floor, ServiceView, Session
from tidelake.service.client.settings import (
    ATTEMPT_SECONDS_MAX,
    CALL_BYTES_MAX,
    CALL_KEYS_MAX,
    GONE_SECONDS,
    MEETINGS_AT_ONCE,
    MEETINGS_MAX,
    MISSING_SECONDS_MAX,
    ODD_MAX,
    PAUSES,
)
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.reasons import PROTOCOL
from tidelake.types.schema import DataField


class GoneError(StorageError):
    """Nobody answers, and the caller allowed to read the table itself."""

    default_kind = "service_unavailable"


class KeyChangedError(InvalidInputError):
    """The table was recreated with a key of other types while its keys were looked up."""

    default_kind = "table_altered"


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """What is asked of a lookup.

    Parameters
    ----------
    columns : tuple of str, optional
        None for all.
    min_snapshot : int, optional
        The least snapshot.
    consistent : bool
        Whether all keys are answered from one snapshot.
    """

    columns: tuple[str, ...] | None
    min_snapshot: int | None
    consistent: bool
    end: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What one part was answered."""

    part: RequestPart
    floor: Floor
    reply: pb.LookupReply
    fields: list[DataField]


@dataclass(slots=True)
class _Progress:
    """What a lookup has and lacks."""

    keys_max: int
    answers: list[Answer] = field(default_factory=list)
    least: Floor = field(default_factory=lambda: Floor(0, 0))
    failure: Failure | None = None
    attempt: int = 0
    odd: int = 0
    meetings: int = 0
    missing_since: float | None = None
    unreachable_since: float | None = None

    def answered(self) -> None:
        self.attempt = 0
        self.missing_since = self.unreachable_since = None


async def lookup(session: Session, batch: KeyBatch, options: LookupOptions) -> list[Answer]:
    """Look keys up.

    Parameters
    ----------
    batch : KeyBatch
        The keys, at least one.

    Returns
    -------
    list of Answer
        Together they have every key once; of keys that go to all executors, every key of each.

    Raises
    ------
    TidelakeError
        An error that no repetition mends, or the deadline is over.
    """
    progress = _Progress(keys_max=CALL_KEYS_MAX)
    every: Positions = np.arange(batch.count, dtype=np.int64)
    parts: list[RequestPart] = []
    pending = every
    view = session.view
    while True:
        if view is None:
            failure = await session.caller.aside(session.locate, None, reopen=False)
            if failure is not None:
                await _recover(session, progress, [failure], options)
            view = session.view
            continue
        if view.keys.types != batch.keys.types:
            raise _key_changed(session, view)
        progress.least = max(progress.least, session.least(options.min_snapshot))
        if len(pending):
            parts = _cut(batch, view, pending, progress.keys_max)
        outcomes = await _ask(session, view, batch, parts, options, progress)
        failures = [o for o in outcomes if isinstance(o, Failure)]
        progress.answers += [o for o in outcomes if isinstance(o, Answer)]
        left = [p for p, o in zip(parts, outcomes, strict=True) if isinstance(o, Failure)]
        if not failures:
            progress.answered()
            left = _behind(session, view, progress, options)
            if not left:
                return progress.answers
            await _wait_for_others(session, progress, options)
        else:
            _learn(session, view, parts, outcomes)
            await _recover(session, progress, failures, options)
        before, view = view, session.view
        assert view is not None, "a view is only replaced"
        if view.router.asks_all:
            parts, pending = _again_from_all(before, view, left, every, progress)
        else:
            pending = np.concatenate([p.positions for p in left])


def _key_changed(session: Session, view: ServiceView) -> KeyChangedError:
    shown = ", ".join(f"{f.name} {f.type.as_nullable()}" for f in view.keys.fields)
    message = (
        f"Table '{session.identifier}' was dropped and created again while it was asked, and its"
        f" key is ({shown}) now: ask again."
    )
    return KeyChangedError(message, table=session.identifier)


def _cut(
    batch: KeyBatch, view: ServiceView, positions: Positions, keys_max: int
) -> list[RequestPart]:
    parts = batch.parts(view.router, positions)
    return [piece for part in parts for piece in part.pieces(keys_max)]


def _again_from_all(
    before: ServiceView,
    view: ServiceView,
    left: list[RequestPart],
    every: Positions,
    progress: _Progress,
) -> tuple[list[RequestPart], Positions]:
    """Where every executor is asked for every key: the parts to ask again, or every key."""
    if view.router.executors_count == before.router.executors_count:
        pieces = [piece for part in left for piece in part.pieces(progress.keys_max)]
        return pieces, every[:0]
    progress.answers.clear()
    return [], every


async def _ask(
    session: Session,
    view: ServiceView,
    batch: KeyBatch,
    parts: Sequence[RequestPart],
    options: LookupOptions,
    progress: _Progress,
) -> list[Answer | Failure]:
    """Ask all parts at once; the outcome of each."""
    outcomes: dict[int, Answer | Failure] = {}
    requests, asked = [], []
    body = view.body(options.columns)
    for index, part in enumerate(parts):
        if part.executor not in view.executors:
            outcomes[index] = _unregistered(session, part.executor)
            continue
        request = _request(session, view, batch, part, options, progress.least)
        request.body = body
        if len(part.positions) > 1 and request.keys.ByteSize() > CALL_BYTES_MAX:
            outcomes[index] = Failure(Remedy.SPLIT, _too_large(session))
            continue
        requests.append((part.executor, request))
        asked.append(index)
    seconds = min(options.end - session.now(), ATTEMPT_SECONDS_MAX)
    replies = await called(session, view, requests, max(seconds, 0.001)) if requests else []
    for index, reply in zip(asked, replies, strict=True):
        if isinstance(reply, Failure):
            outcomes[index] = reply
            continue
        fields = session.known_fields(reply.version, options.columns)
        if fields is None:
            await session.caller.aside(session.read_schema, reply.version)
            fields = session.known_fields(reply.version, options.columns)
            assert fields is not None, "it was read"
        outcomes[index] = Answer(parts[index], floor_of(reply.version), reply, fields)
    return [outcomes[index] for index in range(len(parts))]


def _request(
    session: Session,
    view: ServiceView,
    batch: KeyBatch,
    part: RequestPart,
    options: LookupOptions,
    least: Floor,
) -> pb.LookupRequest:
    return pb.LookupRequest(
        protocol=PROTOCOL,
        table=session.identifier,
        epoch=view.layout.epoch,
        at_least=pb.Version(
            generation=least.generation, snapshot=least.snapshot, schema=view.table.table_schema.id
        ),
        slices=[
            pb.Slice(partition=r.partition, bucket=r.bucket, count=r.keys_count, buckets=r.buckets)
            for r in part.runs
        ],
        keys=batch.packed(part.positions),
        columns=options.columns or (),
    )


def _learn(
    session: Session,
    view: ServiceView,
    parts: Sequence[RequestPart],
    outcomes: Sequence[Answer | Failure],
) -> None:
    """Take over what executors said about the number of buckets of partitions."""
    counts = {
        part.runs[index].partition: count
        for part, outcome in zip(parts, outcomes, strict=True)
        if isinstance(outcome, Failure)
        for index, count in outcome.bucket_counts.items()
        if index < len(part.runs) and count > 0
    }
    if counts:
        session.recount(view, counts)


def _behind(
    session: Session, view: ServiceView, progress: _Progress, options: LookupOptions
) -> list[RequestPart]:
    """Parts whose answers do not count: older than others, or than what was shown meanwhile."""
    answers = progress.answers
    newest = max(a.floor for a in answers)
    together = options.consistent or view.router.asks_all
    least = newest if together else min(a.floor for a in answers)
    behind = [a for a in answers if a.floor < least]
    if not behind and len({a.reply.version.schema for a in answers}) > 1:
        schema = max(a.reply.version.schema for a in answers)
        behind = [a for a in answers if a.reply.version.schema < schema]
    if not behind and not _shown(session, least, newest):
        shown = session.shown
        behind = [a for a in answers if a.floor < shown]
        newest = max(newest, shown)
    if behind:
        progress.meetings += 1
        progress.least = max(progress.least, newest)
        old = set(map(id, behind))
        progress.answers = [a for a in answers if id(a) not in old]
    return [a.part for a in behind]


async def _wait_for_others(session: Session, progress: _Progress, options: LookupOptions) -> None:
    """Give executors time that are behind; raise where they do not meet within the deadline.

    An executor that is asked for a newer snapshot looks for it at once. Of a newer schema it hears
    by the address server only, a few times a second.
    """
    seconds = options.end - session.now()
    if progress.meetings > MEETINGS_MAX or seconds <= 0:
        message = (
            f"The executors of table '{session.identifier}' did not meet at one snapshot in"
            f" {progress.meetings} rounds: it changes all the time. Ask for fewer keys at once, or"
            " with consistent=False."
        )
        raise StorageError(message, kind="service_inconsistent", table=session.identifier)
    if progress.meetings > MEETINGS_AT_ONCE:
        ms = PAUSES.wait_ms(progress.meetings - MEETINGS_AT_ONCE, session.catalog.env.rng)
        await session.caller.pause(min(ms, seconds * 1000))


def _shown(session: Session, oldest: Floor, newest: Floor) -> bool:
    """Whether the answers may be shown: none is older than what was."""
    return oldest >= session.shown and session.show(newest)


async def _recover(
    session: Session, progress: _Progress, failures: Sequence[Failure], options: LookupOptions
) -> None:
    """Do what the failures ask for, or raise."""
    worst = max(failures, key=_rank)
    progress.failure = worst
    if any(f.remedy is Remedy.SPLIT for f in failures):
        if progress.keys_max <= 1:
            raise worst.error
        progress.keys_max = max(progress.keys_max // 2, 1)
    if worst.remedy is Remedy.NONE:
        raise worst.error
    progress.odd += worst.is_odd
    if progress.odd > ODD_MAX:
        raise worst.error
    _check_patience(session, progress, worst, options)
    view = session.view
    if worst.remedy in PAUSED:
        ms = PAUSES.wait_ms(progress.attempt, session.catalog.env.rng)
        progress.attempt += 1
        await session.caller.pause(min(ms, max(options.end - session.now(), 0) * 1000))
    if worst.remedy in LOCATED:
        reopen = worst.remedy is Remedy.REOPEN
        failure = await session.caller.aside(session.locate, view, reopen=reopen)
        if failure is not None:
            # one failure leads to the next until the deadline: each waits before it tries
            await _recover_locating(session, progress, failure, options, reopen=reopen)
    if session.now() >= options.end:
        raise _over(session, worst)


async def _recover_locating(
    session: Session,
    progress: _Progress,
    failure: Failure,
    options: LookupOptions,
    *,
    reopen: bool,
) -> None:
    """Wait and locate until that succeeds; a table that has to be opened again is, in the end."""
    while True:
        progress.failure = failure
        if failure.remedy is Remedy.NONE:
            raise failure.error
        _check_patience(session, progress, failure, options)
        if session.now() >= options.end:
            raise _over(session, failure)
        ms = PAUSES.wait_ms(progress.attempt, session.catalog.env.rng)
        progress.attempt += 1
        await session.caller.pause(min(ms, max(options.end - session.now(), 0) * 1000))
        reopen = reopen or failure.remedy is Remedy.REOPEN
        again = await session.caller.aside(session.locate, session.view, reopen=reopen)
        if again is None:
            return
        failure = again


PAUSED = frozenset({Remedy.WAIT, Remedy.WAIT_AND_LOCATE, Remedy.LOCATE, Remedy.REOPEN})
LOCATED = frozenset({Remedy.WAIT_AND_LOCATE, Remedy.LOCATE, Remedy.REOPEN})
RANKS = {remedy: rank for rank, remedy in enumerate(Remedy)}


def _rank(failure: Failure) -> int:
    return RANKS[failure.remedy]


def _check_patience(
    session: Session, progress: _Progress, failure: Failure, options: LookupOptions
) -> None:
    """Raise where a failure has lasted longer than it is waited for."""
    if not failure.is_missing:
        progress.missing_since = None
    elif progress.missing_since is None:
        progress.missing_since = session.now()
    elif session.now() - progress.missing_since > MISSING_SECONDS_MAX:
        raise failure.error
    if not failure.is_unreachable:
        progress.unreachable_since = None
        return
    if progress.unreachable_since is None:
        progress.unreachable_since = session.now()
    long = session.now() - progress.unreachable_since > GONE_SECONDS
    if session.settings.fallback and (long or session.now() >= options.end):
        raise GoneError(failure.error.message, table=session.identifier) from failure.error


def _over(session: Session, failure: Failure) -> StorageError:
    if session.settings.fallback:
        return GoneError(failure.error.message, table=session.identifier)
    seconds = session.settings.deadline_seconds
    message = (
        f"Table '{session.identifier}' was not answered within {seconds:g} seconds:"
        f" {failure.error.message} Give more deadline_seconds, or fallback=True to read the"
        " table's files instead."
    )
    error = StorageError(message, kind="service_unavailable", table=session.identifier)
    error.__cause__ = failure.error
    return error


def _unregistered(session: Session, executor: int) -> Failure:
    message = (
        f"Executor {executor} of table '{session.identifier}' does not report to its service: it"
        " starts, or it hangs and another replaces it."
    )
    error = StorageError(message, kind="service_unavailable", table=session.identifier)
    return Failure(Remedy.WAIT_AND_LOCATE, error, is_unreachable=True)


def _too_large(session: Session) -> StorageError:
    message = (
        f"A key of table '{session.identifier}' has more than {CALL_BYTES_MAX} bytes, more than"
        " one request may have."
    )
    return StorageError(message, kind="service_limit", table=session.identifier)


def floor_of(version: pb.Version) -> Floor:
    """The order of versions."""
    return Floor(version.generation, version.snapshot)
