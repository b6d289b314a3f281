"""The stripes of an ORC file, column by column in the types of the file's own schema.

This module reverses what Java does at every depth: CHAR is padded with spaces in the file; TIME is
INT; and a writer whose time zone is not UTC moves the instants of TIMESTAMP WITH LOCAL TIME ZONE by
its zone, unless the table's ``orc.timestamp-ltz.legacy.type`` is ``false``. Timestamps that Arrow's
reader refuses come from :mod:`tidelake.format.orc.timestamp`; inside nested columns they are
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from tidelake.errors import UnsupportedError
from tidelake.format.orc.tail import OrcTail, Stripe, StripeFooter, stripe_footer
from tidelake.format.orc.timestamp import MILLIS_NS, timestamps
from tidelake.format.read_error import corrupt
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types, to_arrow_type
from tidelake.types.nested import (
    ListParts,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)

_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_UTC_NAMES = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "UCT", "Universal"})


SECOND_NS = 1_000_000_000
NEAR_NS = 2 * 86_400 * SECOND_NS
"""The largest offset of a zone from UTC."""

OLDEST_S = -1_577_923_200
"""1920-01-01: Java's zones ignore local mean time, which some regions kept until about then."""


class OrcStripes:
    """The stripes of a file that Arrow has opened.

    Parameters
    ----------
    zone_moves : bool
        Whether instants of writers in zones other than UTC are moved.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        file: orc.ORCFile,
        tail: OrcTail,
        fields: Sequence[DataField],
        *,
        zone_moves: bool,
    ) -> None:
        self._source = source
        self._file = file
        self._tail = tail
        self._fields = tuple(fields)
        self._zone_moves = zone_moves
        self.names = [field.name for field in fields]
        self.row_count = int(file.nrows)
        self.zones: list[str] = [""] * len(tail.stripes)
        """For each stripe: its writer's zone; empty for UTC, or if no zone matters."""

    def check(self, path: str) -> None:
        """Find the stripes' zones, if they matter.

        Raises
        ------
        CorruptError
            A stripe's footer cannot be read.
        """
        if any(self._is_zoned(f.type) for f in self._fields):
            footers = (self._footer(stripe, path) for stripe in self._tail.stripes)
            self.zones = ["" if f.zone in _UTC_NAMES else f.zone for f in footers]

    def batches(self, path: str, *, rows_before: int = 0) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Read stripe after stripe, each with its zone."""
        before = rows_before
        for number, (stripe, zone) in enumerate(zip(self._tail.stripes, self.zones, strict=True)):
            if stripe.row_count <= before:
                before -= stripe.row_count
                continue
            batch = self._read(number, stripe, path)
            if batch.num_rows != stripe.row_count:
                reason = f"stripe {number} holds {batch.num_rows} rows, not {stripe.row_count}"
                raise corrupt(path, reason)
            yield zone, batch.slice(before)
            before = 0

    def own_values(self, batch: pa.RecordBatch, zone: str, path: str) -> dict[str, pa.Array]:
        """Cast columns of a stripe to the types of the file's own schema.

        Raises
        ------
        UnsupportedError
            A time is so old that Java and other readers use different offsets.
        """
        values = {}
        for field in self._fields:
            own = _OwnValues(field, path, zone, self._zone_moves)
            values[field.name] = own.of(batch.column(field.name), field.type)
        return values

    def _is_zoned(self, data_type: DataType) -> bool:
        """Whether the writer's zone affects a column, or one inside it."""
        return _zone_matters(data_type, moves=self._zone_moves) or any(
            map(self._is_zoned, data_type.children)
        )

    def _read(self, number: int, stripe: Stripe, path: str) -> pa.RecordBatch:
        times = [f for f in self._fields if f.type.root in _TIMESTAMPS]
        try:
            return self._file.read_stripe(number, columns=self.names)
        except pa.ArrowInvalid:
            if not any(_holds_times(f.type) for f in self._fields):
                raise
        footer = self._footer(stripe, path)
        columns = {f.name: self._times(f, stripe, footer, path) for f in times}
        for field in self._fields:
            if field not in times:
                columns[field.name] = self._read_one(number, field, path)
        return pa.RecordBatch.from_arrays([columns[n] for n in self.names], names=self.names)

    def _read_one(self, number: int, field: DataField, path: str) -> pa.Array:
        try:
            return self._file.read_stripe(number, columns=[field.name]).column(0)
        except pa.ArrowInvalid as error:
            if "timestamp" not in str(error):
                raise
            message = (
                f"Column '{field.name}' of file {path} holds, inside {field.type}, a timestamp"
                " outside the years 1677 to 2262. This version cannot read it from a nested column"
                " of an ORC file: read the other columns."
            )
            raise UnsupportedError(
                message, kind="value_range", path=path, column=field.name
            ) from error

    def _times(self, field: DataField, stripe: Stripe, footer: StripeFooter, path: str) -> pa.Array:
        unit = to_arrow_type(field.type).unit
        if unit == "ns":
            message = (
                f"Column '{field.name}' of file {path} holds a timestamp outside the years 1677 to"
                " 2262, which nanoseconds in 64 bits cannot hold: read the other columns."
            )
            raise UnsupportedError(message, kind="value_range", path=path, column=field.name)
        column = self._tail.column_ids[self._file.schema.names.index(field.name)]
        streams = footer.streams_of(self._source, self._tail, column, path=path)
        moved = field.type.root is TypeRoot.TIMESTAMP and footer.zone not in _UTC_NAMES
        zone = footer.zone if moved else ""
        return timestamps(streams, rows=stripe.row_count, zone=zone, unit=unit, path=path)

    def _footer(self, stripe: Stripe, path: str) -> StripeFooter:
        return stripe_footer(self._source, self._tail, stripe, path=path)


