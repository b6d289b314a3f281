"""Writes one bucket of a primary-key table whose files are sorted by other columns than the key.

With ``pk-clustering-override`` (Paimon 2) level 0 is in key order as ever. A compaction

1. merges the files of level 0 by key, and looks their keys up in the files above
   (:mod:`tidelake.store.lsm.lookup`). The older row of a key is marked in a deletion vector; under
   ``first-row`` the newer one is left out;
2. sorts the rows that are left by the clustering columns, into files of level 1;
3. sorts files of level 1 again together that overlap in these columns, or are small
   (:mod:`tidelake.store.lsm.clustered_picker`), without the rows that were marked.

So above level 0 each key is live in one file, in no order, and no file holds a delete. What is
sorted fills a write buffer, and goes by way of local disk beyond that.

Source: Paimon's ``ClusteringCompactManager`` and ``KeyValueClusteringFileWriter`` (2.1-SNAPSHOT).
There a store on local disk has all keys of the bucket, and deletes stay as rows. Here the key
columns of the files whose statistics meet the new keys are read and sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.format import KIND_FIELD
from tidelake.merge import FileKeys, RowSorter, sections_of
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.data_file import DataFileMeta, FileSource
from tidelake.options import file_order_columns, write_buffer_bytes
from tidelake.store.context import StoreContext
from tidelake.store.file_meta import creation_time_ms
from tidelake.store.lsm.bucket_writer import LsmBucketWriter
from tidelake.store.lsm.clustered_picker import Group, pick_groups
from tidelake.store.lsm.compaction import ChangeTracking, Compacted, Rewrite, Section, carry_out
from tidelake.store.lsm.compaction_picker import Pick
from tidelake.store.lsm.keyed_file import row_fields
from tidelake.store.lsm.levels import SortedRun
from tidelake.store.rolling import RollingWriter
from tidelake.telemetry import kept_property
from tidelake.types import DataField

CLUSTERED_LEVEL = 1
BENEATH = CLUSTERED_LEVEL + 1
"""The level as which clustered files count while new rows are merged: they are older."""


@dataclass(frozen=True, slots=True)
class ClusteredPick(Pick):
    """The choice of a compaction.

    Parameters
    ----------
    new : tuple of DataFileMeta
        The files of level 0.
    groups : tuple of Group
        Files above it that are sorted again together.
    full : bool
        Groups are chosen once `new` is above level 0: the bucket gets one order.
    """

    new: Group = ()
    groups: tuple[Group, ...] = ()
    full: bool = False


class ClusteredBucketWriter(LsmBucketWriter):
    """Writes one bucket; for one thread. Parameters as of :class:`LsmBucketWriter`."""

    def _pick(self, *, full: bool = False) -> ClusteredPick | None:
        policy = self._policy
        new = tuple(f for f in self._levels.files if f.level == 0)
        if not full and len(new) < min(policy.level_0_runs_min, self._runs_stop):
            new = ()
        groups = pick_groups(
            self._clustered,
            FileKeys(tuple(field.type for field in self._order)),
            policy,
            target_size_bytes=self._target_size_bytes,
            full=full,
            now_ms=creation_time_ms(self._context) if policy.needs_time else 0,
            needs_rewrite=lambda f: self._deletions.count(f) > 0 or f.delete_row_count != 0,
        )
        files = (*new, *(file for group in groups for file in group))
        if not files:
            return None
        return ClusteredPick(
            files, CLUSTERED_LEVEL, drop_deletes=True, new=new, groups=groups, full=full
        )

    def _carry_out(self, picked: Pick) -> None:
        assert isinstance(picked, ClusteredPick), "made by this writer"
        groups = picked.groups
        if picked.new:
            self._add(picked.new)
            if picked.full:  # what came of the new files is sorted with the others
                again = self._pick(full=True)
                groups = () if again is None else again.groups
        for group in groups:
            self._sort_again(group)

    @kept_property
    def _order(self) -> tuple[DataField, ...]:
        """The columns that files above level 0 are sorted by."""
        return tuple(map(self._context.schema.field, file_order_columns(self._context.options)))

    @property
    def _clustered(self) -> Group:
        """The files above level 0."""
        return tuple(f for f in self._levels.files if f.level > 0)

    def _add(self, new: Group) -> None:
        """Merge the files of level 0, and put their rows in order."""
        older = self._clustered
        numbers = [f.max_sequence_number for f in older]
        newer_wins = self._spec.engine == DEDUPLICATE
        # two writers that began from one snapshot used the same numbers
        is_newer = min(f.min_sequence_number for f in new) > max(numbers, default=-1)
        done = carry_out(
            self._reader,
            (Rewrite((self._one_section(new),)),),
            Pick(new, CLUSTERED_LEVEL, drop_deletes=True),
            spec=self._spec,
            rolling=self._in_order,
            tracking=ChangeTracking(
                new_below=CLUSTERED_LEVEL,
                beneath=(SortedRun(BENEATH, older),) if older else (),
                lifts_new=False,
                marks=newer_wins,
                merges_found=not (newer_wins and is_newer),
            ),
        )
        self._take(done)

    def _sort_again(self, group: Group) -> None:
        """Put the live rows of some files in order, together."""
        out = self._in_order()
        fields = row_fields(self._context.schema)
        for rows in self._reader.batches(group, fields, self._context.env.memory.batch_bytes):
            kinds = rows.column(KIND_FIELD.name)
            retracts = pc.bit_wise_and(kinds, pa.scalar(1, kinds.type))  # as Java keeps them
            out.write(rows.filter(pc.equal(retracts, pa.scalar(0, kinds.type))))
        self._take(Compacted(group, out.close()))

    def _one_section(self, new: Group) -> Section:
        """All files of level 0 as one stack of runs, so that keys are looked up once."""
        sections = sections_of(FileKeys.of(self._spec).ranges_of(new))
        return tuple(
            tuple(new[position] for part in parts for position in part)
            for parts in itertools.zip_longest(*sections, fillvalue=())
        )

    def _in_order(self) -> OrderedRows:
        rolling = self._rolling(level=CLUSTERED_LEVEL, source=FileSource.COMPACT)
        return OrderedRows(self._context, self._order, rolling)


class OrderedRows:
    """Sorts rows by columns before they become files; for one thread."""

    def __init__(
        self, context: StoreContext, order: Sequence[DataField], rolling: RollingWriter
    ) -> None:
        self._rolling = rolling
        self._sorter = RowSorter(
            [field.name for field in order],
            [field.type for field in order],
            buffer_bytes=write_buffer_bytes(context.options, context.env.memory),
            stack=context.spill_stack,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        self._sorter.add(rows)

    def close(self) -> tuple[DataFileMeta, ...]:
        """Write the files."""
        try:
            for rows in self._sorter.batches():
                self._rolling.write(rows)
            return self._rolling.close()
        finally:
            self._sorter.close()
