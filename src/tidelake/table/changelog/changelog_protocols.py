"""The parts of planned changes, and the rows of a part: common to all modes.

A range of changes is planned as **parts**: the files that a snapshot adds to one bucket, or files
of one bucket before and after. A task can read each part alone. A reader of all parts in order gets
the same rows as executors that read them in any order; where the order of changes counts across
buckets, the parts say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from tidelake.scan import ReadContext, Split
from tidelake.table.changelog.change_filter import ChangeFilter, UpdateFilter
from tidelake.table.conversion.inputs import ROW_KIND_COLUMN
from tidelake.table.handle.read_hold import ReadHold
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate

ChangePart: TypeAlias = tuple[Split, ...]
"""Files that hold changes; or the files before and after."""

KIND_ID = 2**31 - 5
"""The id of the column of kinds; Paimon's for ``rowkind``, so it meets no column of a table."""


class ChangeRows(Protocol):
    """Reads parts. Picklable, for executors."""

    @property
    def context(self) -> ReadContext:
        """The table."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns wanted besides the kind."""
        ...

    @property
    def predicate(self) -> Predicate | None:
        """Which rows are wanted; bound."""
        ...

    @property
    def leaving(self) -> ChangeFilter | UpdateFilter | None:
        """Turns new rows that the predicate drops into deletes; None where it drops them."""
        ...

    def read(self, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """The changes of a part: :func:`change_schema`."""
        ...


class PlannedChanges(Protocol):
    """The changes of a range, not read yet."""

    @property
    def rows(self) -> ChangeRows:
        """The reader of each part."""
        ...

    @property
    def hold(self) -> ReadHold:
        """Holds the snapshots that are read."""
        ...

    def parts(self) -> Iterator[ChangePart]:
        """The parts, in the order of the changes."""
        ...

    def span_buckets(self, parts: Sequence[ChangePart]) -> bool:
        """Whether changes of one key may be in several buckets of all parts.

        Then the parts are read in their order, or by key, and not each bucket by itself.
        """
        ...

    def reader(self) -> pa.RecordBatchReader:
        """All changes in order, as a stream."""
        ...


def change_fields(context: ReadContext, columns: Sequence[str]) -> tuple[DataField, ...]:
    """The kind, then the columns."""
    kind = DataField(KIND_ID, ROW_KIND_COLUMN, parse_type("STRING NOT NULL"))
    return (kind, *context.fields(tuple(columns)))


def change_schema(rows: ChangeRows) -> pa.Schema:
    """The Arrow schema of changes: ``_row_kind`` first."""
    return to_arrow_schema(change_fields(rows.context, rows.columns))
