"""How a snapshot becomes visible: the port between the publisher and what decides the next id.

Two ways fulfil it. In a plain warehouse the storage decides: the snapshot's file is put if it is
absent (:mod:`tidelake.commit.store_snapshot_commit`). Behind a catalog with a server the server
decides: the snapshot is sent to it (:mod:`tidelake.catalog.rest.server_commit`).

Both compete for one id: of several snapshots with it at most one becomes visible. So an attempt
that is in doubt may be followed by another one: if the first takes effect late, the second loses,
and the publisher finds the first in the table's history.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from tidelake.errors import ConflictError, OutcomeUnknownError, TidelakeError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable


class Outcome(enum.Enum):
    """What became of one attempt."""

    PUBLISHED = enum.auto()
    """The snapshot is visible."""
    LOST = enum.auto()
    """It is not and never will be: another snapshot has its id, or its base is gone."""
    TAKEN_BACK = enum.auto()
    """It was for a moment and never will be again. Another commit may have read it and name its
    files: these stay, and are orphans where none does."""
    IN_DOUBT = enum.auto()
    """It is not visible now, and may become so: none of its files may be deleted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A snapshot that is ready to become visible; its manifests are written.

    Parameters
    ----------
    base : Snapshot or None
        The newest snapshot when it was made; None for the empty table.
    """

    snapshot: Snapshot
    base: Snapshot | None
    entries: EntryTable


class SnapshotCommit(Protocol):
    """Decides which snapshot is the next one of a table."""

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None for a table without any.

        Raises
        ------
        NotFoundError
            The table was dropped.
        StorageError
            It cannot be told.
        """
        ...

    def publish(self, candidate: Candidate) -> Outcome:
        """Try once to make a snapshot visible.

        Raises
        ------
        NotFoundError
            The table was dropped, and perhaps created again. Nothing became visible.
        StorageRefusedError
            It was refused. Nothing became visible.
        StorageError
            It failed before the snapshot was sent. Nothing became visible.
        OutcomeUnknownError
            It failed, and it cannot be found out whether the snapshot is visible.
        """
        ...


def is_same_snapshot(ours: Snapshot, found: Snapshot) -> bool:
    """Whether a snapshot that was found is the one of this attempt."""
    return _marks(ours) == _marks(found)


def _marks(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
    )


def outcome_unknown(table: str, cause: TidelakeError) -> OutcomeUnknownError:
    """Make the error for a commit that may be visible."""
    why = str(cause)
    if isinstance(cause, ConflictError):  # of the attempt after the one in doubt
        why = f"an attempt was not answered, and the next one did not succeed: {cause.kind}"
    message = (
        f"The storage failed while a commit to table '{table}' was being published, and"
        f" it is unknown whether the commit is visible ({why}). Nothing was deleted. Look at"
        " the newest snapshots, or write again with the same commit user and identifier."
    )
    return OutcomeUnknownError(message, table=table)
