"""A query in small: Spark's checkpoint, a source's cursor and a sink's batches, without a JVM.

:class:`SmallQuery` does what Spark's micro-batches do, step by step: it writes ``offsets/N``, reads
the rows between two offsets, gives them to the sink and writes ``commits/N``. So a check can stop
it between any two steps, restore its checkpoint and roll its tables back, hundreds of times in a
minute. The cursor and the sink are the real ones; what is Java's stands aside.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa

from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.write import batch_rows, batch_sink, sink_run
from tidelake.spark.streams.write.checkpoint import Checkpoint, SinkMark
from tidelake.table import Table
from tidelake.table.stream import StreamPlan

__all__ = ["SmallQuery", "beside_spark"]

BATCHES_MAX = 50
NONE = "-"
"""How Spark writes the offset of a source that has none yet."""


@contextlib.contextmanager
def beside_spark() -> Iterator[None]:
    """What is Java's, or a thread of its own, stands aside."""
    with (
        mock.patch.object(sink_run.StreamCompactor, "join", return_value=None),
        mock.patch.object(sink_run.threading, "Thread"),
        mock.patch.object(sink_run, "OPEN_TRIES_MAX", 1),
        mock.patch.object(batch_sink, "check_columns"),
        mock.patch.object(
            batch_rows.BatchRows, "write", lambda _, writes, given: writes.write(given.rows)
        ),
    ):
        yield


class SmallQuery:
    """One query, from the tables of its sources into one table.

    Parameters
    ----------
    folder : Path
        Its checkpoint.
    sources : sequence of Table
        The query is a union of their streams.
    target : Table
        An append table with the same columns.
    options : mapping of str to str
        Of each source.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[Table],
        target: Table,
        options: dict[str, str] | None = None,
    ) -> None:
        self.folder, self._sources, self._target = folder, sources, target
        self._options = options or {}
        self._runs = 0

    def run(self, *, stop_after: str = "", keeps: int = 1) -> int:
        """Run with the trigger ``availableNow``; the number of the batches.

        Parameters
        ----------
        stop_after : str
            ``"offsets"`` or ``"sink"``: the process dies behind that step of the last batch.
        keeps : int
            Of how many rows the sink gets one; others are filtered away.
        """
        (self.folder / "offsets").mkdir(parents=True, exist_ok=True)
        (self.folder / "commits").mkdir(exist_ok=True)
        if not (self.folder / "metadata").exists():
            (self.folder / "metadata").write_text('{"id": "query"}')
        self._runs += 1
        checkpoint = Checkpoint.of(self.folder, table=self._target.identifier)
        sink = batch_sink.BatchSink(
            self._target.handle,
            checkpoint,
            SinkMark(self._target.identifier, 0, "append", 0),
            f"run-{self._runs}",
        )
        cursors = [StreamCursor(StreamPlan.of(s.handle, self._options)) for s in self._sources]
        for cursor in cursors:
            cursor.fix_end()
        count = 0
        try:
            while self._batch(sink, cursors, keeps, stop_after):
                count += 1
                assert count < BATCHES_MAX, "the stream stands still"
        finally:
            if sink.run is not None:
                sink.run.end()
        return count

    def _batch(
        self,
        sink: batch_sink.BatchSink,
        cursors: Sequence[StreamCursor],
        keeps: int,
        stop_after: str,
    ) -> bool:
        """Plan or repeat a batch; whether another one may follow."""
        begun, done = self._numbers("offsets"), self._numbers("commits")
        number = max(begun, default=-1)
        starts: Sequence[str | None] = [None] * len(cursors)
        if begun and number not in done:
            ends = self._offsets(number)
            if number:
                starts = self._offsets(number - 1)
        else:
            if begun:
                starts = self._offsets(number)
            ends = [c.next(s) for c, s in zip(cursors, starts, strict=True)]
            if list(ends) == list(starts) or all(end is None for end in ends):
                return False
            number += 1
            self._write("offsets", number, [end or NONE for end in ends])
        if stop_after == "offsets":
            return False
        ids: list[int] = []
        for cursor, start, end in zip(cursors, starts, ends, strict=True):
            if end is not None and end != start:
                parts = cursor.plan.parts(*cursor.between(start, end))
                ids += parts.reader().read_all()["id"].to_pylist()
        kept = [i for i in ids if i % keeps == 0]
        frame = SimpleNamespace(
            sparkSession=None, rows=pa.table({"id": pa.array(kept, pa.int64())})
        )
        sink.write(frame, number)  # a stand-in for a frame
        if stop_after == "sink":
            return False
        self._write("commits", number, [])
        return True

    def _numbers(self, log: str) -> set[int]:
        return {int(p.name) for p in (self.folder / log).iterdir() if p.name.isdecimal()}

    def _offsets(self, number: int) -> list[str | None]:
        lines = (self.folder / "offsets" / str(number)).read_text().splitlines()[2:]
        return [None if line == NONE else line for line in lines]

    def _write(self, log: str, number: int, lines: Sequence[str]) -> None:
        head = ["v1", json.dumps({"batchWatermarkMs": 0})]
        (self.folder / log / str(number)).write_text("\n".join([*head, *lines]))
