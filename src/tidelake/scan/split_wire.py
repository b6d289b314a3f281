"""Splits as bytes, for the way from the driver to an executor.

The body is a tuple, in the frame of :mod:`tidelake.metadata.wire`. A data file is the tuple of its
fields: names would triple the bytes, and a scan sends many files. Statistics and embedded indexes
are left out: pruning is done before a split is made.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import Any, get_type_hints

from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.wire import Wire
from tidelake.scan.split import OfKeys, Split

_LEFT_BEHIND: dict[str, Any] = {
    "key_stats": EMPTY_STATS,
    "value_stats": EMPTY_STATS,
    "embedded_index": None,
}
_NAMES = [f.name for f in dataclasses.fields(DataFileMeta) if f.name not in _LEFT_BEHIND]
_HINTS = get_type_hints(DataFileMeta)
_row = attrgetter(*_NAMES)
_Row: Any = tuple[tuple(_HINTS[name] for name in _NAMES)]  # type: ignore[misc]
_Sections: Any = tuple[tuple[tuple[_Row, ...], ...], ...]
_WIRE = Wire(
    b"TLSP",
    4,
    tuple[int, bytes, int, int, _Sections, bool, dict[str, DeletionRange], OfKeys],
    what="split",
)


def split_to_bytes(split: Split) -> bytes:
    """Give a split as bytes.

    Examples
    --------
    >>> split = Split(7, bytes(12), bucket=3, total_buckets=4, sections=(), raw=True)
    >>> split_from_bytes(split_to_bytes(split)) == split
    True
    """
    s = split
    sections = [[[_row(file) for file in run] for run in section] for section in s.sections]
    place = (s.snapshot_id, s.partition, s.bucket, s.total_buckets)
    return _WIRE.to_bytes((*place, sections, s.raw, s.deletions, s.of_keys))


def split_from_bytes(data: bytes) -> Split:
    """Take a split from bytes.

    Raises
    ------
    CorruptError
        The bytes are not a split, or are damaged.
    UnsupportedError
        They were written by a version with another layout.
    """
    snapshot_id, partition, bucket, total, rows, raw, deletions, of_keys = _WIRE.from_bytes(data)
    sections = tuple(tuple(tuple(map(_file, run)) for run in section) for section in rows)
    return Split(snapshot_id, partition, bucket, total, sections, raw, deletions, of_keys)


def _file(row: tuple[Any, ...]) -> DataFileMeta:
    return DataFileMeta(**dict(zip(_NAMES, row, strict=True)), **_LEFT_BEHIND)
