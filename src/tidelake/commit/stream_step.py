"""Tells whether a batch of a stream that comes again is the same work as the commit of its number.

A stream commits batch N under its user and the identifier N. The number alone proves nothing: a
checkpoint that was restored from a copy plans N anew, perhaps with more rows. So

1. each commit of a stream keeps what it covers in its snapshots' ``properties``: digests of the
   offsets of its sources before and after the batch, and the offsets as text, for messages;
2. a batch whose number was committed is the same work if its offsets are the same. Others are
   refused: the rows of one of the two would be lost;
3. a batch whose number lies before the newest commit, and of which no commit is left, had no rows
   or has expired. It is the same work if the commit of the next number began where it ends;
4. the checkpoint keeps the last commit that it has acknowledged (:class:`MadeCommit`). If it is no
   longer in the table's history, and has not expired, the table was rolled back under the stream:
   the rows of that commit would never come again, so the next batch is refused.

Commits of older versions keep no offsets: of them the number decides, as before. Cost: nothing, for
a stream whose newest commit is the last one that it acknowledged; else one or a few small reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Self

from tidelake.commit.context import CommitContext
from tidelake.errors import InvalidInputError, shortened
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, Snapshot

COVERS = "tidelake.stream-covers"
"""Key in a snapshot's properties (on disk: never rename)."""
DIGEST_BYTES = 16
TEXT_CHARS_MAX = 1_000
"""Longer offsets are cut in properties and messages; the digests are of the whole."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What a commit of a stream covers.

    Parameters
    ----------
    begin : str, optional
        Digest of the offsets before it; None if they are not known any more.
    end : str
        Digest of the offsets behind it.
    offsets : str
        The offsets behind it, for messages; cut if they are long.
    """

    begin: str | None
    end: str
    offsets: str

    @classmethod
    def between(cls, begin: str | None, end: str) -> Self:
        """Take the texts of the offsets before and behind a batch; ``""`` is before the first."""
        known = None if begin is None else _digest(begin)
        return cls(known, _digest(end), shortened(end, TEXT_CHARS_MAX))

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self | None:
        """Read what a snapshot says; None if it says nothing, or nothing that is understood."""
        try:
            found = json.loads((snapshot.properties or {}).get(COVERS, ""))
            begin = found["from"]
            return cls(None if begin is None else str(begin), str(found["to"]), found["offsets"])
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def properties(self) -> dict[str, str]:
        """What the snapshots of the commit carry."""
        document = {"from": self.begin, "to": self.end, "offsets": self.offsets}
        return {COVERS: json.dumps(document, ensure_ascii=False)}


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """A commit that a stream has acknowledged.

    Parameters
    ----------
    snapshot_id : int
        The first snapshot of the commit, which has its rows.
    identity : str
        That snapshot's :attr:`~tidelake.metadata.log.snapshot.Snapshot.identity`.
    end : str, optional
        Digest of the offsets behind the batch.
    """

    identifier: int
    snapshot_id: int
    identity: str
    end: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """The commit of a snapshot."""
        covered = Covered.of(snapshot)
        end = None if covered is None else covered.end
        return cls(snapshot.commit_identifier, snapshot.id, snapshot.identity, end)

    def to_json(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read it; ``ValueError`` if the text is something else."""
        try:
            found = json.loads(text)
            end = found["end"]
            return cls(
                int(found["identifier"]),
                int(found["snapshot_id"]),
                str(found["identity"]),
                None if end is None else str(end),
            )
        except (KeyError, TypeError) as error:
            message = f"no commit of a stream: {error!r}"
            raise ValueError(message) from error


@dataclass(frozen=True, slots=True)
class StreamStep:
    """One batch of a stream: what it covers, and the commit that it follows.

    Parameters
    ----------
    before : MadeCommit, optional
        The last commit that the stream has acknowledged.
    """

    covered: Covered
    before: MadeCommit | None = None


def committed_batch(
    context: CommitContext, user: str, identifier: int, step: StreamStep
) -> tuple[bool, Snapshot | None]:
    """Find out whether a batch is committed, and the first snapshot of its commit if it is kept.

    Raises
    ------
    InvalidInputError
        The number was committed with other rows (kind ``checkpoint_behind``), or the table was
        rolled back under the stream (kind ``target_rolled_back``).
    """
    commits = _commits(context, user)
    last = next(commits, None)
    check_follows(context, last, step)
    before, end = step.before, step.covered.end
    if last is None or last.commit_identifier < identifier:
        if before is None or before.identifier < identifier:
            return False, None
        if before.identifier == identifier and before.end in {None, end}:
            return True, None  # the commit has expired
        raise _behind(context, identifier, step, last, None)
    found, later = None, None
    for snapshot in (last, *_from(commits, identifier)):
        if snapshot.commit_identifier == identifier:
            found = snapshot
        elif snapshot.commit_identifier > identifier:
            later = snapshot
    own = None if found is None else Covered.of(found)
    if found is not None:
        if own is None or own.end == end:
            return True, found
        raise _behind(context, identifier, step, last, own)
    following = None if later is None else Covered.of(later)
    if (
        later is not None
        and following is not None
        and later.commit_identifier == identifier + 1
        and following.begin == end
    ):
        return True, None
    raise _behind(context, identifier, step, last, None)


def check_follows(context: CommitContext, last: Snapshot | None, step: StreamStep) -> None:
    """Refuse a batch if the commit before it was removed by a rollback.

    Parameters
    ----------
    last : Snapshot, optional
        The user's newest snapshot, or its newest before this batch.

    Raises
    ------
    InvalidInputError
        The table was rolled back to before that commit.
    """
    before = step.before
    if before is None or (last is not None and last.commit_identifier == before.identifier):
        return
    log = context.log
    found = log.find(before.snapshot_id)
    if found is not None:
        if found.identity == before.identity:
            return
    else:
        earliest_id = log.earliest_id()
        if earliest_id is not None and before.snapshot_id < earliest_id:
            return  # expired
    raise _rolled_back(context, last, before)


def _commits(context: CommitContext, user: str) -> Iterator[Snapshot]:
    """The commits of a stream, newest first."""
    log = context.log
    latest = log.latest()
    if latest is None:
        return
    if latest.commit_user == user and latest.commit_identifier != BATCH_IDENTIFIER:
        yield latest
    for snapshot in log.of_user(user, before=latest.id, down_to=1, executor=context.env.executor):
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            yield snapshot


def _from(commits: Iterator[Snapshot], identifier: int) -> Iterator[Snapshot]:
    """The commits from a number on."""
    for snapshot in commits:
        if snapshot.commit_identifier < identifier:
            return
        yield snapshot


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _reached(last: Snapshot | None) -> str:
    """Say where the commits of a stream end."""
    covered = None if last is None else Covered.of(last)
    if last is None or covered is None:
        return ""
    return f"; the last commit, of batch {last.commit_identifier}, ends at {covered.offsets}"


def _behind(
    context: CommitContext,
    identifier: int,
    step: StreamStep,
    last: Snapshot | None,
    own: Covered | None,
) -> InvalidInputError:
    if own is None:
        what = f"batches behind {identifier} are committed, and what it had is not known any more"
    else:
        what = f"batch {identifier} is committed with the offsets {own.offsets}"
    message = (
        f"Stream into table '{context.table}': the checkpoint is older than the table. It would"
        f" write batch {identifier} up to {step.covered.offsets}, but {what}. Nothing was written."
        " Put the newest state of the checkpoint back. If it is lost, begin with a new checkpoint"
        f" where the commits end, by 'scan.mode' and the like{_reached(last)}."
    )
    return InvalidInputError(
        message, kind="checkpoint_behind", table=context.table, batch=identifier
    )


def _rolled_back(
    context: CommitContext, last: Snapshot | None, before: MadeCommit
) -> InvalidInputError:
    message = (
        f"Stream into table '{context.table}': the table was rolled back to before snapshot"
        f" {before.snapshot_id}, the commit of batch {before.identifier}, which the checkpoint has"
        " as done: its rows would never come again. Nothing was written. Put a state of the"
        " checkpoint back that is as old as the table, or begin with a new checkpoint where the"
        f" commits end, by 'scan.mode' and the like{_reached(last)}."
    )
    return InvalidInputError(
        message,
        kind="target_rolled_back",
        table=context.table,
        snapshot=before.snapshot_id,
        batch=before.identifier,
    )