def _holds_times(data_type: DataType) -> bool:
    return data_type.root in _TIMESTAMPS or any(map(_holds_times, data_type.children))


def _zone_matters(data_type: DataType, *, moves: bool) -> bool:
    moved = data_type.root is TypeRoot.TIMESTAMP_LTZ and moves
    return moved or data_type.root is TypeRoot.TIMESTAMP


@dataclass(frozen=True, slots=True)
class _OwnValues:
    """Casts a column of a stripe to its type in the file's own schema."""

    field: DataField
    path: str
    zone: str
    zone_moves: bool

    def of(self, values: pa.Array, data_type: DataType) -> pa.Array:
        if data_type.is_nested:
            return self._nested(values, data_type)
        target = to_arrow_type(data_type)
        match data_type.root:
            case TypeRoot.CHAR:
                return pc.utf8_rtrim(values, " ")
            case TypeRoot.TIME:
                return values.cast(target)
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                return self._moments(values, data_type, target)
            case _:
                return values

    def _nested(self, values: pa.Array, data_type: DataType) -> pa.Array:
        target = to_arrow_type(data_type)
        types = [child for _, child in child_types(data_type)]
        if data_type.root is TypeRoot.ROW:
            inside = zip(struct_children(values), types, strict=True)
            return struct_of([self.of(v, t) for v, t in inside], target, values)
        parts = list_parts(values)
        flat = tuple(self.of(v, t) for v, t in zip(parts.children, types, strict=True))
        parts = ListParts(parts.offsets, parts.nulls, flat)
        return list_of(parts, target) if len(flat) == 1 else map_of(parts, target)

    def _moments(self, values: pa.Array, data_type: DataType, target: pa.DataType) -> pa.Array:
        zone = self.zone if _zone_matters(data_type, moves=self.zone_moves) else ""
        plain = values.cast(pa.timestamp(values.type.unit))
        if zone and data_type.root is TypeRoot.TIMESTAMP:
            plain = _corrected_near_1970(plain, zone)
        elif zone:
            plain = pc.local_timestamp(plain.cast(pa.timestamp(plain.type.unit, tz=zone)))
        moments = plain.cast(pa.timestamp(target.unit)).cast(target)
        if zone:
            _check_old(moments, self.field, zone, self.path)
        return moments


def _corrected_near_1970(walls: pa.Array, zone: str) -> pa.Array:
    """Correct Arrow's times of a writer in another zone around the beginning of 1970.

    For times before 1970 with parts of a second the file has the next second. Java decides which
    times those are by the instant in its zone, Arrow by the local time.
    """
    ticks = walls.cast(pa.int64())
    is_near = pc.fill_null(pc.less(pc.abs_checked(ticks), NEAR_NS), False)
    if not pc.any(is_near).as_py():
        return walls
    counts = pc.fill_null(ticks, 0).to_numpy()
    seconds, nanos = np.divmod(counts, SECOND_NS)
    is_cut = is_near.to_numpy(zero_copy_only=False) & (nanos > MILLIS_NS)
    stored = seconds + (is_cut & (seconds < 0))
    on_wall = pa.array(stored).cast(pa.timestamp("s"))
    instants = pc.assume_timezone(on_wall, zone, ambiguous="earliest", nonexistent="earliest")
    is_before = instants.cast(pa.int64()).to_numpy() < 0
    seconds = np.where(is_cut, stored - is_before, seconds)
    instants = pa.array(seconds * SECOND_NS + nanos, mask=walls.is_null().to_numpy(False))
    return instants.cast(walls.type)


def _check_old(values: pa.Array, field: DataField, zone: str, path: str) -> None:
    lowest = pc.min(values.cast(pa.timestamp(values.type.unit)).cast(pa.int64())).as_py()
    ticks = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[values.type.unit]
    if lowest is not None and lowest < OLDEST_S * ticks:
        message = (
            f"Column '{field.name}' of file {path} holds a time before 1920, written in the time"
            f" zone {zone}: Java and other readers use different offsets for that time. Read the"
            " other columns, or write the table again with Java in the zone UTC."
        )
        raise UnsupportedError(message, kind="time_zone", path=path, column=field.name)
