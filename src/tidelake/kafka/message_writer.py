"""Writes rows as messages of a topic, at least once.

A task encodes its rows, gives them to the client, and waits until the brokers have acknowledged all
of them (``acks=all``). A message without acknowledgement fails the task. A repeated task writes its
messages again.

A key's hash (murmur2) gives the partition, as in Java's client, so the messages of both clients for
a key are in one partition. Within a task a partition's messages keep the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError
from tidelake.kafka import table_options as own
from tidelake.kafka._optional import confluent
from tidelake.kafka.client import Errors, base_settings, kafka_error, unreachable
from tidelake.kafka.definition import KafkaTable
from tidelake.types import RowKind

QUEUE_KIB_MAX = 32_768
FLUSH_SECONDS = 0.5
FLUSH_POLLS_MAX = 240
DOWN_POLLS_MAX = 6
_CONSUMER_ONLY = ("group.id", "auto.offset.reset", "isolation.level")
ANY_PARTITION = -1


def check_writable(table: KafkaTable) -> None:
    """Refuse a table that cannot be written, before a job runs.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It has no single topic, or its format is read-only.
    """
    if len(table.topics) != 1:
        message = (
            f"Table '{table.name}' cannot be written: give it one 'topic', not"
            f" {'a pattern' if not table.topics else len(table.topics)}."
        )
        raise InvalidInputError(message, kind="kafka_topic", table=table.name)
    for part in filter(None, (table.key, table.value)):
        part.encoder(table=table.name)


class MessageWriter:
    """Writes the rows of one task.

    Parameters
    ----------
    task : int
        The task's number, which decides the partition of ``sink.partitioner`` = ``fixed``.
    """

    def __init__(self, table: KafkaTable, *, task: int, partitions_count: int) -> None:
        self._table = table
        self._task, self._count = task, partitions_count
        self._partitioner = table.options[own.PARTITIONER]
        self._turn = task
        self._errors = Errors()
        self._failed: list[Any] = []
        self._key = None if table.key is None else table.key.encoder(table=table.name)
        self._value = table.value.encoder(table=table.name)
        library = confluent()
        settings = {
            "queue.buffering.max.kbytes": QUEUE_KIB_MAX,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            # a missing topic fails in seconds, not in half a minute
            "topic.metadata.propagation.max.ms": 3_000,
            **base_settings(table, self._errors),
        }
        for name in _CONSUMER_ONLY:
            settings.pop(name, None)
        self._library = library
        try:
            self._producer = library.Producer(settings)
        except library.KafkaException as error:
            raise kafka_error(error, table=table, doing="a client was made") from error

    def __enter__(self) -> MessageWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()
        else:
            self._producer.purge()

    def write(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> int:
        """Give rows to the client; return the number of their messages.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
            The columns to write, by name, in the kernel's Arrow types.
        kinds : numpy.ndarray, optional
            Row kinds; inserts by default.
        """
        table = self._table
        keys: Sequence[bytes | None] = [None] * rows.num_rows
        if self._key is not None and table.key is not None:
            keys = self._key.encode(rows.select(table.key.names), None)
        if table.is_upsert and kinds is not None:
            is_kept = ~_replaced(kinds, keys)
            rows, kinds = rows.filter(pa.array(is_kept)), kinds[is_kept]
            keys = list(compress(keys, is_kept))
        values: list[bytes | None] = list(
            self._value.encode(rows.select(table.value.names), None if table.is_upsert else kinds)
        )
        if table.is_upsert and kinds is not None:
            is_gone = (kinds == int(RowKind.DELETE)) | (kinds == int(RowKind.UPDATE_BEFORE))
            for n in np.flatnonzero(is_gone).tolist():
                values[n] = None
        self._produce(keys, values, self._headers(rows), self._times(rows))
        return rows.num_rows

    def flush(self) -> None:
        """Wait until the brokers have acknowledged every message.

        Raises
        ------
        InvalidInputError
            A message is too large.
        StorageError
            A message got no acknowledgement.
        """
        for poll in range(FLUSH_POLLS_MAX):
            left = self._producer.flush(FLUSH_SECONDS)
            self._check()
            if not left:
                return
            if self._errors.all_down and poll >= DOWN_POLLS_MAX:
                break
        self._producer.purge()
        raise unreachable(self._table, self._errors, doing="messages were written")

    def _produce(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Any],
        times: Sequence[int],
    ) -> None:
        topic = self._table.topics[0]
        produce, poll = self._producer.produce, self._producer.poll
        for key, value, header, time in zip(keys, values, headers, times, strict=True):
            waits = 0
            while True:
                try:
                    produce(
                        topic,
                        value,
                        key,
                        self._partition(),
                        on_delivery=self._delivered,
                        timestamp=time,
                        headers=header,
                    )
                    break
                except BufferError:
                    # the client's queue is full
                    poll(FLUSH_SECONDS)
                    self._check()
                    waits += 1
                    if (self._errors.all_down and waits > DOWN_POLLS_MAX) or (
                        waits > FLUSH_POLLS_MAX
                    ):
                        raise unreachable(
                            self._table, self._errors, doing="messages were written"
                        ) from None
                except self._library.KafkaException as error:
                    raise kafka_error(
                        error, table=self._table, doing="messages were written"
                    ) from error
            poll(0)
        self._check()

    def _partition(self) -> int:
        if self._partitioner == "fixed":
            return self._task % self._count
        if self._partitioner == "round-robin":
            self._turn += 1
            return self._turn % self._count
        return ANY_PARTITION

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error)

    def _check(self) -> None:
        if self._failed:
            self._producer.purge()
            raise kafka_error(self._failed[0], table=self._table, doing="messages were written")

    def _headers(self, rows: pa.RecordBatch) -> Sequence[Any]:
        name = self._written("headers")
        if name is None:
            return [None] * rows.num_rows
        return [None if v is None else list(v) for v in rows.column(name).to_pylist()]

    def _times(self, rows: pa.RecordBatch) -> Sequence[int]:
        """Give times in ms since the epoch; with 0 the client takes its own clock."""
        name = self._written("timestamp")
        if name is None:
            return [0] * rows.num_rows
        column = rows.column(name).cast(pa.timestamp("ms", rows.column(name).type.tz), safe=False)
        return [0 if v is None else v for v in column.view(pa.int64()).to_pylist()]

    def _written(self, key: str) -> str | None:
        for name, column in self._table.metadata.items():
            if column.key == key and not column.is_virtual:
                return name
        return None


def _replaced(kinds: NDArray[np.int8], keys: Sequence[bytes | None]) -> NDArray[np.bool_]:
    """Which old rows the new row of the same update replaces, right behind them.

    Any other -U is a delete: a filter has left out its +U.
    """
    found = np.zeros(len(kinds), np.bool_)
    is_before, is_after = kinds == int(RowKind.UPDATE_BEFORE), kinds == int(RowKind.UPDATE_AFTER)
    for n in np.flatnonzero(is_before[:-1] & is_after[1:]).tolist():
        found[n] = keys[n] == keys[n + 1]
    return found
