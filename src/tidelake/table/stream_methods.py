"""Methods of a table that follow it: batches as commits come, without an engine."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence

from tidelake.foreign_names import with_hints
from tidelake.table.handle.handle import TableHandle
from tidelake.table.stream.follow import Start, StreamBatch, stream_batches


class StreamMethods(abc.ABC):
    """Streams in this process."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    @with_hints
    def stream(
        self,
        *,
        start: Start = None,
        consumer_id: str | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
        options: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> Generator[StreamBatch, None, None]:
        """Yield the existing rows, then every change, as commits come.

        Parameters
        ----------
        start : int, str or datetime, optional
            The id of the first snapshot whose changes are read; a mode of ``scan.mode`` such as
            ``"latest"`` (only new commits) or ``"latest-full"`` (all rows, then new commits); or a
            time. The default follows the options: all rows, then new commits.
        consumer_id : str, optional
            Names the reader. Its progress is recorded when the next batch is requested, and from
            then on overrides `start`. Snapshots that it has not read do not expire.
        columns : sequence of str, optional
            The columns; all by default.
        where : str, Predicate or DNF list, optional
            As of :meth:`scan`; each row is tested on its own. Where changes have no old rows
            (``changelog-producer`` is ``none`` or ``input``), a new row that does not satisfy it
            comes as ``-D`` of its key, and `columns` need the primary key.
        options : mapping, optional
            Options for this stream, such as ``read.stream.maxRowsPerTrigger``.
        timeout : float, optional
            Seconds without a new commit after which the stream ends; 0 ends it after all existing
            data. By default it never ends.

        Returns
        -------
        iterator of StreamBatch
            ``data`` (``_row_kind`` first), ``snapshot_id``, ``watermark``. Close it, or leave its
            loop, to end the stream.

        Raises
        ------
        ConflictError
            Another run of the consumer is live.
        NotFoundError
            The next snapshot has expired; the message names the existing range.
        InvalidInputError, UnsupportedError
            An argument is wrong, or the table's changes cannot be streamed.

        Notes
        -----
        Nothing is read before it is requested. If the process ends before it requests the next
        snapshot's batch, a batch is repeated: at least once, in order.

        Examples
        --------
        >>> import tempfile, tidelake
        >>> table = tidelake.open(tempfile.mkdtemp()).create_table("db.t", {"k": "BIGINT"})
        >>> for k in (1, 2):
        ...     _ = table.write([{"k": k}])
        >>> for batch in table.stream(start=1, timeout=0):
        ...     print(batch.snapshot_id, batch.data.to_pylist())
        1 [{'_row_kind': '+I', 'k': 1}]
        2 [{'_row_kind': '+I', 'k': 2}]
        """
        return stream_batches(
            self.handle,
            start=start,
            consumer_id=consumer_id,
            columns=columns,
            where=where,
            options=options,
            timeout=timeout,
        )

    @with_hints
    def follow(
        self,
        callback: Callable[[StreamBatch], object],
        *,
        start: Start = None,
        consumer_id: str | None = None,
        columns: Sequence[str] | None = None,
        where: object = None,
        options: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Call a function with each batch of :meth:`stream`, until it returns False.

        Parameters
        ----------
        callback : callable
            Receives each batch. If it raises, the next run receives that batch again.
        start, consumer_id, columns, where, options, timeout
            As of :meth:`stream`.

        Returns
        -------
        int
            How many batches it received.
        """
        count = 0
        batches = stream_batches(
            self.handle,
            start=start,
            consumer_id=consumer_id,
            columns=columns,
            where=where,
            options=options,
            timeout=timeout,
        )
        with contextlib.closing(batches):
            for batch in batches:
                count += 1
                if callback(batch) is False:
                    break
        return count
