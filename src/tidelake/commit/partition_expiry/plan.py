"""The partitions that are too old, found in one snapshot; a value, nothing is changed.

1. The live files are read, and by them the partitions.
2. By values: the time that the values say lies before the wall clock minus the age. By update: the
   newest file does, deleted ones too until a merge of manifests forgets them.
3. Partitions whose values say no time, or that have a null there, are left alone and named.
4. The old ones are put in the order of their texts, and the first ``count_max`` are taken.

Times of partitions and files are local, as Java writes them, and compared with the local clock.
Source: Paimon's ``NormalPartitionExpire`` and its strategies (2.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelake.commit.context import CommitContext
from tidelake.commit.partition_expiry.extraction import partition_time_text
from tidelake.commit.partition_expiry.rule import ExpiryRule
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import manifest_files, read_manifests
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.types.java_text import java_text
from tidelake.types.java_time import NS_PER_MS, local_time_text

NAMED_MAX = 5
"""How many partitions a text names."""


@dataclass(frozen=True, slots=True)
class OldPartition:
    """A partition that is too old, with what goes with it.

    Parameters
    ----------
    partition : bytes
        Its values, as in the manifests.
    values : mapping of str to str
        Texts of its columns, as Java prints them; a null has the default name.
    time : str
        The local time that it is too old by.
    """

    partition: bytes
    values: Mapping[str, str]
    time: str
    rows: int
    files: int
    size_bytes: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={text}" for name, text in self.values.items())


@dataclass(frozen=True, slots=True)
class PartitionExpiryPlan:
    """The partitions to drop.

    Parameters
    ----------
    snapshot : Snapshot
        In which they were found.
    before : str
        The local time before which a partition is too old.
    partitions : tuple of OldPartition
        In the order in which they are dropped.
    more_count : int
        How many others are too old, and left for the next time.
    unread : tuple of str
        Partitions without a time, which stay.
    """

    rule: ExpiryRule
    snapshot: Snapshot
    before: str
    partitions: tuple[OldPartition, ...]
    more_count: int
    unread: tuple[str, ...]

    @property
    def batches(self) -> Iterator[frozenset[bytes]]:
        """The partitions of each commit."""
        size = self.rule.batch_size or len(self.partitions)
        for start in range(0, len(self.partitions), max(size, 1)):
            yield frozenset(p.partition for p in self.partitions[start : start + max(size, 1)])

    @property
    def checked_snapshot(self) -> Snapshot | None:
        """The snapshot in which the partitions must be unchanged at the drop; None if any may be.

        New rows make a partition young again, where its age counts from them.
        """
        return None if self.rule.by_values else self.snapshot

    @property
    def unread_text(self) -> str:
        """What stays, and why; empty if nothing does."""
        if not self.unread:
            return ""
        named = "; ".join(self.unread[:NAMED_MAX])
        more = len(self.unread) - NAMED_MAX
        return (
            f"{named}{f'; and {more} more' if more > 0 else ''} cannot expire: the values say no"
            " time by 'partition.timestamp-pattern' and 'partition.timestamp-formatter'. Drop them"
            " by drop_partitions(), or set 'partition.expiration-strategy' = 'update-time'."
        )


def plan_partition_expiry(
    context: CommitContext, rule: ExpiryRule, snapshot: Snapshot
) -> PartitionExpiryPlan:
    """Find the partitions that are too old by the clock's local time."""
    clock = context.env.clock
    before_ms = clock.now_ms() + clock.local_offset_ms() - rule.age_ms
    files = manifest_files(context.fileio, context.paths, snapshot, context.manifests)
    tables = list(read_manifests(context.fileio, context.paths, files, context.manifests))
    where = f"snapshot {snapshot.id} of {context.paths.location}"
    live = EntryTable.fold(iter(tables), where=where)
    if context.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        live = live.take(live["bucket"] >= 0)
    found = _totals(live)
    values = {partition: _texts(context, partition) for partition in found}
    if rule.by_values:
        asked = {p: partition_time_text(texts, rule.pattern) for p, texts in values.items()}
        readable = {partition: text for partition, text in asked.items() if text is not None}
        read = rule.formatter.parse_all(readable.values())
        times = dict(zip(readable, read, strict=True))
    else:
        made = _newest_ms(EntryTable.concat(tables))
        times = {p: None if (ms := made[p]) is None else ms * NS_PER_MS for p in found}
    before_ns = before_ms * NS_PER_MS
    default = context.paths.default_partition_name
    old, unread = [], []
    for partition, (rows, count, size) in found.items():
        shown = {k: default if v is None else v for k, v in values[partition].items()}
        time = times.get(partition)
        one = OldPartition(partition, shown, "", rows, count, size)
        if time is None:
            unread.append(str(one))
        elif time < before_ns:
            old.append(replace(one, time=local_time_text(time)))
    old.sort(key=lambda one: ",".join(one.values.values()))
    return PartitionExpiryPlan(
        rule,
        snapshot,
        local_time_text(before_ns),
        tuple(old[: rule.count_max]),
        len(old[rule.count_max :]),
        tuple(sorted(unread)),
    )


def _texts(context: CommitContext, partition: bytes) -> dict[str, str | None]:
    """The values of a partition as Java's ``toString``, by column."""
    paths = context.paths
    given = zip(
        paths.partition_keys, paths.partition_types, paths.partition_values(partition), strict=True
    )
    return {
        name: None if value is None else java_text(value, data_type)
        for name, data_type, value in given
    }


def _totals(live: EntryTable) -> dict[bytes, tuple[int, int, int]]:
    """Rows, files and bytes of each partition."""
    ids = live["partition_id"]
    count = len(live.partitions)
    files = np.bincount(ids, minlength=count)
    rows = np.zeros(count, np.int64)
    size = np.zeros(count, np.int64)
    np.add.at(rows, ids, np.asarray(live["row_count"]))
    np.add.at(size, ids, np.asarray(live["file_size_bytes"]))
    return {
        partition: (int(rows[i]), int(files[i]), int(size[i]))
        for i, partition in enumerate(live.partitions)
        if files[i]
    }


def _newest_ms(entries: EntryTable) -> dict[bytes, int | None]:
    """The local time of each partition's newest file; None where one has no time."""
    ids = entries["partition_id"]
    made = entries["creation_time_ms"]
    newest = np.full(len(entries.partitions), np.iinfo(np.int64).min)
    np.maximum.at(newest, ids, np.asarray(made.fill_null(0)))
    timeless = set(ids[np.asarray(made.is_null())].tolist())
    return {
        partition: None if number in timeless else int(newest[number])
        for number, partition in enumerate(entries.partitions)
    }
