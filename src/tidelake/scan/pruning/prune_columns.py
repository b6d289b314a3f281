"""Pruning by statistics for all files at once, if columns suffice.

The rules are those of :func:`tidelake.types.predicate.may_match` over the ranges that
:class:`tidelake.scan.pruning.prune.StatsReader` reads file by file. Here each leaf of the predicate
is one verdict per file: no, yes, or unknown (a type, a change of type or a damaged row that is only
read file by file). AND is the smallest verdict of its parts, OR the largest; unknown files are
tested one by one. A known verdict is the one that the file itself would give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec.binary_row_column import FieldColumn, field_column
from tidelake.metadata.data_file import EMPTY_ROW
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.scan.pruning.prune import StatsReader
from tidelake.types import DataType, TypeRoot
from tidelake.types.predicate import (
    NEGATED,
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
    may_match,
)

NO, UNKNOWN, YES = 0, 1, 2
LITERALS_MAX = 64
"""Literals of an IN that are tried one by one; of more only the smallest and the largest."""

Stats: TypeAlias = Literal["key", "value"]
Verdicts: TypeAlias = NDArray[np.int8]
Mask: TypeAlias = NDArray[np.bool_]

_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


def verdicts(
    reader: StatsReader,
    entries: EntryTable,
    predicate: Predicate,
    *,
    stats: Stats,
    partitions: Sequence[Sequence[object]],
) -> Verdicts:
    """Decide for each entry whether its file may hold rows that match.

    Parameters
    ----------
    partitions : sequence of storage-value tuples
        The values of each of the entries' partitions.

    Returns
    -------
    ndarray of int8, shape [entries]
        :data:`NO`, :data:`YES`, or :data:`UNKNOWN`.
    """
    return _Columns(reader, entries, stats, partitions).verdict(predicate, negated=False)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The known ranges of a column in some files; fields as of ``ColumnRange``."""

    low: FieldColumn | None
    high: FieldColumn | None
    nulls: NDArray[np.int64]
    nulls_known: Mask
    row_counts: NDArray[np.int64]
    data_type: DataType

    def may_be_null(self, *, null: bool) -> Mask:
        found = self.nulls > 0 if null else self.nulls < self.row_counts
        return np.where(self.nulls_known, found, self.row_counts > 0)


class _Columns:
    """The statistics of some entries."""

    def __init__(
        self,
        reader: StatsReader,
        entries: EntryTable,
        stats: Stats,
        partitions: Sequence[Sequence[object]],
    ) -> None:
        self._reader = reader
        self._entries = entries
        self._stats = stats
        self._partitions = partitions
        self._groups = list(_groups(entries, stats))
        lows = entries[f"{stats}_stats_min"]
        self._is_empty = _mask(pc.equal(lows, pa.scalar(EMPTY_ROW, pa.binary())))
        self._ranges: dict[tuple[int, str], _Ranges | int] = {}

    def verdict(self, predicate: Predicate, *, negated: bool) -> Verdicts:
        """As :func:`tidelake.types.predicate.may_match`, with NOT pushed down to the leaves."""
        match predicate:
            case Always(value):
                return self._all(YES if value != negated else NO)
            case Not(part):
                return self.verdict(part, negated=not negated)
            case And(parts) | Or(parts):
                is_and = isinstance(predicate, And) != negated
                each = [self.verdict(p, negated=negated) for p in parts]
                each.append(self._all(YES if is_and else NO))
                out: Verdicts = (np.minimum if is_and else np.maximum).reduce(each)
                return out
            case (
                Compare(column=name)
                | In(column=name)
                | StartsWith(column=name)
                | IsNull(column=name)
                | NotNull(column=name)
            ):
                if name in self._reader.partition_names:
                    return self._of_partitions(Not(predicate) if negated else predicate)
                return self._of_files(predicate, name, negated=negated)
        raise AssertionError(f"{predicate!r} is not a node")

    def _all(self, verdict: int) -> Verdicts:
        return np.full(self._entries.num_rows, verdict, dtype=np.int8)

    def _of_partitions(self, leaf: Predicate) -> Verdicts:
        known = [may_match(leaf, self._reader.partition_ranges(v)) for v in self._partitions]
        of_each = np.where(np.array(known, dtype=bool), YES, NO).astype(np.int8)
        found: Verdicts = of_each[self._entries["partition_id"]]
        return found

    def _of_files(self, leaf: Predicate, name: str, *, negated: bool) -> Verdicts:
        out = self._all(UNKNOWN)
        for number, (rows, schema_id, stats_cols) in enumerate(self._groups):
            ranges = self._ranges.get((number, name))
            if ranges is None:
                ranges = self._read(rows, schema_id, stats_cols, name)
                self._ranges[number, name] = ranges
            if isinstance(ranges, int):
                out[rows] = ranges
                continue
            out[rows] = _leaf(leaf, ranges, negated=negated)
            if ranges.low is not None:
                # without statistics any row may match; for keys the bounds of the whole key may
                # decide
                without = YES if self._stats == "value" else UNKNOWN
                out[rows[self._is_empty[rows]]] = without
        return out

    def _read(
        self,
        rows: NDArray[np.intp],
        schema_id: int,
        stats_cols: tuple[str, ...] | None,
        name: str,
    ) -> _Ranges | int:
        """Ranges of a column in files of one schema, or the verdict of each leaf on it."""
        slot = self._reader.slot(schema_id, stats_cols, name, stats=self._stats)
        if slot is None:
            return UNKNOWN
        chosen = pa.array(rows)
        row_counts = self._entries["row_count"][rows]
        if slot.is_absent:  # added later: null in all rows
            if self._stats == "key":
                return UNKNOWN
            return _Ranges(
                None, None, row_counts, np.ones(len(rows), bool), row_counts, slot.data_type
            )
        if slot.position is None:
            return YES  # no statistics
        low, high = (
            field_column(
                self._entries[f"{self._stats}_stats_{side}"].take(chosen),
                slot.position,
                fields_count=slot.fields_count,
                data_type=slot.data_type,
            )
            for side in ("min", "max")
        )
        if low is None or high is None:
            return UNKNOWN
        counts = self._entries[f"{self._stats}_stats_nulls"].take(chosen)
        nulls, nulls_known, sound = _null_counts(counts, slot.position, slot.fields_count)
        ranges = _Ranges(low, high, nulls, nulls_known, row_counts, slot.data_type)
        if not sound.all():
            return UNKNOWN
        return ranges


