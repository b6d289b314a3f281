"""Merges rows in arrival order into a sorted run: the flush of a write buffer.

:func:`sort_buffer` stops before the merge: it returns all rows in their merge order, for a
changelog of the written rows.

1. Encode all keys at one width, sort (:func:`~tidelake.merge.segments.flush_order`), group.
2. The engine decides each key's row. Deletes stay: a file beneath may hold the key.
3. A buffer above 1 GiB, or of very wide keys, is merged in parts and the parts as runs, so that no
   string column nears Arrow's limit of 2 GiB and the encoded keys stay small.

Source: Paimon's ``SortBufferWriteBuffer`` (1.3.1). Cost O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, take_rows
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge.engines.engine import Merged
from tidelake.merge.engines.engine_of import engine_of
from tidelake.merge.engines.materialise import gather
from tidelake.merge.runs.run_cursor import FIXED_KEY_BYTES, batch_parts
from tidelake.merge.runs.sorted_runs import merge_runs
from tidelake.merge.segments import Segments, flush_order, segments_of
from tidelake.merge.sequence import rank_rows
from tidelake.merge.spec import MergeSpec
from tidelake.telemetry import UNLIMITED, Memory

GROUP_BYTES_MAX = 1 << 30
"""Most bytes of rows that are sorted at once."""


def merge_buffer(
    batches: Sequence[pa.RecordBatch], spec: MergeSpec, *, memory: Memory = UNLIMITED
) -> pa.Table:
    """Sort and merge rows.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
        At least one; the rows in arrival order, with the spec's columns, ``_SEQUENCE_NUMBER`` and
        ``_VALUE_KIND``.
    memory : Memory
        Bounds the encoded keys, and the rows of parts that are merged.

    Returns
    -------
    pyarrow.Table
        Sorted by key, one row per key, deletes kept.
    """
    assert batches, "a buffer without batches has no schema"
    parts = _parts([b for b in batches if b.num_rows], spec, memory.sort_keys_bytes)
    if not parts:
        return batches[0].schema.empty_table()
    merged = [_merge_part(part, spec) for part in parts]
    if len(merged) == 1:
        return merged[0]
    runs = [iter(run.to_batches()) for run in merged]
    return pa.Table.from_batches(
        merge_runs(runs, spec, drop_deletes=False, memory=memory), schema=batches[0].schema
    )


def sort_buffer(
    batches: Sequence[pa.RecordBatch], spec: MergeSpec, *, memory: Memory = UNLIMITED
) -> Iterator[pa.Table]:
    """Sort rows by key and, inside a key, from the oldest to the newest; keeps all rows.

    Yields
    ------
    pyarrow.Table
        Stretches of the rows in order of arrival, each sorted separately. A buffer that
        :func:`merge_buffer` merges at once is one stretch.
    """
    for part in _parts([b for b in batches if b.num_rows], spec, memory.sort_keys_bytes):
        rows = pa.Table.from_batches(part)
        order = _segments(part, rows, spec).order
        if np.array_equal(order, np.arange(len(order))):
            yield rows
            continue
        columns = [take_rows(joined(c.chunks), order) for c in rows.columns]
        yield pa.Table.from_arrays(columns, schema=rows.schema)


def _parts(
    batches: Sequence[pa.RecordBatch], spec: MergeSpec, keys_bytes_max: int
) -> list[list[pa.RecordBatch]]:
    """Stretches of rows that can be merged at once."""
    parts: list[list[pa.RecordBatch]] = []
    size_bytes = rows_count = width = 0
    for batch in batches:
        columns = [batch.column(name) for name in spec.key_columns]
        widths = key_widths(columns, spec.key_types)
        batch_width = sum(widths) + FIXED_KEY_BYTES * len(widths)
        rows_max = max(1, keys_bytes_max // batch_width)
        for piece in batch_parts(batch, bytes_max=GROUP_BYTES_MAX):
            for offset in range(0, piece.num_rows, rows_max):
                stretch = piece.slice(offset, rows_max)
                size_bytes += stretch.nbytes
                rows_count += stretch.num_rows
                width = max(width, batch_width)
                if not parts or size_bytes > GROUP_BYTES_MAX or width * rows_count > keys_bytes_max:
                    parts.append([])
                    size_bytes, rows_count, width = stretch.nbytes, stretch.num_rows, batch_width
                parts[-1].append(stretch)
    return parts


def _merge_part(batches: Sequence[pa.RecordBatch], spec: MergeSpec) -> pa.Table:
    rows = pa.Table.from_batches(batches)
    merged = engine_of(spec).merge(rows, _segments(batches, rows, spec))
    if _is_as_it_came(merged, rows.num_rows):
        return rows  # a load in key order needs no copy
    return pa.Table.from_batches([gather(rows, merged)])


def _segments(batches: Sequence[pa.RecordBatch], rows: pa.Table, spec: MergeSpec) -> Segments:
    columns = [joined(rows.column(name).chunks) for name in spec.key_columns]
    keys = encode_keys(columns, spec.key_types, key_widths(columns, spec.key_types))
    kinds = np.concatenate([b.column(KIND_FIELD.name).to_numpy() for b in batches])
    return segments_of(
        keys,
        kinds,
        sort=flush_order,
        rank_of=rank_rows(rows, spec, sequence_column=SEQUENCE_FIELD.name),
    )


def _is_as_it_came(merged: Merged, count: int) -> bool:
    if merged.columns or len(merged.rows) != count:
        return False
    return bool(np.array_equal(merged.rows, np.arange(count)))
