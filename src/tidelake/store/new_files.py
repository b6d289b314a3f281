"""The data files that one writer makes: their names, and which of them nobody knows.

Names are ``<prefix><uuid>-<i>.parquet`` with one uuid per writer, so no two writers ever meet.
A file that a commit message names belongs to the commit from then on: it may be visible, and the
writer never deletes it. Any other file is known to the writer alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from tidelake.errors import StorageError
from tidelake.metadata.data_file import DataFileMeta
from tidelake.options.declared import DATA_FILE_PREFIX
from tidelake.store.context import StoreContext

__all__ = ["NewFiles"]


class NewFiles:
    """The files of one writer.

    Parameters
    ----------
    context : StoreContext
        The table.
    partition : bytes
        The bucket's partition.
    bucket : int
        The bucket.
    """

    def __init__(self, context: StoreContext, partition: bytes, bucket: int) -> None:
        self._context = context
        self._partition = partition
        self._bucket = bucket
        self.writer_id = context.env.ids.uuid()
        self._prefix = context.options.get(DATA_FILE_PREFIX)
        self._count = 0
        self._unknown: dict[str, str] = {}

    def next_file(self) -> tuple[str, str]:
        """Give the name and the path of the next file; it counts as made."""
        name = f"{self._prefix}{self.writer_id}-{self._count}.parquet"
        self._count += 1
        path = self._context.paths.data_file(self._partition, self._bucket, name)
        self._unknown[name] = path
        return name, path

    def hand_out(self, files: Iterable[DataFileMeta]) -> None:
        """Note that a commit message names these files."""
        for file in files:
            self._unknown.pop(file.file_name, None)

    def delete_unknown(self) -> None:
        """Delete the files that no commit message names.

        One that the storage does not let go of stays as an orphan: it is in nobody's way, and a
        commit that has succeeded must not fail for it.
        """
        for path in self._unknown.values():
            with suppress(StorageError):
                self._context.fileio.delete(path)
        self._unknown.clear()
