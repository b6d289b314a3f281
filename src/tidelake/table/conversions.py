"""Rows that can be had as Arrow, given as what other libraries hold."""

from __future__ import annotations

import abc
from typing import Any

import pyarrow as pa

from tidelake.table import _optional

__all__ = ["Conversions"]


class Conversions(abc.ABC):
    """The readings that follow from ``to_arrow``, alike for tables and system tables."""

    @abc.abstractmethod
    def to_arrow(self, *args: Any, **scan: Any) -> pa.Table:
        """The rows as an Arrow table."""

    def to_pandas(self, **scan: Any) -> Any:
        """The rows as a pandas data frame; arguments as of :meth:`to_arrow`."""
        _optional.load("pandas", for_what="to_pandas()")
        return self.to_arrow(**scan).to_pandas()

    def to_polars(self, **scan: Any) -> Any:
        """The rows as a Polars data frame; arguments as of :meth:`to_arrow`."""
        polars = _optional.load("polars", for_what="to_polars()")
        return polars.from_arrow(self.to_arrow(**scan))

    def to_duckdb(self, connection: Any = None, **scan: Any) -> Any:
        """The rows as a DuckDB relation; other arguments as of :meth:`to_arrow`.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection, optional
            Where the relation lives; DuckDB's default connection otherwise.
        """
        duckdb = _optional.load("duckdb", for_what="to_duckdb()")
        rows = self.to_arrow(**scan)
        return duckdb.from_arrow(rows) if connection is None else connection.from_arrow(rows)

    def head(self, count: int = 10, **scan: Any) -> pa.Table:
        """The first rows that are found, in no particular order."""
        return self.to_arrow(limit=count, **scan)
