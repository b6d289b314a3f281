"""What a batch of a stream reads: parts in order, and the reader of a part.

A part is a tuple of splits, as for all changes
(:mod:`tidelake.table.changelog.changelog_protocols`), and its shape says how it is read:

- one split: its files hold changes; each row is given as it stands, with its kind;
- two splits: the files before and the files after. The net change between the two is given. With
  no files before these are the rows of a state, ``+I``; with none after they are removed, ``-D``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from tidelake.scan import ReadContext, Split
from tidelake.table.changelog.changelog_files import LoggedRows
from tidelake.table.changelog.changelog_protocols import ChangePart, change_schema
from tidelake.table.changelog.net_changes import NetRows
from tidelake.types.predicate import Predicate

__all__ = ["PartsBetween", "StreamPart", "StreamParts", "StreamRows"]


@dataclass(frozen=True, slots=True)
class StreamPart:
    """What one task may read alone.

    Parameters
    ----------
    snapshot_id : int
        The snapshot whose state or change it belongs to.
    splits : tuple of Split
        One or two; see the module.
    """

    snapshot_id: int
    splits: ChangePart

    @property
    def inserted(self) -> Split | None:
        """The one raw split of a part that only says ``+I``; None of any other part.

        Its files may be scanned as those of a batch read. That a table has no primary key is the
        caller's to know for parts of one split: with one, their rows have kinds of their own.
        """
        *before, after = self.splits
        if after.raw and not any(split.files_count for split in before):
            return after
        return None


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Reads parts. Picklable, for executors.

    Parameters
    ----------
    context : ReadContext
        The table.
    columns : tuple of str
        The columns wanted beside the kind.
    predicate : Predicate, optional
        Bound; decided for each row on its own.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None = None

    def read(self, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part in order: ``_row_kind``, then the columns."""
        reader = LoggedRows if len(part) == 1 else NetRows
        return reader(self.context, self.columns, self.predicate).read(part)


PartsBetween: TypeAlias = "Callable[[StreamRows], Iterator[StreamPart]]"


@dataclass
class StreamParts:
    """The rows between two offsets, not read yet; a ``PlannedChanges``.

    Nothing is asked of the storage before :attr:`rows` is asked for or a part is.

    Parameters
    ----------
    columns : tuple of str
        The columns wanted beside the kind.
    predicate : Predicate, optional
        Bound.
    open_context : callable
        Opens the table for reading.
    plan : callable
        Gives the parts.
    """

    columns: tuple[str, ...]
    predicate: Predicate | None
    open_context: Callable[[], ReadContext]
    plan: PartsBetween
    _rows: StreamRows | None = field(default=None, init=False)

    @property
    def rows(self) -> StreamRows:
        """What reads each part."""
        if self._rows is None:
            self._rows = StreamRows(self.open_context(), self.columns, self.predicate)
        return self._rows

    def __iter__(self) -> Iterator[StreamPart]:
        """The parts in the order of the stream, each with its snapshot."""
        return self.plan(self.rows)

    def parts(self) -> Iterator[ChangePart]:
        """The splits of each part, in the order of the stream."""
        return (part.splits for part in self)

    def reader(self) -> pa.RecordBatchReader:
        """All rows in order, as a stream of batches."""
        batches = (batch for part in self.parts() for batch in self.rows.read(part))
        return pa.RecordBatchReader.from_batches(change_schema(self.rows), batches)
