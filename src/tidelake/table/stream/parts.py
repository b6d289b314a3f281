"""The parts of a batch of a stream, in order, and their reader.

A part is a tuple of splits, as for all changes
(:mod:`tidelake.table.changelog.changelog_protocols`). The number of splits decides how the part is
read:

- one split: its files hold changes; each row is given unchanged, with its kind;
- two splits: the files before and the files after; the part gives the net change between the two.
  Without files before, the rows are those of a state, ``+I``; without files after, they were
  removed, ``-D``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from tidelake.scan import ReadContext, Split
from tidelake.table.changelog.change_filter import ChangeFilter, UpdateFilter
from tidelake.table.changelog.changelog_files import LoggedRows
from tidelake.table.changelog.changelog_protocols import ChangePart, change_schema
from tidelake.table.changelog.moved_keys import spans_buckets
from tidelake.table.changelog.net_changes import NetRows
from tidelake.table.handle.read_hold import ReadHold
from tidelake.types.predicate import Predicate


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The part that one task reads.

    Parameters
    ----------
    overwritten : bool
        Whether an overwrite came since the beginning of the batch, or is this snapshot.
    before : str, optional
        Identity of the snapshot before, where it was read.
    """

    snapshot_id: int
    splits: ChangePart
    overwritten: bool = False
    before: str | None = None

    @property
    def inserted(self) -> Split | None:
        """The one raw split of a part whose rows are all ``+I``; None for any other part.

        Its files may be scanned as those of a batch read. Requires: for a part of one split the
        table has no primary key; with a primary key the rows have kinds of their own.
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
    columns : tuple of str
        The columns wanted beside the kind.
    predicate : Predicate, optional
        Bound; applies to each row by itself.
    leaving : ChangeFilter or UpdateFilter, optional
        Of the predicate: in files of changes, rows that leave it come as ``-D``.
    """

    context: ReadContext
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    leaving: ChangeFilter | UpdateFilter | None = None

    def read(self, part: ChangePart) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part in order: ``_row_kind``, then the columns."""
        if len(part) == 1:
            logged = LoggedRows(self.context, self.columns, self.predicate, self.leaving)
            return logged.read(part)
        return NetRows(self.context, self.columns, self.predicate).read(part)


PartsBetween: TypeAlias = "Callable[[StreamRows], Iterator[StreamPart]]"


@dataclass
class StreamParts:
    """The rows between two offsets, not read yet; a ``PlannedChanges``.

    The storage is not read before the caller takes :attr:`rows` or a part.

    Parameters
    ----------
    columns : tuple of str
        The columns wanted beside the kind.
    open_context : callable
        Opens the table for reading.
    plan : callable
        Gives the parts.
    """

    columns: tuple[str, ...]
    predicate: Predicate | None
    open_context: Callable[[], ReadContext]
    plan: PartsBetween
    leaving: ChangeFilter | UpdateFilter | None = None
    _rows: StreamRows | None = field(default=None, init=False)

    @property
    def rows(self) -> StreamRows:
        """The reader of each part."""
        if self._rows is None:
            self._rows = StreamRows(self.open_context(), self.columns, self.predicate, self.leaving)
        return self._rows

    def once(self) -> StreamParts:
        """Plan the parts now, and only once however often they are asked for."""
        own = tuple(self)

        def planned(_: StreamRows) -> Iterator[StreamPart]:
            return iter(own)

        return replace(self, plan=planned)

    def __iter__(self) -> Iterator[StreamPart]:
        """The parts in the order of the stream, each with its snapshot."""
        return self.plan(self.rows)

    def parts(self) -> Iterator[ChangePart]:
        """The splits of each part, in the order of the stream."""
        return (part.splits for part in self)

    @property
    def hold(self) -> ReadHold:
        """Nothing: the stream's own lease holds what it reads."""
        return ReadHold()

    def span_buckets(self, parts: Sequence[ChangePart]) -> bool:
        """Whether changes of one key may be in several buckets of all parts."""
        context = self.rows.context
        is_state = len({part.snapshot_id for part in self}) <= 1 and all(
            len(part) > 1 and not part[0].files_count for part in parts
        )
        if is_state and all(part[1].bucket >= 0 for part in parts):  # each key once
            return False
        overwritten = any(part.overwritten for part in self)
        return spans_buckets(context, parts, is_overwritten=overwritten)

    def reader(self) -> pa.RecordBatchReader:
        """All rows in order, as a stream of batches."""
        batches = (batch for part in self.parts() for batch in self.rows.read(part))
        return pa.RecordBatchReader.from_batches(change_schema(self.rows), batches)
