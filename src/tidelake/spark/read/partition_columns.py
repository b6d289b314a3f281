"""Partition columns of a scan that Spark takes from the list of files, and not from the files.

Spark then leaves out files by them: those that a filter rules out, and, as the query runs, those
that a join finds no row for (dynamic partition pruning). And it decodes no column whose value is
the same in a whole file.

The manifest says which partition a file is of, so values come from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import types as st

from tidelake.engine.scan import ReadContext
from tidelake.spark.expression.types import spark_schema
from tidelake.types import DataField

_TYPES = frozenset(
    {st.BooleanType, st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.DateType}
)
"""Types whose values are numbers to Spark as they are to us; besides them texts."""


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """Some partition columns of a table.

    Parameters
    ----------
    values_of : callable
        The values of all of them, from the row that names a partition.
    """

    schema: st.StructType
    places: tuple[int, ...]
    values_of: Callable[[bytes], tuple[object, ...]]

    @classmethod
    def of(
        cls, context: ReadContext, wanted: Sequence[DataField], source: Sequence[DataField | None]
    ) -> PartitionColumns | None:
        """Those of the columns wanted that the files have under the same name and type, if any."""
        keys = context.schema.partition_keys
        own = {
            field.name: field
            for field, stored in zip(wanted, source, strict=True)
            if field.name in keys and stored is not None and _is_same(stored, field)
        }
        known = [(place, own[key]) for place, key in enumerate(keys) if key in own]
        schema = spark_schema([field for _, field in known])
        kept = [
            (place, column)
            for (place, _), column in zip(known, schema, strict=True)
            if type(column.dataType) in _TYPES or column.dataType == st.StringType()
        ]
        if not kept:
            return None
        columns = st.StructType([column for _, column in kept])
        places = tuple(place for place, _ in kept)
        return cls(columns, places, context.paths.partition_values)

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.schema.names)

    def text(self, partition: bytes) -> str:
        """The values of a partition in a line for the JVM."""
        values = self.values_of(partition)
        return "&".join(_text(values[place]) for place in self.places)


def _is_same(stored: DataField, wanted: DataField) -> bool:
    return stored.name == wanted.name and stored.type.as_nullable() == wanted.type.as_nullable()


def _text(value: object) -> str:
    """A value; nothing if it is null."""
    return "" if value is None else f"={quote(str(value), safe='')}"
