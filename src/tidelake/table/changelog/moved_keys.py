"""Orders the changes of keys that move between buckets.

A key that moves to another partition is ``-D`` in its old bucket and ``+I`` in its new one, in one
commit. A reader that folds by key must get the ``+I`` last. So the changes of a snapshot come in
two passes over its buckets:

1. of each bucket the changes of the keys that they leave **without** a row there,
2. of each bucket the changes of the keys that they leave **with** a row.

In the end a key has a row in one bucket at most, so its changes in that bucket are the last. The
changes of a key in one bucket stay together, in the order of writing: a changelog of the input may
hold several of them, and a ``-U`` keeps its ``+U``.

Statistics of files tell most of it: files without retractions leave each key with a row, files of
retractions alone leave each without one. Only the files of a bucket that hold both are read in both
passes. Then their keys and kinds are read first, which takes memory for the keys of a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.codec.row_codes import row_codes
from tidelake.format import KIND_FIELD
from tidelake.metadata.log.snapshot import CommitKind
from tidelake.options.bucket_mode import BucketMode
from tidelake.scan import OfKeys, ReadContext, Split, read_changes
from tidelake.table.changelog.changelog_protocols import ChangePart
from tidelake.table.handle.handle import TableHandle
from tidelake.types.predicate import Predicate, columns_of, evaluate

_PASSES: tuple[tuple[OfKeys, OfKeys], ...] = (("gone", "kept"), ("kept", "gone"))
"""The keys of each pass, and those of the other."""
SNAPSHOTS_LOOKED_AT_MAX = 64
"""The most snapshots that are read to find an overwrite between two moments."""


def parts_in_passes(parts: Sequence[ChangePart]) -> Iterator[ChangePart]:
    """Order parts of one snapshot, or of a net change, so that each key's last change is last.

    Parameters
    ----------
    parts : sequence of ChangePart
        Of all buckets that a key may move between.
    """
    for of_keys, other in _PASSES:
        for part in parts:
            if _may_hold(part, of_keys):
                is_mixed = _may_hold(part, other)
                yield tuple(replace(s, of_keys=of_keys) for s in part) if is_mixed else part


def _may_hold(part: ChangePart, of_keys: OfKeys) -> bool:
    """Say whether a part may hold changes of such keys, by the counts of its files."""
    *before, after = part
    if before:
        [old] = before
        # without files before all rows are new, without files after all are removed
        return bool(old.files_count) if of_keys == "gone" else bool(after.files_count)
    files = [file for file in after.files if file.row_count]
    if of_keys == "gone":
        return any(file.delete_row_count != 0 for file in files)  # unknown counts as some
    return any(file.delete_row_count != file.row_count for file in files)


def are_gone(kinds: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which kinds leave a key without a row: ``-U`` and ``-D``, as bytes on disk."""
    return (kinds & 1).astype(bool)


def changes_of_keys(
    context: ReadContext, split: Split, *, columns: Sequence[str], predicate: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Read the changes of the keys that a split asks for, each with its kind."""
    wanted = _are_wanted(context, split)
    if not wanted.any():
        return
    others = columns_of(predicate) - set(columns)
    at = 0
    for rows in read_changes(context, split, columns=(*columns, *sorted(others)), predicate=None):
        own = rows.filter(pa.array(wanted[at : at + rows.num_rows]))
        at += rows.num_rows
        if predicate is not None:
            own = own.filter(evaluate(predicate, own, context.schema.fields))
        if own.num_rows:
            yield own.select([*columns, KIND_FIELD.name])


def _are_wanted(context: ReadContext, split: Split) -> NDArray[np.bool_]:
    """Which rows of a split belong to keys that it asks for, in the order of reading."""
    names = context.schema.trimmed_primary_keys
    batches = list(read_changes(context, split, columns=names, predicate=None))
    if not batches:
        return np.zeros(0, dtype=bool)
    rows = pa.Table.from_batches(batches)
    keys = row_codes(rows.select(names))
    kinds = rows.column(KIND_FIELD.name).combine_chunks().to_numpy()
    last = np.zeros(keys.max() + 1, dtype=np.intp)
    np.maximum.at(last, keys, np.arange(len(keys)))
    gone: NDArray[np.bool_] = are_gone(kinds[last])[keys]
    return gone if split.of_keys == "gone" else ~gone


def leaves_partition(context: ReadContext, splits: Iterable[Split]) -> bool:
    """Say whether a key may have left one partition of one commit's files for another."""
    return context.schema.keys_may_move and len({split.partition for split in splits}) > 1


def is_overwritten(handle: TableHandle, start_id: int, end_id: int) -> bool:
    """Say whether a snapshot after `start_id`, up to and with `end_id`, may be an overwrite.

    A table whose buckets an overwrite does not assign anew answers without a look. Else the
    snapshots are looked at; of more than :data:`SNAPSHOTS_LOOKED_AT_MAX`, or of an expired one, it
    is assumed.
    """
    if not handle.schema.primary_keys or not handle.bucket_mode.is_assigned:
        return False
    if end_id - start_id > SNAPSHOTS_LOOKED_AT_MAX:
        return True
    found = (handle.snapshots.find(number) for number in range(start_id + 1, end_id + 1))
    return any(one is None or one.commit_kind is CommitKind.OVERWRITE for one in found)


def spans_buckets(
    context: ReadContext, parts: Iterable[ChangePart], *, is_overwritten: bool
) -> bool:
    """Say whether changes of one key may be in several buckets of some parts.

    Parameters
    ----------
    is_overwritten : bool
        Whether an overwrite lies between them, or is one of them: dynamic buckets are then assigned
        anew.
    """
    schema = context.schema
    if not schema.primary_keys:
        return False
    homes: dict[bytes, set[tuple[int, int]]] = {}
    for part in parts:
        for split in part:
            if split.files_count:
                own = homes.setdefault(split.partition, set())
                own.add((split.bucket, split.total_buckets))
    if schema.keys_may_move:
        return sum(map(len, homes.values())) > 1
    mode = BucketMode.of(context.options, has_primary_key=True, keys_may_move=False)
    is_reassigned = is_overwritten and mode.is_assigned
    return any(_spans(own, is_reassigned=is_reassigned) for own in homes.values())


def _spans(buckets: set[tuple[int, int]], *, is_reassigned: bool) -> bool:
    """Say whether a key may be in several of the buckets of one partition."""
    numbers = {number for number, _ in buckets}
    if len(numbers) == 1:
        return False
    if min(numbers) < 0:  # rows that wait for their bucket
        return True
    return is_reassigned or len({total for _, total in buckets}) > 1
