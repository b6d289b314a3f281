"""Methods of one read that give its rows as frames of other libraries, and their number."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidelake.table.conversion import _optional
from tidelake.table.conversion.pandas_frames import TypesMapper, pandas_frame
from tidelake.types import DataField


class FrameMethods(abc.ABC):
    """Conversions of a planned read's rows."""

    __slots__ = ()

    @abc.abstractmethod
    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""

    @abc.abstractmethod
    def count(self) -> int:
        """Number of rows."""

    def __len__(self) -> int:
        return self.count()

    def _typed(self) -> tuple[Sequence[DataField], str]:
        """The columns whose Paimon types are known, and a name for messages."""
        return (), ""

    def to_pandas(self, *, types_mapper: TypesMapper | None = None) -> Any:
        """The rows as a pandas data frame; see :meth:`tidelake.Table.to_pandas`."""
        _optional.load("pandas", for_what="to_pandas()")
        fields, table = self._typed()
        return pandas_frame(self.to_arrow(), fields, table=table, types_mapper=types_mapper)

    def to_polars(self) -> Any:
        """The rows as a Polars data frame."""
        polars = _optional.load("polars", for_what="to_polars()")
        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """The rows as a DuckDB relation; see :meth:`tidelake.Table.to_duckdb`."""
        duckdb = _optional.load("duckdb", for_what="to_duckdb()")
        rows = self.to_arrow()
        return duckdb.from_arrow(rows) if connection is None else connection.from_arrow(rows)
