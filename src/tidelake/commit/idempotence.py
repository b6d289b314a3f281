"""Finds out whether a commit was made before, so that it takes effect once.

A commit is identified by (user, identifier, kind). Each attempt searches all snapshots up to its
base for this identity. An attempt that lost the race for the next id searches the new ones. So a
job that seemed dead and its successor cannot both succeed.

1. Walk back from the base. Each snapshot is read once per commit, whatever the number of attempts.
2. Stop at a snapshot of the same user with a smaller identifier: a user's identifiers rise.
3. A batch of a stream says which commit it follows. If that is not found on the way, the table was
   rolled back (:mod:`tidelake.commit.stream_step`).
4. Batch writes share one identifier. A snapshot with it belongs to this commit only if it names one
   of the commit's files (:class:`OwnFiles`), and only the snapshots since the writer's base are
   searched.

Cost: the snapshots since the user's last commit, normally none or one. For a user without commits
all kept snapshots are read, once, in batches, and not parsed; expiry bounds their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.commit.context import CommitContext
from tidelake.commit.delta import Compaction
from tidelake.commit.stream_step import StreamStep, check_follows
from tidelake.metadata.data_file import CommitMessage, FileKind
from tidelake.metadata.log.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.telemetry import Executor

BATCH_LOOK_BACK = 4
"""Snapshots searched for a batch write whose base is not known: enough for a commit tried again."""


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Names of the files by which a snapshot is recognised as one of a batch write.

    A file is added once and removed from its level once, so that one common name is enough.

    Parameters
    ----------
    index_files : frozenset of str
        New index files; they count where no data file is added or compacted.
    removed : frozenset of str
        Data files that are removed without a compaction; as `index_files`.
    """

    added: frozenset[str] = frozenset()
    compacted: frozenset[str] = frozenset()
    index_files: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, messages: Sequence[CommitMessage], compactions: Sequence[Compaction]) -> OwnFiles:
        """The files of a commit's messages and of their compactions."""
        return cls(
            frozenset(f.file_name for m in messages for f in m.new_files),
            frozenset(f.file_name for c in compactions for f in c.before),
            frozenset(f.file_name for m in messages if m.deletions for f in m.deletions.added),
            frozenset(f.file_name for m in messages for f in m.removed_files),
        )

    def are_in(self, context: CommitContext, snapshot: Snapshot) -> bool:
        """Whether a snapshot adds or removes one of the files."""
        if snapshot.commit_kind is CommitKind.COMPACT:
            kind, names = FileKind.DELETE, self.compacted
        else:
            kind, names = FileKind.ADD, self.added
        if not names and self.index_files:
            entries = context.index_entries(snapshot)
            return any(entry.file.file_name in self.index_files for entry in entries)
        if not names:
            kind, names = FileKind.DELETE, self.removed
        if not names:
            return False
        delta = context.delta(snapshot)
        found = delta.take(delta["kind"] == kind)["file_name"].to_pylist()
        return not names.isdisjoint(found)


class DuplicateCheck:
    """Finds the snapshots that one commit made. Not thread-safe.

    Attributes
    ----------
    list_names : set of str
        The manifest lists that this commit wrote; whoever writes one adds it. Batch writes are
        recognised by them, too.
    """

    def __init__(
        self,
        context: CommitContext,
        *,
        user: str,
        identifier: int,
        base_snapshot_id: int | None,
        own_files: OwnFiles,
        step: StreamStep | None = None,
    ) -> None:
        self._context = context
        self.user = user
        self.identifier = identifier
        self.list_names: set[str] = set()
        self._own_files = own_files
        self.step = step
        self._older: Snapshot | None = None
        """The newest commit of the user before this one, as the first attempt found it."""
        self._has_searched = False
        self._is_batch = identifier == BATCH_IDENTIFIER
        self._searched_to: int | None = base_snapshot_id if self._is_batch else 0
        self._by_kind: dict[CommitKind, Snapshot] = {}

    def find(self, kind: CommitKind, base: Snapshot | None) -> Snapshot | None:
        """The snapshot of this commit and kind in the history of `base`; None if there is none.

        Raises
        ------
        InvalidInputError
            The commit is a batch of a stream, and the commit before it was rolled back.
        """
        if base is not None:
            if self._searched_to is None:
                self._searched_to = max(0, base.id - BATCH_LOOK_BACK)
            self._search(base, self._searched_to)
            self._searched_to = max(self._searched_to, base.id)
        found = self._by_kind.get(kind)
        if found is None and self.step is not None and kind is not CommitKind.COMPACT:
            # what an earlier attempt found may be rolled back by now
            check_follows(self._context, None if self._has_searched else self._older, self.step)
            self._has_searched = True
        return found

    def _search(self, base: Snapshot, searched_to: int) -> None:
        if base.id <= searched_to:
            return
        context = self._context
        older = context.log.of_user(
            self.user, before=base.id, down_to=searched_to + 1, executor=context.env.executor
        )
        for snapshot in itertools.chain([base], older):
            if snapshot.commit_user != self.user:
                continue
            if snapshot.commit_identifier == self.identifier:
                if not self._is_batch or self._is_own(snapshot):
                    self._by_kind.setdefault(snapshot.commit_kind, snapshot)
            elif snapshot.commit_identifier < self.identifier and not self._is_batch:
                self._older = snapshot
                return

    def _is_own(self, snapshot: Snapshot) -> bool:
        """Whether a batch write's snapshot names a file of this commit."""
        is_listed = snapshot.delta_manifest_list in self.list_names
        return is_listed or self._own_files.are_in(self._context, snapshot)


def last_commit(log: SnapshotLog, user: str, executor: Executor) -> Snapshot | None:
    """Find the newest snapshot of a user that is not a batch write; None without one."""
    latest = log.latest()
    if latest is None:
        return None
    older = log.of_user(user, before=latest.id, down_to=1, executor=executor)
    for snapshot in itertools.chain([latest], older):
        if snapshot.commit_user == user and snapshot.commit_identifier != BATCH_IDENTIFIER:
            return snapshot
    return None
