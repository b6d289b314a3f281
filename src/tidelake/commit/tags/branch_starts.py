"""Which tags the branches of a table need.

Java Paimon keeps the files of a branch only by the tag that it began at, and the branch has a copy
of it: its tag of the lowest id. So the last tag of that snapshot stays while the branch exists, on
either side. A tag that goes by itself is not the last one that counts: one with a time to live, or
the pin of a rollback.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from tidelake.commit.context import CommitContext
from tidelake.commit.tags.reading import read_tags
from tidelake.fileio import FileIO
from tidelake.metadata.log.tag import Tag
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths

_LOG = logging.getLogger("tidelake")
_Key = tuple[int, str, str]


class BranchStarts:
    """The starts of a table's branches, and the tags of one of them.

    Parameters
    ----------
    paths : TablePaths
        Of the branch whose tags are asked about; it may be main.
    without : str, optional
        A branch that is being deleted, which needs nothing.
    """

    def __init__(
        self,
        fileio: FileIO,
        paths: TablePaths,
        manifests: ManifestCache,
        *,
        without: str | None = None,
    ) -> None:
        self._own: dict[str, Tag] = {}
        self._needing: defaultdict[_Key, list[str]] = defaultdict(list)
        statuses = fileio.list_dir(paths.branch_dir)
        names = sorted(
            s.name.removeprefix(BRANCH_PREFIX)
            for s in statuses
            if s.is_dir and s.name.startswith(BRANCH_PREFIX)
        )
        others = [name for name in names if name not in {paths.branch, without}]
        if not others and paths.is_main:
            return
        self._own = read_tags(fileio, paths, manifests)
        for name in others:
            for start in _starts(read_tags(fileio, paths.of_branch(name), manifests)):
                self._needing[start].append(name)
        if not paths.is_main:
            of_main = read_tags(fileio, paths.of_branch(MAIN_BRANCH), manifests).values()
            for start in _starts(self._own) & {tag.snapshot.state_key for tag in of_main}:
                self._needing[start].append(MAIN_BRANCH)

    def needing(self, tag: str) -> list[str]:
        """The branches that need a tag to stay.

        On a branch, ``main`` stands for its own start.
        """
        if tag not in self._own:
            return []
        key = self._own[tag].snapshot.state_key
        for name, other in self._own.items():
            if name != tag and other.is_lasting and other.snapshot.state_key == key:
                return []
        return self._needing.get(key, [])

    def removed(self, tag: str) -> None:
        """Count a tag no more."""
        self._own.pop(tag, None)


def _starts(tags: dict[str, Tag]) -> set[_Key]:
    """The snapshots of the lowest id among the tags of a branch."""
    first_id = min((tag.snapshot.id for tag in tags.values()), default=None)
    return {tag.snapshot.state_key for tag in tags.values() if tag.snapshot.id == first_id}


def unneeded_by_branches(context: CommitContext, names: Iterable[str]) -> list[str]:
    """Those of some tags that may all be removed; the others are said."""
    starts: BranchStarts | None = None
    unneeded = []
    for name in names:
        if starts is None:
            starts = BranchStarts(context.fileio, context.paths, context.manifests)
        branches = starts.needing(name)
        if branches:
            shown = ", ".join(f"'{branch}'" for branch in branches)
            message = "Table %s: tag '%s' stays, for branch %s needs it"
            _LOG.info(message, context.table, name, shown)
            continue
        starts.removed(name)
        unneeded.append(name)
    return unneeded
