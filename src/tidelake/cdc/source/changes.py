"""What a source reads between two positions: rows by table, truncations, signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.source.source_table import SourceName, SourceTable


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row with a value that its column cannot hold; it goes to the quarantine.

    Parameters
    ----------
    position : tuple of int
        As a row of :attr:`SourceRows.order`.
    kind : int
        The number of its row kind.
    reason : str
        A clause that names column and fault: ``"column 'd': NaN is not a DECIMAL(10, 2)"``.
    payload : str
        The row as JSON in the source's own texts.
    """

    table: SourceName
    position: tuple[int, int]
    kind: int
    reason: str
    payload: str


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Changed rows of one version of a table, in the order of the source.

    An update whose key changed, or another column that a target's key needs, is two rows: -D of the
    old row and +U of the new. Every other update is one +U. The columns of a -D that are not sent
    are null.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The columns of :attr:`SourceTable.fields` in the kernel's Arrow types; all may be null.
    kinds : numpy.ndarray
        Number of each row's kind, int8: +I, +U or -D.
    order : numpy.ndarray
        int64, ``[n, 2]``: where a row stands in the source; rises, within a table without equals.
        The first number orders transactions, the second the rows of one.
    changed_ms : numpy.ndarray
        When the source made the change, int64, milliseconds since 1970 in UTC.
    unchanged : mapping of str to numpy.ndarray
        For columns of which the source did not send an unchanged value: whether the row's is one.
        The value is null there and must be taken from the table.
    old_keys : pyarrow.RecordBatch or None
        The key under which a row's unchanged values stand, where `unchanged` is not empty: the old
        key of a row whose key changed.
    rejected : tuple of Rejected
        Rows left out.
    metadata : mapping of str to pyarrow.Array
        What the source alone knows of each row, by the key of a metadata column: of Kafka ``topic``
        and so on.
    """

    table: SourceTable
    rows: pa.RecordBatch
    kinds: NDArray[np.int8]
    order: NDArray[np.int64]
    changed_ms: NDArray[np.int64]
    unchanged: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    old_keys: pa.RecordBatch | None = None
    rejected: tuple[Rejected, ...] = ()
    metadata: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Truncated:
    """All rows of a table went. Nothing else of the table stands in the same range.

    Parameters
    ----------
    order : tuple of int
        Where it stands, as a row of :attr:`SourceRows.order`; it is nothing to a later copy.
    """

    table: SourceName
    order: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MustReread:
    """A table changed in a way that the log does not tell row by row.

    Parameters
    ----------
    reason : str
        A clause: ``"it was renamed to a name that is kept equal"``.
    order : tuple of int or None
        Where it stands in the log, as a row of :attr:`SourceRows.order`; it is nothing to a later
        copy. None if it was seen outside the log, as the source is now.
    columns : tuple of str
        Columns, in small letters, that have other values under their names. It is nothing to a
        table whose newest known version has none of them. Empty: in any case.
    """

    table: SourceName
    reason: str
    order: tuple[int, int] | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vanished:
    """A table was dropped, or renamed to a name that is not kept equal.

    Parameters
    ----------
    order : tuple of int or None
        As of :class:`MustReread`.
    """

    table: SourceName
    statement: str
    order: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A message for the job that somebody wrote into the log: of PostgreSQL, with our prefix.

    Parameters
    ----------
    text : str
        What was written.
    order : tuple of int
        As a row of :attr:`SourceRows.order`.
    """

    text: str
    order: tuple[int, int]


TableEvent = Truncated | MustReread | Vanished
"""What the log says of a whole table."""
Part = SourceRows | TableEvent | Signal


@dataclass(frozen=True, slots=True)
class Changes:
    """What the source says between two positions.

    The same range always gives the same parts, so that an epoch can be applied again.

    Parameters
    ----------
    start, end : str
        Positions, as texts: the first is not in the range, the last is.
    parts : tuple of Part
        The versions of a table in their order; tables in no order.
    newest : str
        The newest position of the source that is known.
    committed_ms : int or None
        When the source committed the last transaction of the range.
    appeared : tuple of SourceName
        Tables that are known by their first row alone, and that the source has not shown before.
        The range ends before that row, so that they may join; the next read passes over the rows of
        those that did not.
    """

    start: str
    end: str
    parts: tuple[Part, ...]
    newest: str
    committed_ms: int | None = None
    appeared: tuple[SourceName, ...] = ()

    @property
    def rows_count(self) -> int:
        """Number of changed rows."""
        return sum(len(part.kinds) for part in self.parts if isinstance(part, SourceRows))