def _groups(
    entries: EntryTable, stats: Stats
) -> list[tuple[NDArray[np.intp], int, tuple[str, ...] | None]]:
    """Rows whose statistics have the same columns: of one schema and one list of columns."""
    schema_ids = entries["schema_id"]
    lists = entries["value_stats_cols"]
    if stats == "key" or lists.null_count == len(lists):
        return [
            (np.flatnonzero(schema_ids == schema_id), int(schema_id), None)
            for schema_id in np.unique(schema_ids)
        ]
    joined = pc.binary_join(lists, "\0").dictionary_encode()
    numbers = joined.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    groups = []
    for schema_id in np.unique(schema_ids):
        of_schema = schema_ids == schema_id
        for number in np.unique(numbers[of_schema]):
            rows = np.flatnonzero(of_schema & (numbers == number))
            names = lists[int(rows[0])].as_py()
            groups.append((rows, int(schema_id), None if names is None else tuple(names)))
    return groups


def _null_counts(
    counts: pa.Array, position: int, fields_count: int
) -> tuple[NDArray[np.int64], Mask, Mask]:
    """Null counts of one column, whether each is known, and whether the list can be as it is."""
    lengths = pc.list_value_length(counts).fill_null(0).to_numpy(zero_copy_only=False)
    has = lengths > position
    sound = (lengths == 0) | (lengths == fields_count)
    if not has.any():
        return np.zeros(len(has), dtype=np.int64), has, sound
    # null lists have no items of their own in an array that `take` made
    items_at = np.asarray(counts.offsets)[:-1][has] + position
    items = counts.values.take(pa.array(items_at))
    values = np.zeros(len(has), dtype=np.int64)
    values[has] = items.fill_null(0).to_numpy(zero_copy_only=False)
    known = has.copy()
    known[has] = items.is_valid().to_numpy(zero_copy_only=False)
    return values, known, sound


def _leaf(leaf: Predicate, ranges: _Ranges, *, negated: bool) -> Verdicts:
    if isinstance(leaf, (IsNull, NotNull)):
        found = ranges.may_be_null(null=isinstance(leaf, IsNull) != negated)
        return np.where(found, YES, NO).astype(np.int8)
    if isinstance(leaf, Compare):
        op = NEGATED[leaf.op] if negated else leaf.op
        verdict = _compared(op, leaf.literal, ranges)
    elif isinstance(leaf, StartsWith):
        verdict = _started(leaf.prefix, ranges, negated=negated)
    else:
        assert isinstance(leaf, In)
        verdict = _listed(leaf.literals, ranges, negated=negated)
    return np.where(ranges.may_be_null(null=False), verdict, NO).astype(np.int8)


