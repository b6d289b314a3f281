"""Which partitions an overwrite replaces, and with them which files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.context import CommitContext
from tidelake.errors import ConflictError, InvalidInputError
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.index_entry import DELETION_VECTORS
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.types.predicate import Predicate

__all__ = [
    "DYNAMIC",
    "Chosen",
    "chosen_partitions",
    "replaced_files",
    "rewritten_conflict",
    "rows_in",
]

DYNAMIC = "dynamic"
"""Overwrite the partitions that rows come for."""

Chosen = Callable[[Sequence[bytes]], np.ndarray]


def chosen_partitions(
    context: CommitContext, partitions: Predicate | str | None, new_files: EntryTable
) -> Chosen | None:
    """Which of some partitions are overwritten, as a mask; None for the whole table.

    Parameters
    ----------
    context : CommitContext
        The table.
    partitions : Predicate, 'dynamic' or None
        A bound predicate on partition columns; the partitions that there are new files for; or the
        whole table.
    new_files : EntryTable
        What comes in their place.

    Raises
    ------
    InvalidInputError
        A new file lies in a partition that is not overwritten, or `partitions` is none of these.
    """
    if isinstance(partitions, str) and partitions != DYNAMIC:
        message = (
            f"Overwrite of table '{context.table}': partitions='{partitions}' is not known. Give"
            " a predicate, 'dynamic', or None for the whole table."
        )
        raise InvalidInputError(message, kind="overwrite_partition", table=context.table)
    keys = context.paths.partition_keys
    if partitions is None or (partitions == DYNAMIC and not keys):
        return None
    if isinstance(partitions, str):
        used = frozenset(new_files.partitions)
        return lambda found: np.array([p in used for p in found], dtype=bool)
    if not keys:
        message = f"Table '{context.table}' has no partitions: overwrite it whole."
        raise InvalidInputError(message, kind="overwrite_partition", table=context.table)
    schema, predicate = context.schema, partitions
    fields = [schema.field(k) for k in keys]

    def chosen(found: Sequence[bytes]) -> np.ndarray:
        values = [context.paths.partition_values(p) for p in found]
        return matching_partitions(values, fields, predicate)

    for partition, inside in zip(new_files.partitions, chosen(new_files.partitions), strict=True):
        if not inside:
            place = context.paths.partition_path(partition)
            message = (
                f"Overwrite of table '{context.table}': the rows hold partition {place}, which is"
                " not one of those to be overwritten. Leave these rows out, or overwrite it"
                " too."
            )
            raise InvalidInputError(message, kind="overwrite_partition", table=context.table)
    return chosen


def replaced_files(context: CommitContext, snapshot: Snapshot, chosen: Chosen | None) -> EntryTable:
    """The live files that an overwrite of the chosen partitions deletes.

    The postpone bucket is part of a partition only where the table writes to it (``bucket`` is -2):
    rows that wait there outlive a partition's change to another number of buckets.
    """
    live = live_in(context, snapshot)
    if context.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        live = live.take(live["bucket"] >= 0)
    if chosen is None:
        return live
    return live.take(chosen(live.partitions)[live["partition_id"]])


def rows_in(
    context: CommitContext, snapshot: Snapshot, table: EntryTable
) -> frozenset[tuple[str, object]]:
    """What tells whether the rows of some files are the same in two snapshots.

    The files' names, for a compaction that only lifts a file to another level changes no rows, each
    with the place of its deletion vector.
    """
    vectors = {
        name: (entry.file.file_name, offset)
        for entry in index_entries(context.fileio, context.paths, snapshot, context.manifests)
        if entry.file.index_type == DELETION_VECTORS
        for name, offset, *_ in entry.file.ranges or ()
    }
    return frozenset((name, vectors.get(name)) for name in table["file_name"].to_pylist())


def rewritten_conflict(table: str) -> ConflictError:
    """The error of an overwrite whose partitions were changed since its rows were read."""
    message = (
        f"Table '{table}' was changed in the partitions that were being rewritten:"
        " nothing was committed, so nothing is lost. Do it again."
    )
    return ConflictError(message, kind="rewritten_changed", table=table)
