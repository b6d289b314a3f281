"""Keys as callers give them, in the forms that are sent.

A key is its value, a tuple of the primary key's columns in order, or a dict of them. One key
becomes a tuple of storage values (:mod:`tidelake.types.values`); many become Arrow columns. A key
of another arity or type, and a null in it, are refused here, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.table.handle.handle import TableHandle
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.conform import conform
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField
from tidelake.types.values import storage_to_arrow, to_storage

__all__ = ["Key", "KeyColumns", "Values"]

Key = object
"""A value, a tuple of values, or a dict of column to value."""
Values = tuple[object, ...]
"""Storage values of a key's columns."""

INTEGER_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}
TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
SERVED = frozenset({BucketMode.FIXED, BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION})


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The primary key of a table, and what of it decides where a row lies. Picklable.

    Parameters
    ----------
    table : str
        The table's name, for messages.
    fields : tuple of DataField
        The primary key's columns, in its order.
    partition, bucket : tuple of int
        Which of them make the partition and the bucket key.
    mode : BucketMode
        How rows find their buckets.
    buckets_count : int
        Option ``bucket``.
    function : str
        Option ``bucket-function.type``.
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
        UnsupportedError
            The table has no primary key, or its rows wait for their buckets.
        """
        schema, options, table = handle.schema, handle.options, handle.identifier
        if not schema.primary_keys:
            message = f"Table '{table}' has no primary key, so it has no keys to look up: scan it."
            raise UnsupportedError(message, kind="lookup_without_key", table=table)
        mode = handle.bucket_mode
        if mode not in SERVED:
            message = (
                f"Table '{table}' has 'bucket' = '{options.get(declared.BUCKET)}', and its keys"
                " have no bucket before a compaction: no query service serves it."
            )
            raise UnsupportedError(message, kind="lookup_bucket_mode", table=table)
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

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        """The columns' types."""
        return tuple(f.type for f in self.fields)

    def values(self, key: Key) -> Values:
        """Give one key's storage values.

        Raises
        ------
        InvalidInputError
            It is no key of this table; the kind is ``key_arity``, ``key_null`` or ``key_type``.
        """
        fields = self.fields
        if len(fields) == 1 and not isinstance(key, (tuple, list, dict)):
            return (self._value(key, fields[0]),)
        parts = self._parts(key)
        return tuple([self._value(v, f) for v, f in zip(parts, fields, strict=True)])

    def _parts(self, key: Key) -> Sequence[object]:
        names = self.names
        if isinstance(key, Mapping):
            if set(key) != set(names):
                raise self._wrong("key_arity", f"has the columns {_shown(list(key))}", key)
            return [key[name] for name in names]
        if not isinstance(key, (tuple, list)):
            raise self._wrong("key_arity", "is one value", key)
        if len(key) != len(names):
            raise self._wrong("key_arity", f"has {len(key)} values", key)
        return key

    def _value(self, value: object, field: DataField) -> object:
        root = field.type.root
        if type(value) is int:
            bits = INTEGER_BITS.get(root)
            if bits is not None and -(1 << bits) <= value < 1 << bits:
                return value
        elif type(value) is str and root in TEXT:
            return value
        if value is None:
            raise self._wrong("key_null", f"has a null in column '{field.name}'", value)
        try:
            return to_storage(value, field.type)
        except InvalidInputError as error:
            said = f"has another value in column '{field.name}' ({error.message.rstrip('.')})"
            raise self._wrong("key_type", said, value) from error

    def _wrong(self, kind: str, said: str, key: object) -> InvalidInputError:
        wanted = ", ".join(f"{f.name} {f.type.as_nullable()}" for f in self.fields)
        message = (
            f"The key {_shown(key)} {said}. The primary key of table '{self.table}' is"
            f" ({wanted}): give its values as a tuple in that order, or as a dict."
        )
        return InvalidInputError(message, kind=kind, table=self.table)

    def rows(self, keys: object) -> pa.RecordBatch:
        """Give many keys as Arrow columns.

        Parameters
        ----------
        keys : object
            A sequence of keys; or an Arrow array (a key of one column), record batch or table with
            exactly the key's columns.

        Returns
        -------
        RecordBatch
            The key's columns, in its order.

        Raises
        ------
        InvalidInputError
            They are no keys of this table.
        """
        if isinstance(keys, (pa.Array, pa.ChunkedArray)):
            if len(self.fields) != 1:
                raise self._wrong("key_arity", "is a value of one column", keys.type)
            keys = pa.table({self.names[0]: keys})
        if isinstance(keys, pa.RecordBatch):
            keys = pa.Table.from_batches([keys])
        if isinstance(keys, pa.Table):
            if set(keys.schema.names) != set(self.names):
                raise self._wrong("key_arity", f"has the columns {keys.schema.names}", "of Arrow")
            batches = conform(keys, self.fields, table=self.table).combine_chunks().to_batches()
            schema = to_arrow_schema(self.fields)
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
        if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Sequence):
            message = (
                f"Keys are given as a list of keys or as Arrow, not as"
                f" {type(keys).__name__}: get() takes a single key."
            )
            raise InvalidInputError(message, kind="key_arity", table=self.table)
        return self._listed(keys)

    def _listed(self, keys: Sequence[Key]) -> pa.RecordBatch:
        schema = to_arrow_schema(self.fields)
        if len(self.fields) == 1:
            data_type = self.fields[0].type
            exact = int if data_type.root in INTEGER_BITS else str
            if data_type.root in INTEGER_BITS.keys() | TEXT and {type(k) for k in keys} <= {exact}:
                try:
                    column = pa.array(keys, schema.types[0])
                except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
                    pass  # key by key, for a message that names the key
                else:
                    return pa.RecordBatch.from_arrays([column], schema=schema)
        return self.rows_of([self.values(key) for key in keys])  # a microsecond or two per value

    def rows_of(self, keys: Sequence[Values]) -> pa.RecordBatch:
        """Give keys of storage values as Arrow columns."""
        columns = [
            storage_to_arrow([row[i] for row in keys], field.type)
            for i, field in enumerate(self.fields)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.fields))


def _shown(key: object) -> str:
    return shortened(repr(key), 80)
