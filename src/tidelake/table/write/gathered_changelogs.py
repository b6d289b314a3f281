"""Joins the small changelog files of a commit to one file for each partition.

A commit to a hundred buckets writes a hundred changelog files. With ``precommit-compact`` their
bytes are joined before the commit, without decoding them: one file for each partition, or more if
it would exceed ``target-file-size``. The metadata names the parts of the file
(:mod:`tidelake.format.compacted`), as with Flink's writers of Paimon.

The small files are always deleted after the commit, which does not name them. If the commit is
refused, the large files are deleted, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tidelake.errors import StorageError
from tidelake.fileio import parent_of
from tidelake.format.compacted import part_name, slice_of, whole_name
from tidelake.format.data_file import format_of
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, DataFileMeta
from tidelake.options import declared
from tidelake.options.derived import target_file_size_bytes
from tidelake.table.handle.handle import TableHandle

PIECE_BYTES = 8 << 20


_Name = tuple[BucketId, str]
"""A file, by its bucket and name."""


@dataclass(frozen=True, slots=True)
class _Small:
    """A changelog file of a bucket."""

    bucket_id: BucketId
    file: DataFileMeta
    path: str

    @property
    def name(self) -> _Name:
        return self.bucket_id, self.file.file_name


@dataclass(slots=True)
class GatheredChangelogs:
    """The large files that replace the small changelog files of a commit."""

    handle: TableHandle
    _made: list[str] = field(default_factory=list)
    _replaced: list[str] = field(default_factory=list)

    def gather(self, messages: Sequence[CommitMessage]) -> Sequence[CommitMessage]:
        """Join the files if the table's options ask for it, and rename them in the messages.

        Raises
        ------
        StorageError
            A read or write failed; :meth:`abort` deletes the new files.
        """
        if not self.handle.options.get(declared.PRECOMMIT_COMPACT):
            return messages
        names: dict[_Name, str] = {}
        for group in _groups(self.handle, messages):
            names |= self._whole_file(group)
        return [_renamed(message, names) for message in messages] if names else messages

    def _whole_file(self, group: Sequence[_Small]) -> dict[_Name, str]:
        """Write one file; return the names of its parts by those of the small files."""
        handle, first = self.handle, group[0]
        fileio = handle.fileio
        whole = whole_name(
            handle.env.ids.uuid(),
            first.bucket_id.bucket,
            first.file.file_size_bytes,
            format_of(first.file.file_name),
        )
        path = f"{parent_of(first.path)}/{whole}"
        self._made.append(path)
        names = {}
        output = fileio.open_output(path)
        try:
            for small in group:
                offset = output.tell()
                with fileio.open_input(small.path) as source:
                    while piece := source.read(PIECE_BYTES):
                        output.write(piece)
                names[small.name] = part_name(whole, offset, output.tell() - offset)
        except BaseException:
            output.abort()
            raise
        output.close()
        fileio.sync_dir(parent_of(path))
        self._replaced += [small.path for small in group]
        return names

    def close(self) -> None:
        """Delete the small files: no commit names them. One that stays is an orphan."""
        self._delete(self._replaced)

    def abort(self) -> None:
        """Delete the large files. The small ones are their writer's.

        Requires: no commit of the messages took effect or may have taken effect.
        """
        self._delete(self._made)

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(StorageError):
                self.handle.fileio.delete(path)


def _groups(handle: TableHandle, messages: Sequence[CommitMessage]) -> Iterator[list[_Small]]:
    """Group the files of a partition and format that go into one file: at least two."""
    largest = target_file_size_bytes(handle.options, has_primary_key=True)
    by_owner: dict[tuple[bytes, str], list[_Small]] = defaultdict(list)
    for message in sorted(messages, key=lambda m: m.bucket_id):
        for file in (*message.changelog, *message.compact_changelog):
            path = handle.paths.data_file(message.partition, message.bucket, file)
            is_small = file.file_size_bytes < largest and not file.extra_files
            if is_small and message.bucket >= 0 and slice_of(path) is None:
                owner = (message.partition, format_of(file.file_name))
                by_owner[owner].append(_Small(message.bucket_id, file, path))
    for smalls in by_owner.values():
        group: list[_Small] = []
        size = 0
        for small in smalls:
            group.append(small)
            size += small.file.file_size_bytes
            if size >= largest:
                if len(group) > 1:
                    yield group
                group, size = [], 0
        if len(group) > 1:
            yield group


def _renamed(message: CommitMessage, names: Mapping[_Name, str]) -> CommitMessage:
    def parts(files: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
        owner = message.bucket_id
        named = (names.get((owner, f.file_name), f.file_name) for f in files)
        return tuple(replace(f, file_name=name) for f, name in zip(files, named, strict=True))

    return replace(
        message,
        changelog=parts(message.changelog),
        compact_changelog=parts(message.compact_changelog),
    )
