"""What a warehouse on a Spark session does with streams: reads."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from tidelake.catalog import Catalog
from tidelake.spark.streamread.opening import stream_frame

__all__ = ["StreamReadMethods"]


class StreamReadMethods:
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that reads and writes run on."""

    @abc.abstractmethod
    def _read_declared(
        self,
        name: str,
        columns: Sequence[str] | None,
        filter: object,
        options: Mapping[str, object] | None,
    ) -> DataFrame | None:
        """The stream where the table is one of another system; None for one of ours."""

    def read_stream(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: object = None,
        *,
        options: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Read a table as a stream: its rows, then every change.

        Parameters
        ----------
        name : str
            ``"database.table"``; or a table of Kafka that was declared in this session, as of
            :meth:`read_kafka_stream`.
        columns : sequence of str, optional
            The columns wanted; all by default. A later ``select`` does the same: Spark reads only
            the columns that the query needs.
        filter : str, Predicate or list of tuples, optional
            The rows wanted, as of :meth:`table`; a later ``where`` does the same.
        options : mapping, optional
            Options of the table for this stream, over those of the session: where it begins
            (``scan.mode`` and its like), how much a batch reads (``read.stream.*``), what it makes
            of overwrites, ``read.changelog``.

        Returns
        -------
        DataFrame
            A streaming one. Rows of a primary-key table have the column ``_row_kind`` in front
            (``+I``, ``-U``, ``+U``, ``-D``), unless ``read.changelog`` is false: deletes and rows
            as they were before are then left out. Without a checkpoint a stream begins with the
            rows that are there; with one it goes on behind what it gave. All changes of a bucket
            in a batch come from one task, in the order of the commits; rows of an append table
            without buckets come in any order.

        Raises
        ------
        NotFoundError
            No such table, column, snapshot or tag; near names are offered.
        UnsupportedError
            The table has no changes that could be streamed, or this version of Spark cannot.
        InvalidInputError
            An option is wrong.

        Examples
        --------
        >>> orders = tl.read_stream("shop.orders", columns=["id", "price"])  # doctest: +SKIP
        >>> orders.writeStream.format("console").option(
        ...     "checkpointLocation", "/tmp/checkpoint"
        ... ).start()  # doctest: +SKIP
        """
        declared = self._read_declared(name, columns, filter, options)
        if declared is not None:
            return declared
        return stream_frame(
            self.spark, self.catalog, name, columns=columns, filter=filter, options=options
        )
