"""The key of a table: what of it decides where a row lies, and keys in the forms that are sent.

Keys are read by :class:`~tidelake.table.query.keys.KeyInput`, as those of a local query are. One
key becomes a tuple of values as Arrow's memory holds them; many become Arrow columns. Where a key
lies is decided by its storage values, which differ from these in timestamps only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidelake.engine.lookup import KeyInput, check_keyed
from tidelake.engine.tables import TableHandle
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit, to_arrow_schema
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField
from tidelake.types.values import storage_to_arrow

Key = object
"""A value, a tuple of values, or a dict of column to value."""
Values = tuple[object, ...]
"""The values of a key's columns, as Arrow's memory holds them."""

TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(frozen=True)
class KeyColumns:
    """The primary key of a table, and what of it decides where a row lies. Picklable.

    Parameters
    ----------
    fields : tuple of DataField
        The primary key's columns, in its order.
    buckets_count : int
        Option ``bucket``.
    """

    table: str
    fields: tuple[DataField, ...]
    partition: tuple[int, ...]
    bucket: tuple[int, ...]
    mode: BucketMode
    buckets_count: int
    function: str

    @classmethod
    def of(cls, handle: TableHandle) -> KeyColumns:
        """Those of a table.

        Raises
        ------
        InvalidInputError
            The table has no primary key.
        """
        schema, options, table = handle.schema, handle.options, handle.identifier
        check_keyed(schema, table=table)
        mode = handle.bucket_mode
        keys = schema.primary_keys
        crosses = mode is BucketMode.CROSS_PARTITION
        return cls(
            table,
            tuple(schema.field(name) for name in keys),
            () if crosses else tuple(keys.index(name) for name in schema.partition_keys),
            tuple(keys.index(n) for n in schema.bucket_keys) if mode is BucketMode.FIXED else (),
            mode,
            options.get(declared.BUCKET),
            options.get(declared.BUCKET_FUNCTION_TYPE),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def types(self) -> tuple[DataType, ...]:
        """The columns' types."""
        return tuple(f.type for f in self.fields)

    @cached_property
    def _input(self) -> KeyInput:
        return KeyInput(self.fields, table=self.table)

    def values(self, key: Key) -> Values:
        """Give one key's values.

        Raises
        ------
        InvalidInputError
            It is no key of this table.
        """
        return self._input.values(key)

    def rows(self, keys: object) -> pa.RecordBatch:
        """Give many keys as Arrow columns.

        Parameters
        ----------
        keys : object
            A list of keys; or an Arrow array (a key of one column), record batch or table.

        Raises
        ------
        InvalidInputError
            They are no keys of this table.
        """
        return self._input.batch(keys)

    def storage(self, values: Values, at: Sequence[int]) -> list[object]:
        """Give the storage values of some columns of a key, for its BinaryRow."""
        if not any(self._nanos):
            return [values[i] for i in at]
        return [
            value * nanos if (nanos := self._nanos[i]) and isinstance(value, int) else value
            for i, value in ((i, values[i]) for i in at)
        ]

    @cached_property
    def _nanos(self) -> tuple[int, ...]:
        """Nanoseconds of the unit of each timestamp column, 0 of the others."""
        return tuple(
            NANOS_PER_UNIT[timestamp_unit(t)] if t.root in TIMESTAMPS else 0 for t in self.types
        )

    def rows_of(self, keys: Sequence[Values]) -> pa.RecordBatch:
        """Give keys that were read by :meth:`values` as Arrow columns."""
        every = range(len(self.fields))
        rows = [self.storage(values, every) for values in keys]
        columns = [
            storage_to_arrow([row[i] for row in rows], field.type)
            for i, field in enumerate(self.fields)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.fields))
