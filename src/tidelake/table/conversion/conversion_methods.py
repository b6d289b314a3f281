"""Methods that give rows as the frames of other libraries: pandas, Polars, DuckDB."""

from __future__ import annotations

import abc
from typing import Any

import pyarrow as pa

from tidelake.table.conversion.frame_methods import FrameMethods
from tidelake.table.conversion.pandas_frames import TypesMapper


class ConversionMethods(abc.ABC):
    """Conversions of ``to_arrow``'s rows, for tables and system tables alike."""

    @abc.abstractmethod
    def to_arrow(self, *args: Any, **scan: Any) -> pa.Table:
        """The rows as an Arrow table."""

    def to_pandas(self, *, types_mapper: TypesMapper | None = None, **scan: Any) -> Any:
        """The rows as a pandas data frame; other arguments as of :meth:`to_arrow`.

        Integers with nulls have pandas' nullable types (``Int64``), and floats with a NaN too
        (``Float64``), because a plain float column changes both. Lists are NumPy arrays, or Python
        lists where a value of the column holds a null; rows and maps are dicts; variants are Python
        values: dicts, lists, text, numbers. A frame with such columns can be written back.

        Parameters
        ----------
        types_mapper : callable, optional
            Gives pandas' type for a column's Arrow type, such as ``pandas.ArrowDtype``, or None for
            the rule above.
        **scan
            As of :meth:`to_arrow`.

        Raises
        ------
        InvalidInputError
            A map has a key twice, which no dict can hold.
        """
        return self._frames(**scan).to_pandas(types_mapper=types_mapper)

    @abc.abstractmethod
    def _frames(self, **scan: Any) -> FrameMethods:
        """The rows of one read."""

    def to_polars(self, **scan: Any) -> Any:
        """The rows as a Polars data frame; arguments as of :meth:`to_arrow`."""
        return self._frames(**scan).to_polars()

    def to_duckdb(self, connection: Any = None, **scan: Any) -> Any:
        """The rows as a DuckDB relation.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection, optional
            Where the relation lives; DuckDB's default connection otherwise.
        **scan
            Arguments of :meth:`to_arrow`.
        """
        return self._frames(**scan).to_duckdb(connection)

    def head(self, count: int = 10, **scan: Any) -> pa.Table:
        """The first rows found, in no particular order."""
        return self.to_arrow(limit=count, **scan)
