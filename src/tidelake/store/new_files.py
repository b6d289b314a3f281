"""The data files of one writer: their names, and the writer's next commit message.

Names are ``<prefix><uuid>-<i>.<format>`` with one uuid per writer, so names of two writers never
clash; data files and changelog files differ by their prefix and are counted together.
A file in a commit message belongs to the commit: it may be visible, and the writer never deletes
it. Only the writer knows any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from tidelake.errors import StorageError
from tidelake.format import file_suffix
from tidelake.format.file_index import INDEX_SUFFIX
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.options.declared import CHANGELOG_FILE_PREFIX, DATA_FILE_PREFIX
from tidelake.options.file_index import file_index_settings
from tidelake.store.context import StoreContext
from tidelake.telemetry import ProcessMark


class NewFiles:
    """The files of one writer."""

    def __init__(self, context: StoreContext, partition: bytes, bucket: int) -> None:
        self._context = context
        self._partition = partition
        self._bucket = bucket
        self.writer_id = context.env.ids.uuid()
        self._prefix = context.options.get(DATA_FILE_PREFIX)
        self._changelog_prefix = context.options.get(CHANGELOG_FILE_PREFIX)
        self._mark = ProcessMark()
        self._has_index = bool(file_index_settings(context.options))
        self._count = 0
        self._unknown: dict[str, str] = {}
        self._new: list[DataFileMeta] = []
        self._before: list[DataFileMeta] = []
        self._after: list[DataFileMeta] = []
        self._changelog: list[DataFileMeta] = []
        self._compact_changelog: list[DataFileMeta] = []

    def next_file(self, *, level: int = 0, changelog: bool = False) -> tuple[str, str]:
        """Return the name and the path of the next file, for a level; it counts as made."""
        suffix = file_suffix(self._context.options, level=level, changelog=changelog)
        prefix = self._changelog_prefix if changelog else self._prefix
        name = f"{prefix}{self.writer_id}-{self._count}{suffix}"
        self._count += 1
        path = self._context.paths.data_file(self._partition, self._bucket, name)
        self._unknown[name] = path
        if self._has_index:
            self._unknown[name + INDEX_SUFFIX] = path + INDEX_SUFFIX
        return name, path

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Record files of new rows for the next message."""
        self._new.extend(files)

    @property
    def has_new(self) -> bool:
        """Whether the next message names files of new rows."""
        return bool(self._new)

    def add_changelog(self, files: Iterable[DataFileMeta]) -> None:
        """Record changelog files of new rows."""
        self._changelog.extend(files)

    def compact(
        self,
        before: Iterable[DataFileMeta],
        after: Sequence[DataFileMeta],
        changelog: Iterable[DataFileMeta] = (),
    ) -> None:
        """Record for the next message replaced and new files, and the changes."""
        self._compact_changelog.extend(changelog)
        for file in before:
            # files that this writer made, compacted and never returned are not mentioned
            if file in self._after:
                self._after.remove(file)
            else:
                self._before.append(file)
        self._after.extend(after)

    def hand_out(self, *, total_buckets: int) -> CommitMessage:
        """Return the message of all records since the last one; its files are known now."""
        message = CommitMessage(
            self._partition,
            self._bucket,
            total_buckets,
            new_files=tuple(self._new),
            compact_before=tuple(self._before),
            compact_after=tuple(self._after),
            changelog=tuple(self._changelog),
            compact_changelog=tuple(self._compact_changelog),
        )
        noted = (self._new, self._before, self._after, self._changelog, self._compact_changelog)
        for files in noted:
            for file in files:
                self._unknown.pop(file.file_name, None)
                self._unknown.pop(file.file_name + INDEX_SUFFIX, None)
            files.clear()
        return message

    def delete_unknown(self) -> None:
        """Delete the files that no commit message names.

        A file that cannot be deleted stays as a harmless orphan: a commit that has succeeded must
        not fail for it. A forked child leaves the files to its parent.
        """
        for path in self._unknown.values() if self._mark.is_here else ():
            with suppress(StorageError):
                self._context.fileio.delete(path)
        self._unknown.clear()
