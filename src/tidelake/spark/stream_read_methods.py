"""Methods of a Lake that read streams."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.tables import Catalog
from tidelake.foreign_names import with_hints
from tidelake.spark.streams.read.opening import stream_frame


class StreamReadMethods:
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session of reads and writes."""

    @abc.abstractmethod
    def _read_declared(
        self,
        name: str,
        columns: Sequence[str] | None,
        where: object,
        options: Mapping[str, object] | None,
    ) -> DataFrame | None:
        """Read a declared table of another system as a stream; None for a table of ours."""

    @with_hints
    def read_stream(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: object = None,
        *,
        options: Mapping[str, object] | None = None,
    ) -> DataFrame:
        """Read a table as a stream: its rows, then every change.

        Parameters
        ----------
        name : str
            ``"database.table"``; or a table of Kafka that was declared in this session; see
            :meth:`read_kafka_stream`.
        columns : sequence of str, optional
            The columns wanted; all by default. A later ``select`` does the same: Spark reads only
            the columns that the query needs.
        where : str, Predicate or list of tuples, optional
            The rows wanted, as in :meth:`table`; a later ``where`` does the same.
        options : mapping, optional
            Options of the table for this stream, over those of the session: where it begins
            (``scan.mode`` and related options), how much a batch reads (``read.stream.*``),
            ``streaming-read-overwrite``, ``read.changelog``.

        Returns
        -------
        DataFrame
            A streaming one. Rows of a primary-key table have the column ``_row_kind`` in front
            (``+I``, ``-U``, ``+U``, ``-D``), unless ``read.changelog`` is false, which leaves out
            deletes and old rows. Without a checkpoint a stream begins with the table's current
            rows; with one it goes on where it was. One task gives all changes of a bucket in a
            batch, in the order of the commits. Rows of an append table without buckets come in any
            order.

        Raises
        ------
        NotFoundError
            There is no such table, column, snapshot or tag; the message suggests near names.
        UnsupportedError
            The table has no changes to stream, or this version of Spark does not support it.
        InvalidInputError
            An option is wrong.

        Examples
        --------
        >>> orders = tl.read_stream("shop.orders", columns=["id", "price"])  # doctest: +SKIP
        >>> orders.writeStream.format("console").option(
        ...     "checkpointLocation", "/tmp/checkpoint"
        ... ).start()  # doctest: +SKIP
        """
        declared = self._read_declared(name, columns, where, options)
        if declared is not None:
            return declared
        return stream_frame(
            self.spark, self.catalog, name, columns=columns, where=where, options=options
        )
