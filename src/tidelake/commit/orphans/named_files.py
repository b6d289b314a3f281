"""The names of all files that a table still needs, whoever needs them.

1. Look at its histories (:mod:`tidelake.commit.orphans.histories`): snapshots, long-lived
   changelogs, tags, branches. Consumers and leases hold snapshots, which are among them.
2. Read the lists of manifests, each once, then the manifests. Every file that an entry names
   counts, added or deleted, with its extra files, and so do manifests, lists, index manifests,
   index files, statistics, and what Iceberg's metadata shows.
3. A file counts by its name alone. Names are unique; a file of that name elsewhere is kept, too.

An error ends the search: then it is not known what is an orphan. A file that is missing is an error
unless what names it has expired meanwhile. These may be missing besides: the state's lists of a
long-lived changelog; both lists of a snapshot that is set aside or before EARLIEST, and of a tag
that came late (:mod:`tidelake.commit.expiry`); a snapshot's changelog, which expires before the
tags and branches that have the snapshot, and may be rolled back to.

Source: Paimon's ``OrphanFilesClean`` (1.3.1), which looks once and takes missing lists for empty.
Cost: each manifest of the table is read once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.commit.iceberg import shown_names
from tidelake.commit.orphans.histories import CHANGELOG, MAIN, SNAPSHOT, TAG, Histories, HistoryFile
from tidelake.errors import NotFoundError
from tidelake.format.compacted import slice_of
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.metadata.manifest.manifest_list import ManifestFile

MANIFESTS_AT_ONCE = 64
"""Manifests whose entries are in memory together."""
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class _User:
    """What names a manifest, and whether it needs it."""

    source: HistoryFile
    is_needed: bool


_Wanted: TypeAlias = tuple[ManifestFile, list[_User]]


class NamedFiles:
    """The names that a table needs; they grow with each :meth:`refresh`."""

    def __init__(self, context: CommitContext) -> None:
        self.histories = Histories(context)
        self._context = context
        self._read_sources: set[object] = set()
        self._read_manifests: set[str] = set()
        self._names: set[str] = set()
        self._columns: list[pa.Array] = []

    def refresh(self) -> None:
        """Look for all that names files, and read what is new.

        Raises
        ------
        NotFoundError, CorruptError
            Something that names files cannot be read, so it is not known which files it needs.
        StorageError
            A listing failed, or the histories change faster than they are read.
        """
        self.histories.refresh()
        self._names.update(shown_names(self._context))
        vital = self.histories.vital_ids()
        wanted: dict[str, _Wanted] = {}
        for key, source in self.histories.sources.items():
            if key in self._read_sources:
                continue
            self._read_sources.add(key)
            is_vital = source.kind == SNAPSHOT and (source.branch, source.snapshot.id) in vital
            self._read_beside(source)
            of_changelog = ((manifest, False) for manifest in self._of_changelog(source))
            of_state = self._of_state(source, is_vital=is_vital)
            for manifest, is_needed in itertools.chain(of_state, of_changelog):
                if manifest.file_name not in self._read_manifests:
                    users = wanted.setdefault(manifest.file_name, (manifest, []))[1]
                    users.append(_User(source, is_needed))
        waiting = list(wanted.values())
        for start in range(0, len(waiting), MANIFESTS_AT_ONCE):
            self._read_entries(waiting[start : start + MANIFESTS_AT_ONCE])

    def among(self, names: pa.Array) -> pa.Array:
        """Which of some file names are needed; a mask."""
        known = pa.array(sorted(self._names), pa.string())
        columns = pa.chunked_array([known, *self._columns], pa.string())
        return pc.is_in(names, value_set=columns)

    def reader_without_snapshot(self) -> str | None:
        """The consumer of a live lease whose snapshot is gone though its reader is not; or None.

        Nobody knows which files that reader still has before it.
        """
        context, histories = self._context, self.histories
        now_ms = context.env.clock.now_ms()
        there = {
            (source.branch, source.snapshot.id)
            for source in histories.sources.values()
            if source.kind != TAG
        }
        for branch in (MAIN, *sorted(histories.branches)):
            newest_id = histories.log(branch).latest_id() or 0
            consumers = ConsumerLog(context.fileio, histories.paths(branch))
            for name, state in consumers.states().items():
                lease = state.lease
                if lease is None or not lease.is_live(now_ms):
                    continue
                needed = lease.next_snapshot_id
                if 0 < needed <= newest_id and (branch, needed) not in there:
                    return name
        return None

    def _of_state(
        self, source: HistoryFile, *, is_vital: bool
    ) -> Iterator[tuple[ManifestFile, bool]]:
        """The manifests of a source's state, and whether it needs them; its lists are noted."""
        needs_state = source.kind != CHANGELOG
        missing: list[NotFoundError] = []
        for name, size_bytes in source.state_lists:
            try:
                listed = self._list(name, size_bytes)
            except NotFoundError as error:
                missing.append(error)
                continue
            yield from ((manifest, needs_state) for manifest in listed)
        if not (missing and needs_state):
            return
        if is_vital or len(missing) < len(source.state_lists):
            self._check_expired(source, missing[0])
        else:
            _LOG.warning(
                "%s of table '%s' names lists that are gone: it came late, and keeps nothing.",
                source.path,
                self._context.table,
            )

    def _of_changelog(self, source: HistoryFile) -> Iterator[ManifestFile]:
        """The manifests of a source's own changelog, as far as it has not expired."""
        snapshot = source.snapshot
        if snapshot.changelog_manifest_list is None:
            return
        size_bytes = snapshot.changelog_manifest_list_size_bytes
        with contextlib.suppress(NotFoundError):
            yield from self._list(snapshot.changelog_manifest_list, size_bytes)

    def _list(self, name: str, size_bytes: int | None) -> Sequence[ManifestFile]:
        context = self._context
        self._names.add(name)
        return context.manifests.manifest_list(
            context.fileio, context.paths, name, size_bytes=size_bytes
        )

    def _check_expired(self, source: HistoryFile, error: NotFoundError) -> None:
        """Raise an error unless what names a missing file has gone meanwhile, too."""
        if not self._context.fileio.exists(source.path):
            return
        message = (
            f"{source.path} of table '{self._context.table}' names a file that is missing"
            f" ({error}), so it is not known which files the table needs, and nothing was removed."
            " If an expiry was killed, expire snapshots again; else restore the file from a backup."
        )
        raise NotFoundError(message, kind="orphans_unknown", path=source.path) from error

    def _read_beside(self, source: HistoryFile) -> None:
        """Note index files and statistics of a source."""
        context, snapshot = self._context, source.snapshot
        if snapshot.statistics is not None:
            self._names.add(snapshot.statistics)
        if snapshot.index_manifest is None:
            return
        self._names.add(snapshot.index_manifest)
        try:
            entries = index_entries(context.fileio, context.paths, snapshot, context.manifests)
        except NotFoundError as error:
            delta = context.paths.manifest(snapshot.delta_manifest_list)
            if source.kind != CHANGELOG and context.fileio.exists(delta):
                self._check_expired(source, error)
            return
        self._names.update(entry.file.file_name for entry in entries)

    def _read_entries(self, wanted: Sequence[_Wanted]) -> None:
        """Note manifests and the files that their entries name."""
        context = self._context
        files = [manifest for manifest, _ in wanted]
        self._names.update(file.file_name for file in files)
        try:
            tables = context.manifests.all_entries(context.fileio, context.paths, files)
        except NotFoundError as error:
            if len(wanted) > 1:
                for one in wanted:
                    self._read_entries([one])
                return
            for user in wanted[0][1]:
                if user.is_needed:
                    self._check_expired(user.source, error)
            return
        for table in tables:
            names = table["file_name"]
            self._columns += [names, table["extra_files"].flatten()]
            self._names.update(_owners(names))
        self._read_manifests.update(file.file_name for file in files)


def _owners(names: pa.Array) -> Iterator[str]:
    """The files of which some names are parts."""
    parts = names.filter(pc.starts_with(names, "compacted-changelog-"))
    for name in parts.to_pylist():
        part = slice_of(f"/t/bucket-0/{name}")
        if part is not None:
            yield part.path.rpartition("/")[2]
