"""The partitions that an overwrite replaces, and their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelake.commit.conflicts.live_buckets import live_in
from tidelake.commit.context import CommitContext
from tidelake.errors import ConflictError, InvalidInputError
from tidelake.metadata.index_entry import DELETION_VECTORS
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.types.predicate import Predicate

DYNAMIC = "dynamic"
"""Overwrite the partitions that rows come for."""


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """The partitions that an overwrite replaces.

    Parameters
    ----------
    partitions : Predicate, frozenset of bytes or None
        A bound predicate on partition columns; the partitions themselves, serialized; or None for
        the whole table.
    """

    context: CommitContext
    partitions: Predicate | frozenset[bytes] | None

    def mask(self, partitions: Sequence[bytes]) -> np.ndarray:
        """Find the partitions that are replaced; booleans ``[n]``."""
        if self.partitions is None:
            return np.ones(len(partitions), dtype=bool)
        if isinstance(self.partitions, frozenset):
            return np.array([p in self.partitions for p in partitions], dtype=bool)
        paths, schema = self.context.paths, self.context.schema
        values = [paths.partition_values(p) for p in partitions]
        fields = [schema.field(k) for k in paths.partition_keys]
        return matching_partitions(values, fields, self.partitions)


def chosen_partitions(
    context: CommitContext, partitions: Predicate | str | None, new_files: EntryTable
) -> PartitionChoice:
    """Check which partitions a caller asks to overwrite.

    Parameters
    ----------
    partitions : Predicate, 'dynamic' or None
        A bound predicate on partition columns; the partitions that there are new files for; or the
        whole table.

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
        return PartitionChoice(context, None)
    if isinstance(partitions, str):
        return PartitionChoice(context, frozenset(new_files.partitions))
    if not keys:
        message = f"Table '{context.table}' has no partitions: overwrite it whole."
        raise InvalidInputError(message, kind="overwrite_partition", table=context.table)
    choice = PartitionChoice(context, partitions)
    outside = np.flatnonzero(~choice.mask(new_files.partitions))
    if len(outside):
        path = context.paths.partition_path(new_files.partitions[outside[0]])
        message = (
            f"Overwrite of table '{context.table}': the rows hold partition {path}, which is"
            " not one of those to be overwritten. Leave these rows out, or overwrite it"
            " too."
        )
        raise InvalidInputError(message, kind="overwrite_partition", table=context.table)
    return choice


def replaced_files(
    context: CommitContext, snapshot: Snapshot, choice: PartitionChoice
) -> EntryTable:
    """The live files that an overwrite of the chosen partitions deletes.

    The postpone bucket is part of a partition only where the table writes to it (``bucket`` is -2):
    rows that wait there outlive a partition's change to another number of buckets.
    """
    live = live_in(context, snapshot)
    if context.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        live = live.take(live["bucket"] >= 0)
    if choice.partitions is None:
        return live
    return live.take(choice.mask(live.partitions)[live["partition_id"]])


def rows_in(
    context: CommitContext, snapshot: Snapshot, table: EntryTable
) -> frozenset[tuple[str, object]]:
    """The rows of some files in a snapshot, as a value to compare with that of another snapshot.

    It holds the files' names, each with the place of its deletion vector. A compaction that only
    moves a file to another level changes no rows, so levels are left out.
    """
    vectors = {
        name: (entry.file.file_name, offset)
        for entry in context.index_entries(snapshot)
        if entry.file.index_type == DELETION_VECTORS
        for name, offset, *_ in entry.file.ranges or ()
    }
    return frozenset((name, vectors.get(name)) for name in table["file_name"].to_pylist())


def rewritten_conflict(table: str) -> ConflictError:
    """The error of an overwrite whose partitions were changed since its rows were read."""
    message = (
        f"Table '{table}' was changed in the partitions that were being rewritten:"
        " nothing was committed, so nothing is lost. Run it again."
    )
    return ConflictError(message, kind="rewritten_changed", table=table)
