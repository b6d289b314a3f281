"""The deletion vectors of a snapshot: the range of each data file's vector in an index file.

The ranges come from the index manifest once and stay beside the decoded manifests. The reader of a
data file reads its vector.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import UnsupportedError
from tidelake.metadata.index.deletion_file import DeletionRange, deletion_ranges
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.options import declared
from tidelake.scan.context import ReadContext

RANGE_BYTES = 400
"""The approximate memory of one vector's range."""


def live_deletions(
    context: ReadContext, snapshot: Snapshot | None, *, manifests: ManifestCache
) -> Mapping[str, DeletionRange]:
    """The positions of a snapshot's deletion vectors, by the name of their data file.

    Raises
    ------
    UnsupportedError
        There are some, but the table's options exclude them.
    CorruptError
        The index manifest is damaged; the message names it.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return {}

    def load() -> tuple[Mapping[str, DeletionRange], int]:
        entries = index_entries(context.fileio, context.paths, snapshot, manifests)
        ranges = deletion_ranges(context.paths, entries)
        return ranges, RANGE_BYTES * (len(ranges) + 1)

    found = manifests.get(f"{context.paths.manifest(snapshot.index_manifest)}/deletions", load)
    if found and not context.options.get(declared.DELETION_VECTORS_ENABLED):
        message = (
            f"Snapshot {snapshot.id} of {context.paths.location} has deletion vectors, but the"
            " table's option 'deletion-vectors.enabled' is not 'true': deleted rows would come"
            " back. Set the option."
        )
        raise UnsupportedError(message, kind="deletion_vectors_off", path=context.paths.location)
    return found
