"""Counts a table's rows and summarises its columns, for the optimisers of engines.

One pass over the newest snapshot, batch by batch:

1. Rows, nulls, the smallest and the largest value, the mean and the largest length.
2. Distinct values, by the smallest :data:`HASHES_MAX` of their 64-bit hashes. Up to that number
   they are counted; beyond it, the largest kept hash gives their density. The error is 1.6 percent,
   whatever the number of rows.

The result becomes a file, and an ANALYZE snapshot names it. Source: Paimon's
``PaimonAnalyzeTableColumnCommand`` (1.3.1) for Spark, which takes Spark's own estimates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    TidelakeError,
    near_names,
)
from tidelake.format.file_index.fast_hash import hash_bytes, hash_numbers
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.statistics import ColumnStatistics, TableStatistics
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.table.handle.arguments import column_names
from tidelake.table.handle.handle import TableHandle
from tidelake.table.read.table_scan import TableScan
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.java_text import java_text
from tidelake.types.values import arrow_to_storage

HASHES_MAX = 4096

_LENGTHS = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
    TypeRoot.TIMESTAMP: 8,
    TypeRoot.TIMESTAMP_LTZ: 8,
}
"""Bytes of a value as Spark counts them."""
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMES = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_SHORT_DECIMAL_DIGITS = 18
_NS_PER_S = 10**9


def analyzed_columns(
    fields: Sequence[DataField], columns: Sequence[str] | None, *, table: str
) -> tuple[DataField, ...]:
    """The columns to analyse; by default all whose type allows it.

    Raises
    ------
    NotFoundError
        There is no such column; the message offers near names.
    InvalidInputError
        A column's type has no statistics.
    """
    by_name = {f.name: f for f in fields}
    able = [f.name for f in fields if _can_be_analyzed(f.type)]
    names = column_names(columns, able, table=table)
    for name in names:
        if name not in by_name:
            message = f"Table '{table}' has no column '{name}'.{near_names(name, by_name)}"
            raise NotFoundError(message, kind="column_not_found", column=name)
        if name not in able:
            message = (
                f"Column '{name}' of table '{table}' is {by_name[name].type}, a type without"
                " statistics: leave it out."
            )
            raise InvalidInputError(message, kind="analyze_type", column=name)
    return tuple(by_name[name] for name in names)


def _can_be_analyzed(data_type: DataType) -> bool:
    root = data_type.root
    return root in _LENGTHS or root in _TEXT or root in _BYTES or root is TypeRoot.DECIMAL


def summarise(
    handle: TableHandle,
    snapshot: Snapshot,
    scan: TableScan | None,
    fields: Sequence[DataField],
    *,
    record_count: int | None,
) -> TableStatistics:
    """Summarise the rows of a snapshot.

    Parameters
    ----------
    scan : TableScan, optional
        Reads the columns; not needed if the number of rows is given and there are none.
    record_count : int, optional
        The number of rows, if known.
    """
    columns = [ColumnSummary(field) for field in fields]
    if scan is not None:
        record_count = 0
        for batch in scan.batches():
            record_count += batch.num_rows
            for column in columns:
                column.add(batch.column(column.field.name))
    assert record_count is not None, "without a scan the number of rows is given"
    entries = live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    size_bytes = int(entries["file_size_bytes"].sum())
    rows_in_files = int(entries["row_count"].sum())
    share = min(record_count, rows_in_files)  # merging makes rows fewer, not more
    return TableStatistics(
        snapshot.id,
        snapshot.schema_id,
        record_count,
        size_bytes * share // rows_in_files if rows_in_files else 0,
        {column.field.name: column.finish() for column in columns},
    )


def publish_statistics(handle: TableHandle, found: TableStatistics) -> Snapshot:
    """Write statistics and publish an ANALYZE snapshot that names them."""
    ids = handle.env.ids
    name = f"stat-{ids.uuid()}-0"
    path = handle.paths.statistics(name)
    handle.fileio.write_once(path, found.to_json().encode())
    try:
        return handle.committer().analyze(name, user=ids.uuid())
    except OutcomeUnknownError:
        raise
    except TidelakeError:
        with contextlib.suppress(StorageError):  # an orphan does no harm
            handle.fileio.delete(path)
        raise


class ColumnSummary:
    """The summary of one column so far."""

    def __init__(self, field: DataField) -> None:
        self.field = field
        self._nulls = 0
        self._rows = 0
        self._bytes = 0
        self._longest = 0
        self._min: pa.Scalar | None = None
        self._max: pa.Scalar | None = None
        self._hashes: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._is_estimate = False

    def add(self, values: pa.Array) -> None:
        """Add a batch's values."""
        self._nulls += values.null_count
        values = values.drop_null()
        self._rows += len(values)
        if not len(values):
            return
        root = self.field.type.root
        if root in _TEXT or root in _BYTES:
            lengths = pc.utf8_length(values) if root in _TEXT else pc.binary_length(values)
            self._bytes += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
        distinct = pc.unique(values)
        self._add_hashes(_hashed(distinct))
        if root not in _TEXT and root not in _BYTES:
            self._add_bounds(distinct)

    def _add_hashes(self, hashes: NDArray[np.uint64]) -> None:
        merged = np.unique(np.concatenate([self._hashes, hashes]))
        self._is_estimate |= len(merged) > HASHES_MAX
        self._hashes = merged[:HASHES_MAX]

    def _add_bounds(self, values: pa.Array) -> None:
        seen = [s for s in (self._min, self._max) if s is not None]
        if seen:
            values = pa.concat_arrays([values, pa.array([s.as_py() for s in seen], values.type)])
        if pa.types.is_floating(values.type):
            order = pc.array_sort_indices(values)  # NaN is the largest, as in Spark
            self._min, self._max = values[order[0].as_py()], values[order[-1].as_py()]
        else:
            bounds = pc.min_max(values)
            self._min, self._max = bounds["min"], bounds["max"]

    def finish(self) -> ColumnStatistics:
        """The column's statistics."""
        length = _LENGTHS.get(self.field.type.root)
        longest = length
        if self.field.type.root is TypeRoot.DECIMAL:
            precision = self.field.type.precision or 0
            length = longest = 8 if precision <= _SHORT_DECIMAL_DIGITS else 16
        if length is None:
            length = -(-self._bytes // self._rows) if self._rows else 0
            longest = self._longest
        return ColumnStatistics(
            self.field.id,
            self._distinct(),
            self._text(self._min),
            self._text(self._max),
            self._nulls,
            length,
            longest,
        )

    def _distinct(self) -> int:
        if not self._is_estimate:
            return len(self._hashes)
        density = (int(self._hashes[-1]) + 1) / 2**64
        return min(self._rows, round((HASHES_MAX - 1) / density))

    def _text(self, bound: pa.Scalar | None) -> str | None:
        """As Java's serializers print it."""
        if bound is None:
            return None
        data_type = self.field.type
        [value] = arrow_to_storage(pa.array([bound.as_py()], bound.type), data_type)
        if data_type.root not in _TIMES:
            return java_text(value, data_type)
        assert isinstance(value, int)
        seconds, nanos = divmod(value, _NS_PER_S)
        text = str(np.datetime64(seconds, "s")).replace("T", " ")
        fraction = f"{nanos:09d}"
        places = data_type.precision or 0
        while len(fraction) > places and fraction.endswith("0"):
            fraction = fraction[:-1]
        return f"{text}.{fraction}" if fraction else text


def _hashed(values: pa.Array) -> NDArray[np.uint64]:
    """One 64-bit hash per value; there are no nulls."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        values = values.cast(pa.large_binary())
        offsets = np.frombuffer(values.buffers()[1], np.int64)
        offsets = offsets[values.offset : values.offset + len(values) + 1]
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        return hash_bytes(data[offsets[0] : offsets[-1]], offsets - offsets[0])
    if pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        data = np.frombuffer(values.buffers()[1], np.uint8)
        data = data[values.offset * width : (values.offset + len(values)) * width]
        return hash_bytes(data, np.arange(len(values) + 1, dtype=np.int64) * width)
    if pa.types.is_floating(kind):
        return hash_numbers(values.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.int64))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    return hash_numbers(values.to_numpy(zero_copy_only=False).astype(np.int64))
