"""One read of a table: what was planned, and the rows of it as a stream.

Rows come split by split. A limit stops the stream; batches are cut to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.scan import ReadContext, ScanPlan, Split, read_split
from tidelake.telemetry import ProcessMark, check_wanted
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate

__all__ = ["TableScan"]


@dataclass(frozen=True, slots=True, repr=False)
class TableScan:
    """A planned read.

    Parameters
    ----------
    context : ReadContext
        The table, with the schema of the snapshot that is read.
    plan : ScanPlan
        The splits.
    columns : tuple of str
        The columns wanted.
    predicate : Predicate, optional
        Bound; all rows satisfy it.
    limit : int, optional
        The most rows wanted.
    """

    context: ReadContext
    plan: ScanPlan
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    limit: int | None = None

    def __repr__(self) -> str:
        wanted = "" if self.limit is None else f", at most {self.limit} rows"
        splits = "1 split" if len(self.plan.splits) == 1 else f"{len(self.plan.splits)} splits"
        return (
            f"TableScan of {self.context.paths.location}: {splits}, columns"
            f" {', '.join(self.columns)}{wanted}; table(), batches(), reader() and count() read it"
        )

    @property
    def schema(self) -> pa.Schema:
        """The rows' Arrow schema."""
        return to_arrow_schema(self.context.fields(self.columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, split by split.

        Raises
        ------
        ClosedError
            This is a forked child, and the parent began to read: both would move in one open file.
        """
        mark, left = ProcessMark(), self.limit
        if left == 0:
            return
        for split in self.plan.splits:
            for batch in self._read(split):
                if left is None:
                    yield batch
                else:
                    yield batch.slice(0, left)
                    left -= min(left, batch.num_rows)
                    if left == 0:
                        return
                mark.check(f"This reader of {self.context.paths.location}")

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a reader; files are opened as the reader advances."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def table(self) -> pa.Table:
        """All rows in memory; splits are read side by side."""
        if self.limit is not None or len(self.plan.splits) <= 1:
            return pa.Table.from_batches(self.batches(), schema=self.schema)
        parts = self.context.env.executor.map(lambda s: list(self._read(s)), self.plan.splits)
        return pa.Table.from_batches([b for part in parts for b in part], schema=self.schema)

    def count(self) -> int:
        """Number of rows; of raw splits without a row predicate the metadata tells it.

        What their deletion vectors name is counted there too, by all but the oldest writers.
        """
        exact = self.plan.raw_rows_exact
        total = 0
        to_read: list[Split] = []
        for split in self.plan.splits:
            live = split.live_row_count if split.raw and exact else None
            if live is not None:
                total += live
            else:
                to_read.append(split)
        counts = self.context.env.executor.map(self._count_rows, to_read)
        return total + sum(counts)

    def _count_rows(self, split: Split) -> int:
        return sum(batch.num_rows for batch in replace(self, columns=())._read(split))

    def _read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for batch in read_split(
            self.context, split, columns=self.columns, predicate=self.predicate
        ):
            check_wanted()
            yield batch
