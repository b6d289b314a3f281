"""Reads all tags of a branch.

In a remote storage, where each read waits, one that was read before and is as it was is not read
again: a commit of a table with a year of daily tags lists them, and reads none.
"""

from __future__ import annotations

from functools import partial

from tidelake.errors import NotFoundError
from tidelake.fileio import FileIO, FileStatus
from tidelake.metadata.at_once import at_once
from tidelake.metadata.log.tag import Tag, TagLog
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import TablePaths

_PREFIX = "tag-"
_TAG_BYTES, _BYTES_PER_BYTE = 2_000, 4


def read_tags(
    fileio: FileIO, paths: TablePaths, manifests: ManifestCache, *, table: str = ""
) -> dict[str, Tag]:
    """The tags by name, sorted.

    In a remote storage a tag is known again by its file's size and time. One that was replaced
    within a tick of the storage's clock may be shown as it was: read it anew before it is removed.

    Parameters
    ----------
    paths : TablePaths
        Of the branch.
    manifests : ManifestCache
        Keeps what was read.

    Raises
    ------
    CorruptError
        A tag's file is damaged.
    """
    log = TagLog(fileio, paths, table=table)

    def read(status: FileStatus) -> Tag | None:
        name = status.name.removeprefix(_PREFIX)
        key = f"{paths.tag_dir}/{status.name}@{status.modified_ms}/{status.size_bytes}"
        size_bytes = _TAG_BYTES + _BYTES_PER_BYTE * status.size_bytes
        try:
            if not fileio.is_remote:
                return log.load(name)
            return manifests.get(key, lambda: (log.load(name), size_bytes))
        except NotFoundError:  # deleted meanwhile
            return None

    listed = sorted(fileio.list_dir(paths.tag_dir), key=lambda status: status.name)
    files = [s for s in listed if s.name.startswith(_PREFIX) and not s.is_dir]
    found = at_once(fileio, manifests.reads, [partial(read, status) for status in files])
    return {tag.name: tag for tag in found if tag is not None}