def _listed(literals: Sequence[object], ranges: _Ranges, *, negated: bool) -> Verdicts:
    count = len(ranges.row_counts)
    if negated and None in literals:
        return np.full(count, NO, dtype=np.int8)  # NOT IN with a null among them is never true
    values: list[Any] = [v for v in literals if v is not None]
    if negated and len(values) <= LITERALS_MAX:
        each = [_compared("!=", v, ranges) for v in values]
        return np.minimum.reduce([np.full(count, YES, dtype=np.int8), *each])
    if len(values) <= LITERALS_MAX:
        each = [_compared("==", v, ranges) for v in values]
        return np.maximum.reduce([np.full(count, NO, dtype=np.int8), *each])
    if negated or any(v != v for v in values):
        return np.full(count, UNKNOWN, dtype=np.int8)
    # no literal is in the range if all are below, or all are above
    inside = np.minimum(_compared("<=", max(values), ranges), _compared(">=", min(values), ranges))
    return np.where(inside == NO, NO, UNKNOWN).astype(np.int8)


def _compared(op: str, literal: Any, ranges: _Ranges) -> Verdicts:
    """The verdict of comparing; see ``pruning._may_compare`` for the rules."""
    low, high = ranges.low, ranges.high
    if low is None or high is None:
        return np.full(len(ranges.row_counts), YES, dtype=np.int8)
    value = _comparable(literal, ranges.data_type)
    if value is None:
        return np.full(len(ranges.row_counts), UNKNOWN, dtype=np.int8)
    low_known, high_known = low.known, high.known
    if ranges.data_type.root in _FLOATS:
        if literal != literal:  # nothing is larger than NaN
            return np.full(len(low_known), NO if op == ">" else YES, dtype=np.int8)
        low_known = low_known & ~np.isnan(low.values)
        high_known = high_known & ~np.isnan(high.values)
        if op in {"!=", ">", ">="}:  # NaN, which the range omits
            return np.full(len(low_known), YES, dtype=np.int8)
    match op:
        case "==":
            may = (~low_known | _is("<=", low, value)) & (~high_known | _is(">=", high, value))
        case "!=":
            same = _is("==", low, value) & _is("==", high, value)
            may = ~(low_known & high_known & same)
        case "<" | "<=":
            may = ~low_known | _is(op, low, value)
        case _:
            may = ~high_known | _is(op, high, value)
    return _sound(may, low, high)


def _started(prefix: Any, ranges: _Ranges, *, negated: bool) -> Verdicts:
    low, high = ranges.low, ranges.high
    if low is None or high is None:
        return np.full(len(ranges.row_counts), YES, dtype=np.int8)
    value = _comparable(prefix, ranges.data_type)
    if not isinstance(value, bytes):
        return np.full(len(ranges.row_counts), UNKNOWN, dtype=np.int8)
    if negated:  # if both bounds begin with the prefix, then all between them do
        both = _begins(low, value) & _begins(high, value)
        return _sound(~(low.known & high.known & both), low, high)
    # the first characters are at most the prefix where the whole is less or begins with it
    may_low = ~low.known | _is("<", low, value) | _begins(low, value)
    return _sound(may_low & (~high.known | _is(">=", high, value)), low, high)


def _sound(may: Mask, low: FieldColumn, high: FieldColumn) -> Verdicts:
    verdict = np.where(may, YES, NO)
    return np.where(low.sound & high.sound, verdict, UNKNOWN).astype(np.int8)


def _comparable(literal: Any, data_type: DataType) -> Any:
    """The literal as comparable with a column's values; None if it is read file by file."""
    root = data_type.root
    if root in _TEXT:
        try:
            return literal.encode() if isinstance(literal, str) else None
        except UnicodeEncodeError:
            return None
    if root in _BYTES:
        return bytes(literal) if isinstance(literal, (bytes, bytearray)) else None
    if root in _FLOATS:
        return literal if isinstance(literal, float) else None
    is_number = isinstance(literal, int) and -(2**63) <= literal < 2**63
    return int(literal) if is_number else None


_OPERATIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "==": (np.equal, pc.equal),
    "<": (np.less, pc.less),
    "<=": (np.less_equal, pc.less_equal),
    ">": (np.greater, pc.greater),
    ">=": (np.greater_equal, pc.greater_equal),
}


def _is(op: str, column: FieldColumn, value: Any) -> Mask:
    of_numbers, of_texts = _OPERATIONS[op]
    if isinstance(value, bytes):
        return _mask(of_texts(column.values, pa.scalar(value, pa.binary())))
    found: Mask = of_numbers(column.values, value)
    return found


def _begins(column: FieldColumn, prefix: bytes) -> Mask:
    return _mask(pc.equal(pc.binary_slice(column.values, 0, len(prefix)), prefix))


def _mask(found: pa.Array) -> Mask:
    out: Mask = found.to_numpy(zero_copy_only=False)
    return out
