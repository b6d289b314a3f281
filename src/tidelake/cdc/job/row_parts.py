"""Rows of an epoch: without those that a copy has, and those of several tables as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.cdc.source.changes import SourceRows
from tidelake.cdc.target.target import TargetRows


def rows_after(part: SourceRows, since: tuple[int, int]) -> SourceRows:
    """The rows that are not in a table's copy already."""
    first, second = part.order[:, 0], part.order[:, 1]
    kept = (first > since[0]) | ((first == since[0]) & (second > since[1]))
    rejected = tuple(one for one in part.rejected if one.position > since)
    if kept.all():
        return replace(part, rejected=rejected)
    places = pa.array(np.flatnonzero(kept))
    return SourceRows(
        part.table,
        part.rows.take(places),
        part.kinds[kept],
        part.order[kept],
        part.changed_ms[kept],
        {name: mask[kept] for name, mask in part.unchanged.items()},
        None if part.old_keys is None else part.old_keys.take(places),
        rejected,
        {key: values.take(places) for key, values in part.metadata.items()},
    )


def joined_rows(parts: Sequence[TargetRows]) -> TargetRows:
    """Several parts as one: what a part lacks is null, and was sent."""
    if len(parts) == 1:
        return parts[0]
    masked = {name for part in parts for name in part.unchanged}
    rows = pa.concat_tables([part.rows for part in parts], promote_options="permissive")
    kinds = np.concatenate([part.kinds for part in parts])
    if not masked:
        return TargetRows(rows, kinds)
    unchanged: Mapping[str, Any] = {
        name: np.concatenate(
            [part.unchanged.get(name, np.zeros(len(part.kinds), np.bool_)) for part in parts]
        )
        for name in sorted(masked)
    }
    known = next(part.old_keys for part in parts if part.old_keys is not None)
    names = known.column_names
    old_keys = pa.concat_tables(
        [part.rows.select(names) if part.old_keys is None else part.old_keys for part in parts],
        promote_options="permissive",
    )
    return TargetRows(rows, kinds, unchanged, old_keys)
