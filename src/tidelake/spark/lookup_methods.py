"""What a warehouse on a Spark session does with lookups."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.tables import Catalog, Table
from tidelake.spark.lookupjoin.join import LookupMeans, joined
from tidelake.spark.lookupjoin.request import (
    VIA,
    How,
    LookupRequest,
    Retry,
    Via,
    check_choice,
)

RETRY_DELAY_MS = 1_000


class LookupMethods:
    """Methods of :class:`tidelake.spark.Lake`."""

    catalog: Catalog

    @property
    @abc.abstractmethod
    def spark(self) -> SparkSession:
        """The session that reads and writes run on."""

    @abc.abstractmethod
    def _data_table(self, name: str, *, use: str) -> Table:
        """The table of a name; a system table is refused."""

    @abc.abstractmethod
    def _in_session(self, table: Table, options: Mapping[str, object] | None) -> Table:
        """The table with the options of the session, then with those of one use."""

    def lookup_join(  # noqa: PLR0913 - each is one choice of a join
        self,
        frame: DataFrame,
        name: str,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: How = "left",
        columns: str | Sequence[str] | Mapping[str, str] | None = None,
        via: Via = "auto",
        retry_attempts: int = 0,
        retry_delay_ms: int = RETRY_DELAY_MS,
        options: Mapping[str, object] | None = None,
        service: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Give each row of a frame or a stream columns of a table, found by its primary key.

        The keys of each Arrow batch are looked up at once, where the rows are: nothing is shuffled
        and the table is not read whole, so rows keep their order, kinds and watermark.

        Parameters
        ----------
        frame : DataFrame
            A batch, or a stream of any source.
        name : str
            ``"database.table"``: a table with a primary key.
        on : str, sequence of str, or mapping
            Columns that both have, or the table's columns by those of the frame:
            ``{"origin": "faa"}``. They are exactly the primary key. A null has no match.
        how : str
            ``"left"`` keeps rows without a match, ``"inner"`` drops them.
        columns : sequence of str or mapping, optional
            The table's columns that rows get, maybe with new names: ``{"name": "origin_name"}``;
            by default all but the key. Only these are kept beside the keys.
        via : str
            ``"local"`` looks up in files on each machine, ``"service"`` asks the table's query
            service; ``"auto"`` asks it where one has registered, and goes on with local files
            where it has stopped. A service may answer from a later snapshot than that of the batch.
        retry_attempts : int
            How often a key that is missing is asked for again, at most 100 times. Then the newest
            snapshot counts, which may be newer than that of the other rows.
        retry_delay_ms : int
            The wait before each of these, for a batch of keys as a whole; at most a minute.
        options : mapping, optional
            Options of the table for this use, over those of the session.
        service : mapping, optional
            Further arguments of :func:`tidelake.lookup_client`: ``token``, ``tls``,
            ``deadline_seconds``.

        Returns
        -------
        DataFrame
            The frame's columns, then the table's. A batch sees the table as it was at this call. In
            a stream each micro-batch sees the snapshot that is newest when it is planned; all its
            tasks, and their retries, see the same.

        Raises
        ------
        InvalidInputError
            `on` is not the primary key, types cannot be compared, or a name is there twice.
        NotFoundError
            No such table or column; near names are offered. Or no service has registered.
        UnsupportedError
            The table has no primary key, or its options name a moment.

        Examples
        --------
        >>> named = tl.lookup_join(  # doctest: +SKIP
        ...     flights, "default.airports", on={"origin": "faa"}, columns=["name"]
        ... )
        """
        spark = self.spark
        table = self._in_session(self._data_table(name, use="rows are looked up in"), options)
        retry = Retry(retry_attempts, retry_delay_ms) if retry_attempts else None
        request = LookupRequest.of(
            frame.schema,
            table,
            on,
            how=how,
            columns=columns,
            case_sensitive=spark.conf.get("spark.sql.caseSensitive", "false") == "true",
        )
        check_choice("via", via, VIA, table.identifier)
        means = LookupMeans(via, retry, self.catalog, service or {})
        return joined(spark, frame, table, request, means)
