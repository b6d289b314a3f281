"""Rows, nulls and extremes of what a plan reads, from metadata alone: no data file is opened.

1. The plan must be exact: no predicate on rows, nothing to merge. Each split then holds live rows
   only, besides those that deletion vectors mark.
2. Rows are counted per partition: those of the files, less those of the vectors.
3. A column's nulls and extremes come from the value statistics of its files, or from the partition.
   They are exact for types whose statistics writers never shorten, in files of the column's own
   type, if no vector deletes rows. Text is cut, and floating numbers leave out NaN. Times of ORC
   files around 1970 and before may be read as others than their writer took statistics of.

Cost: O(files) in Python for columns; O(splits) for rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from tidelake.codec.binary_row import decode_row
from tidelake.format import orc_times_shift
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.plan import ScanPlan
from tidelake.scan.pruning.prune import StatsReader
from tidelake.scan.split import Split
from tidelake.types import DataType, TypeRoot

_EXACT = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DATE,
        TypeRoot.DECIMAL,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
"""Types whose smallest and largest values statistics hold as they are."""
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_SHORTENED_BELOW = 6
"""Statistics of timestamps finer than microseconds may be coarser than the values."""


@dataclass(frozen=True, slots=True)
class ColumnEnds:
    """A column in some rows.

    Parameters
    ----------
    low, high : storage value or None
        The smallest and the largest value; None if there is none.
    nulls_count : int or None
        Number of nulls; None if metadata does not say.
    has_extremes : bool
        Whether `low` and `high` are known.
    """

    low: Any = None
    high: Any = None
    nulls_count: int | None = None
    has_extremes: bool = False

    def and_of(self, other: ColumnEnds) -> ColumnEnds:
        """The summary of these rows and others."""
        nulls = None
        if self.nulls_count is not None and other.nulls_count is not None:
            nulls = self.nulls_count + other.nulls_count
        if not (self.has_extremes and other.has_extremes):
            return ColumnEnds(nulls_count=nulls)
        lows = [v for v in (self.low, other.low) if v is not None]
        highs = [v for v in (self.high, other.high) if v is not None]
        return ColumnEnds(min(lows, default=None), max(highs, default=None), nulls, True)


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The rows of one partition."""

    partition: bytes
    rows_count: int
    columns: Mapping[str, ColumnEnds] = field(default_factory=dict)

    def and_of(self, other: PartitionSummary) -> PartitionSummary:
        """The summary of these rows and others."""
        columns = {name: own.and_of(other.columns[name]) for name, own in self.columns.items()}
        return replace(self, rows_count=self.rows_count + other.rows_count, columns=columns)


_NOTHING = ColumnEnds(None, None, 0, True)


def plan_summary(
    context: ReadContext, plan: ScanPlan, columns: Sequence[str] = ()
) -> list[PartitionSummary] | None:
    """Summarize what a plan reads, each partition by itself.

    Parameters
    ----------
    plan : ScanPlan
        Of a read without a limit.

    Returns
    -------
    list of PartitionSummary or None
        None if rows must be read to count them: some are merged or filtered.
    """
    if not plan.raw_rows_exact or not all(split.raw for split in plan.splits):
        return None
    found: dict[bytes, PartitionSummary] = {}
    for split in plan.splits:
        rows_count = split.live_row_count
        if rows_count is None:
            return None
        own = PartitionSummary(split.partition, rows_count, _columns(context, split, columns))
        before = found.get(split.partition)
        found[split.partition] = own if before is None else before.and_of(own)
    return list(found.values())


def total_summary(
    summaries: Iterable[PartitionSummary], columns: Sequence[str] = ()
) -> PartitionSummary:
    """The summary of all partitions; of no rows if there are none."""
    nothing = PartitionSummary(b"", 0, dict.fromkeys(columns, _NOTHING))
    return reduce(PartitionSummary.and_of, summaries, nothing)


def has_whole_ends(data_type: DataType) -> bool:
    """Whether statistics hold the smallest and the largest value of a type as they are."""
    if data_type.root in _TIMESTAMPS and (data_type.precision or 0) > _SHORTENED_BELOW:
        return False
    return data_type.root in _EXACT


def _columns(context: ReadContext, split: Split, columns: Sequence[str]) -> dict[str, ColumnEnds]:
    found = {}
    schema = context.schema
    if not columns:
        return {}
    reader = StatsReader(schema, context.schemas)
    of_files = [name for name in columns if name not in schema.partition_keys]
    if len(of_files) < len(columns):
        keys = schema.partition_keys
        values = decode_row(split.partition, [schema.field(name).type for name in keys])
        for name, value in zip(keys, values, strict=True):
            found[name] = _of_partition(context, split, name, value)
    if of_files:
        each = [_of_file(context, reader, split, file, of_files) for file in split.files]
        for name in of_files:
            found[name] = reduce(ColumnEnds.and_of, (one[name] for one in each), _NOTHING)
    return {name: found[name] for name in columns}


def _of_partition(context: ReadContext, split: Split, name: str, value: object) -> ColumnEnds:
    rows_count = split.live_row_count or 0
    if rows_count == 0:
        return _NOTHING
    if value is None:
        return ColumnEnds(None, None, rows_count, True)
    if not has_whole_ends(context.schema.field(name).type):
        return ColumnEnds(nulls_count=0)
    return ColumnEnds(value, value, 0, True)


def _of_file(
    context: ReadContext,
    reader: StatsReader,
    split: Split,
    file: DataFileMeta,
    names: Sequence[str],
) -> dict[str, ColumnEnds]:
    if file.file_name in split.deletions:
        return dict.fromkeys(names, ColumnEnds())
    ranges = reader.value_ranges(file, names)
    own_types = {f.id: f.type.as_nullable() for f in reader.file_schema(file).fields}
    found = {}
    for name in names:
        current, known = context.schema.field(name), ranges.get(name)
        is_own = own_types.get(current.id) in {None, current.type.as_nullable()}
        if known is None or not is_own:
            found[name] = ColumnEnds()
            continue
        is_null = known.null_count == file.row_count
        has_both = known.min is not None and known.max is not None
        is_known = has_both and has_whole_ends(current.type)
        if is_known and current.type.root in _TIMESTAMPS and isinstance(known.min, int):
            is_known = not orc_times_shift(file.file_name, known.min)
        has_extremes = is_null or is_known
        low, high = (known.min, known.max) if has_extremes and not is_null else (None, None)
        found[name] = ColumnEnds(low, high, known.null_count, has_extremes)
    return found
