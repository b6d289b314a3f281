"""The stripes of an ORC file, column by column in the types of the file's own schema.

Java's own ways are undone here: CHAR is padded with spaces in the file; TIME is INT; and in a
writer whose time zone is not UTC the instants of TIMESTAMP WITH LOCAL TIME ZONE are moved by it,
unless the table's ``orc.timestamp-ltz.legacy.type`` is ``false``. Timestamps that Arrow's reader
refuses come from :mod:`tidelake.format.orc_timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from tidelake.errors import UnsupportedError
from tidelake.format.orc_tail import OrcTail, Stripe, StripeFooter, stripe_footer
from tidelake.format.orc_timestamp import timestamps
from tidelake.format.read_error import corrupt
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_type

__all__ = ["OrcStripes"]

_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_UTC_NAMES = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "UCT", "Universal"})


OLDEST_S = -1_577_923_200
"""1920-01-01: Java's zones leave out local mean time, which some places kept until about then."""


class OrcStripes:
    """The stripes of a file that Arrow has opened.

    Parameters
    ----------
    source : pyarrow.NativeFile
        The file.
    file : pyarrow.orc.ORCFile
        The same.
    tail : OrcTail
        What its end says.
    fields : sequence of DataField
        The columns to read, as the file's own schema has them.
    zone_moves : bool
        Whether instants of writers in other zones than UTC are moved.
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
        """Of each stripe: the zone that its writer was in; empty for UTC, or where none matters."""

    def check(self, path: str) -> None:
        """Find out the stripes' zones, where they matter.

        Raises
        ------
        CorruptError
            A stripe's footer cannot be read.
        """
        if any(self._is_zoned(f) for f in self._fields):
            footers = (self._footer(stripe, path) for stripe in self._tail.stripes)
            self.zones = ["" if f.zone in _UTC_NAMES else f.zone for f in footers]

    def batches(self, path: str, *, rows_before: int = 0) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Read stripe after stripe, each with its zone.

        Parameters
        ----------
        path : str
            The file, for messages.
        rows_before : int
            Rows at the beginning that are left out.
        """
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
        """Turn columns of a stripe into the types that the file's own schema gives them.

        Raises
        ------
        UnsupportedError
            A time is so old that Java and others do not agree on its zone.
        """
        values = {}
        for field in self._fields:
            own_zone = zone if self._is_zoned(field) else ""
            values[field.name] = _own_values(batch.column(field.name), field, own_zone)
            if own_zone:
                _check_old(values[field.name], field, own_zone, path)
        return values

    def _is_zoned(self, field: DataField) -> bool:
        """Whether the writer's zone has to do with a column."""
        moved = field.type.root is TypeRoot.TIMESTAMP_LTZ and self._zone_moves
        return moved or field.type.root is TypeRoot.TIMESTAMP

    def _read(self, number: int, stripe: Stripe, path: str) -> pa.RecordBatch:
        times = [f for f in self._fields if f.type.root in _TIMESTAMPS]
        try:
            return self._file.read_stripe(number, columns=self.names)
        except pa.ArrowInvalid:
            if not times:
                raise
        footer = self._footer(stripe, path)
        others = [f.name for f in self._fields if f not in times]
        columns = {f.name: self._times(f, stripe, footer, path) for f in times}
        if others:
            batch = self._file.read_stripe(number, columns=others)
            columns |= dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays([columns[n] for n in self.names], names=self.names)

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


def _check_old(values: pa.Array, field: DataField, zone: str, path: str) -> None:
    lowest = pc.min(values.cast(pa.timestamp(values.type.unit)).cast(pa.int64())).as_py()
    ticks = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[values.type.unit]
    if lowest is not None and lowest < OLDEST_S * ticks:
        message = (
            f"Column '{field.name}' of file {path} holds a time before 1920, written in the time"
            f" zone {zone}: what zones were then is told differently by Java and others. Read the"
            " other columns, or write the table anew with Java in the zone UTC."
        )
        raise UnsupportedError(message, kind="time_zone", path=path, column=field.name)


def _own_values(values: pa.Array, own: DataField, zone: str) -> pa.Array:
    target = to_arrow_type(own.type)
    match own.type.root:
        case TypeRoot.CHAR:
            return pc.utf8_rtrim(values, " ")
        case TypeRoot.TIME:
            return values.cast(target)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            plain = values.cast(pa.timestamp(values.type.unit))
            if zone and own.type.root is TypeRoot.TIMESTAMP_LTZ:
                plain = pc.local_timestamp(plain.cast(pa.timestamp(plain.type.unit, tz=zone)))
            return plain.cast(pa.timestamp(target.unit)).cast(target)
        case _:
            return values
