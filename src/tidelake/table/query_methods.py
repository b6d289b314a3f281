"""Methods of a table that find rows by primary key."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidelake.metadata.bucket_id import BucketId
from tidelake.table.handle.handle import TableHandle
from tidelake.table.query import LocalTableQuery
from tidelake.table.query.point_read import read_keys
from tidelake.table.read.scan_request import ScanRequest


class QueryMethods(abc.ABC):
    """Rows by key."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    def get(
        self,
        key: object,
        *,
        columns: Sequence[str] | None = None,
        snapshot_id: int | None = None,
    ) -> dict[str, Any] | None:
        """The row of a key, read from the table's files; None without one.

        Parameters
        ----------
        key : object
            The value of a primary key of one column; a tuple in the order of the key; a dict.
        columns : sequence of str, optional
            The columns; all by default.
        snapshot_id : int, optional
            The snapshot; the newest by default.

        Raises
        ------
        InvalidInputError
            The table has no primary key, or the key has the wrong number of values, a null, or a
            value of another type.
        NotFoundError
            A column or the snapshot is unknown.

        Notes
        -----
        Each call plans and reads: milliseconds. A process that looks up many keys keeps a
        :meth:`local_query`.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
        >>> table = catalog.create_table("db.t", schema, primary_keys=["id"])
        >>> _ = table.write([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
        >>> table.get(2)
        {'id': 2, 'name': 'two'}
        >>> table.get_many([1, 7], columns=["name"])
        [{'name': 'one'}, None]
        """
        request = ScanRequest(columns=columns, snapshot_id=snapshot_id)
        (row,) = read_keys(self.handle, key, request, is_one=True).dicts()
        return row

    def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        snapshot_id: int | None = None,
    ) -> Any:
        """The rows of many keys, read from the table's files.

        Parameters
        ----------
        keys : object
            A list of keys as :meth:`get` takes them, or an Arrow array, batch or table.
        columns, snapshot_id
            As of :meth:`get`.

        Returns
        -------
        list of (dict or None), or pyarrow.Table
            One row per key in the order of the keys; a table for Arrow, with nulls in the row of a
            key that is not there.
        """
        request = ScanRequest(columns=columns, snapshot_id=snapshot_id)
        result = read_keys(self.handle, keys, request)
        is_arrow = isinstance(keys, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table))
        return result.table() if is_arrow else result.dicts()

    def local_query(
        self,
        *,
        columns: Sequence[str] | None = None,
        owns: Callable[[BucketId], bool] | None = None,
        directory: str | Path | None = None,
    ) -> LocalTableQuery:
        """Open a query that answers by key from files on the local disk, in microseconds.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns that rows are answered with; all by default. Fewer make smaller files.
        owns : callable, optional
            Which buckets (:class:`~tidelake.metadata.bucket_id.BucketId`) are copied and answered
            for; all by default.
        directory : str or Path, optional
            Where the files are kept; by default in the machine's directory of temporary files.

        Returns
        -------
        LocalTableQuery
            Its ``get``, ``get_many``, ``lookup`` and ``refresh``. The first use, or ``refresh``,
            copies the table's files.

        Raises
        ------
        InvalidInputError
            The table has no primary key.
        NotFoundError
            A column is unknown.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
        >>> table = catalog.create_table("db.t", schema, primary_keys=["id"])
        >>> _ = table.write([{"id": 1, "name": "one"}])
        >>> query = table.local_query(directory=tempfile.mkdtemp())
        >>> query.get(1), query.get(2)
        ({'id': 1, 'name': 'one'}, None)
        >>> _ = table.write([{"id": 2, "name": "two"}])
        >>> query.refresh(), query.get(2)
        (2, {'id': 2, 'name': 'two'})
        """
        return LocalTableQuery(self.handle, columns=columns, owns=owns, directory=directory)
