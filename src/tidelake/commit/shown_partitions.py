"""Shows a table's partitions in the catalog that keeps a copy of them, after each commit.

Only where ``metastore.partitioned-table`` is set and the catalog is a Hive Metastore or AWS Glue:

1. A partition to which the commit added files is added; one that is shown stays.
2. A partition of which an overwrite or a drop left no file is dropped, and with the action
   ``done-partition`` the one that says that it is done.

The table itself does not depend on it: a failure is logged, and the next commit to the partition
adds it again. Source: Paimon's ``AddPartitionCommitCallback`` (2.1).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from tidelake.commit.catalog_listing import DONE_PARTITION, CatalogListing, done_partition
from tidelake.commit.context import CommitContext
from tidelake.errors import TidelakeError
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.options import declared

_LOG = logging.getLogger("tidelake")


def show_partitions_quietly(context: CommitContext, snapshots: Sequence[Snapshot]) -> None:
    """Show what snapshots did to the partitions; a failure is logged."""
    listing = context.listing
    if listing is None or not _are_shown(context):
        return
    try:
        _show(context, listing, snapshots)
    except TidelakeError as error:
        _LOG.warning(
            "Table %s: the catalog could not be told of its partitions: %s The table itself is"
            " complete. The next commit to them tells it again.",
            context.table,
            error,
        )


def show_live_partitions(context: CommitContext, snapshot: Snapshot | None) -> bool:
    """Show the partitions that have files in a snapshot, and no others; whether any changed.

    Raises
    ------
    StorageError
        The catalog could not be told, or not of all.
    """
    listing = context.listing
    if listing is None or not _are_shown(context):
        return False
    texts: dict[tuple[str, ...], dict[str, str]] = {}
    if snapshot is not None:
        live = live_entries(context.fileio, context.paths, snapshot, context.manifests)
        for number in np.unique(live["partition_id"]):
            one = context.paths.partition_texts(live.partitions[number])
            texts[tuple(one.values())] = one
    shown = {tuple(one.values()): one for one in listing.partitions()}
    gone = [shown[key] for key in sorted(shown.keys() - texts.keys())]
    new = [texts[key] for key in sorted(texts.keys() - shown.keys())]
    listing.add_partitions(new)
    listing.drop_partitions(gone)
    return bool(gone or new)


def _are_shown(context: CommitContext) -> bool:
    """Whether the catalog shows the partitions of a table."""
    is_asked = context.options.get(declared.METASTORE_PARTITIONED_TABLE)
    return bool(context.schema.partition_keys) and context.paths.is_main and is_asked


def _show(context: CommitContext, listing: CatalogListing, snapshots: Sequence[Snapshot]) -> None:
    added: dict[bytes, None] = {}
    removed: dict[bytes, None] = {}
    for snapshot in snapshots:
        delta = context.delta(snapshot)
        is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE
        is_added = delta["kind"] == FileKind.ADD
        for number in np.unique(delta["partition_id"][is_added]):
            added[delta.partitions[number]] = None
        for number in np.unique(delta["partition_id"][~is_added]) if is_overwrite else ():
            removed[delta.partitions[number]] = None
    if added:
        listing.add_partitions([context.paths.partition_texts(part) for part in added])
    gone = removed.keys() - added.keys()
    if gone:
        live = live_entries(context.fileio, context.paths, snapshots[-1], context.manifests)
        gone -= {live.partitions[number] for number in set(live["partition_id"].tolist())}
        dropped = [context.paths.partition_texts(part) for part in sorted(gone)]
        if DONE_PARTITION in context.options.get(declared.PARTITION_MARK_DONE_ACTION).lower():
            dropped += [done_partition(texts) for texts in dropped]
        listing.drop_partitions(dropped)
