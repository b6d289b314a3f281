"""The bucket of a row as a Spark SQL expression: the JVM routes rows without Python.

Paimon's bucket is a Murmur3 hash of the bucket key's BinaryRow. Spark's ``hash(binary)`` is the
same function (seed 42) wherever the length is a multiple of 4, and a BinaryRow's always is. So:

1. Each key column becomes its 8-byte slot, as a BIGINT: a number itself, or a reference
   ``offset << 32 | length`` into the variable part, or text of up to 7 bytes inside the slot.
2. Header (null bits), slots and variable parts are turned into BINARY, little endian, and
   concatenated in the order drawn in :mod:`tidelake.codec.binary_row`.
3. ``abs(hash(row) % buckets)``; with ``bucket-function.type = mod`` a floor modulus of the number.

ANSI mode and the session's time zone change nothing: only shifts, masks, differences of timestamps
without zone and casts that cannot overflow are used.

FLOAT, DOUBLE, TIME and DECIMAL of more than 18 digits have no expression for their bytes. A key
with one of them, and any key with ``bucket-function.type = hive`` (Spark SQL lacks its byte sum),
is hashed by :func:`tidelake.codec.bucket.buckets_of` in an Arrow UDF.

Source of the layout: ``docs/format/binary-row.md``; of the hash: Paimon's ``MurmurHashUtils``
(1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.codec import buckets_of, hash_rows
from tidelake.spark.expression.expression import (
    big_endian_bytes,
    millis,
    sub_millis_nanos,
    utf8_bytes,
)
from tidelake.spark.versions import ARROW_UDFS, check_has
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type

INLINE_BYTES_MAX = 7
DECIMAL_COMPACT_DIGITS_MAX = 18
TIMESTAMP_COMPACT_DIGITS_MAX = 3
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_WITHOUT_EXPRESSION = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.TIME})
_INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}

ToBytes = Callable[[Column], Column]


def has_expression(data_type: DataType) -> bool:
    """Whether a key column of the type is hashed in the JVM."""
    if data_type.root is TypeRoot.DECIMAL:
        return (data_type.precision or 0) <= DECIMAL_COMPACT_DIGITS_MAX
    return data_type.root not in _WITHOUT_EXPRESSION


def bucket_column(
    spark: SparkSession,
    keys: Sequence[tuple[DataField, Column]],
    *,
    buckets_count: int,
    function: str = "default",
) -> Column:
    """Give the bucket of a row as an INT column.

    Parameters
    ----------
    spark : SparkSession
        Decides how BIGINT is converted to BINARY (:mod:`tidelake.spark.expression.expression`).
    keys : sequence of (DataField, Column)
        The bucket key, in its order, each with its values: a column of the Spark type that
        :func:`tidelake.spark.expression.types.to_spark_type` gives for the field.
    buckets_count : int
        Number of buckets, above 0.

    Returns
    -------
    Column
        INT in [0, buckets_count).
    """
    assert buckets_count > 0, "a table without buckets needs no routing"
    if buckets_count == 1:
        return F.lit(0)
    if function == "hive" or not all(has_expression(field.type) for field, _ in keys):
        return _key_udf(keys, partial(buckets_of, buckets_count=buckets_count, function=function))
    if function == "mod":
        number = keys[0][1].cast("bigint")
        return F.pmod(number, F.lit(buckets_count)).cast("int")
    return F.abs(hash_column(spark, keys) % F.lit(buckets_count))


def hash_column(spark: SparkSession, keys: Sequence[tuple[DataField, Column]]) -> Column:
    """Give the hash of a row's key as an INT column; parameters as of :func:`bucket_column`."""
    if all(has_expression(field.type) for field, _ in keys):
        return F.hash(binary_row(keys, big_endian_bytes(spark)))
    return _key_udf(keys, hash_rows)


def binary_row(keys: Sequence[tuple[DataField, Column]], to_bytes: ToBytes) -> Column:
    """Give the BinaryRow of the columns, without the leading arity, as a BINARY column."""
    arity = len(keys)
    words = (arity + 8 + 63) // 64
    nullable = [i for i, (field, _) in enumerate(keys) if field.type.nullable]
    header = [F.lit(0).cast("bigint") for _ in range(words)]
    for i in nullable:
        word, bit = divmod(i + 8, 64)
        flag = F.lit(_signed(1 << bit)).cast("bigint")
        header[word] = header[word].bitwiseOR(F.when(keys[i][1].isNull(), flag).otherwise(F.lit(0)))
    parts: list[Column] = []
    if nullable:
        parts += [_little_endian(w, to_bytes) for w in header]
    else:
        parts.append(F.lit(bytes(8 * words)))
    offset: Column | int = 8 * (words + arity)
    variable_parts: list[Column] = []
    for field, column in keys:
        slot, variable, size = _encode(field.type, column, offset, to_bytes)
        parts.append(slot)
        if variable is not None:
            variable_parts.append(variable)
            offset = offset + size
    return F.concat(*parts, *variable_parts)


def _encode(
    data_type: DataType, column: Column, offset: Column | int, to_bytes: ToBytes
) -> tuple[Column, Column | None, Column | int]:
    """The slot and the variable part of one column, as BINARY, and the part's size in bytes."""
    root = data_type.root
    if root in _TEXT or root in _BYTES:
        value = utf8_bytes(column) if root in _TEXT else column
        return _encode_bytes(value, offset, to_bytes, nullable=data_type.nullable)
    if root in _TIMESTAMPS and (data_type.precision or 0) > TIMESTAMP_COMPACT_DIGITS_MAX:
        nanos = _or_zero(sub_millis_nanos(column, root), nullable=data_type.nullable)
        reference = nanos.bitwiseOR(F.shiftleft(_long(offset), 32))
        whole = _or_zero(millis(column, root), nullable=data_type.nullable)
        return _little_endian(reference, to_bytes), _little_endian(whole, to_bytes), 8
    number = _or_zero(_number(data_type, column), nullable=data_type.nullable)
    return _little_endian(number, to_bytes), None, 0


def _encode_bytes(
    value: Column, offset: Column | int, to_bytes: ToBytes, *, nullable: bool
) -> tuple[Column, Column, Column]:
    bytes_ = F.coalesce(value, F.lit(b"")) if nullable else value
    length = F.octet_length(bytes_)
    fits = length <= INLINE_BYTES_MAX
    marks = bytes(0x80 | n for n in range(INLINE_BYTES_MAX + 1))
    mark = F.substring(F.lit(marks), length + 1, F.lit(1))
    inline = F.concat(F.rpad(bytes_, INLINE_BYTES_MAX, bytes(1)), mark)
    if nullable:
        inline = F.when(value.isNull(), F.lit(bytes(8))).otherwise(inline)
    reference = F.shiftleft(_long(offset), 32).bitwiseOR(length.cast("bigint"))
    padded = F.shiftleft(F.shiftright(length + 7, 3), 3)
    slot = F.when(fits, inline).otherwise(_little_endian(reference, to_bytes))
    variable = F.when(fits, F.lit(b"")).otherwise(F.rpad(bytes_, padded, F.lit(bytes(1))))
    return slot, variable, F.when(fits, F.lit(0)).otherwise(padded)


def _number(data_type: DataType, column: Column) -> Column:
    """The value of a slot that holds a number, as BIGINT; bits above the type's width are zero."""
    root = data_type.root
    if root is TypeRoot.BOOLEAN:
        return F.when(column, F.lit(1)).when(~column, F.lit(0)).cast("bigint")
    if root in _INTEGER_BITS:
        return _masked(column.cast("bigint"), _INTEGER_BITS[root])
    if root is TypeRoot.DATE:
        return _masked(F.unix_date(column).cast("bigint"), 32)
    if root is TypeRoot.DECIMAL:
        scale = data_type.scale or 0
        factor = F.lit(10**scale).cast(f"decimal({scale + 1}, 0)")
        return (column * factor).cast("bigint")
    assert root in _TIMESTAMPS, f"a key of type {data_type} has no expression"
    return millis(column, root)


def _masked(number: Column, bits: int) -> Column:
    return number if bits == 64 else number.bitwiseAND(F.lit((1 << bits) - 1).cast("bigint"))


def _or_zero(number: Column, *, nullable: bool) -> Column:
    return F.coalesce(number, F.lit(0).cast("bigint")) if nullable else number


def _long(value: Column | int) -> Column:
    return (F.lit(value) if isinstance(value, int) else value).cast("bigint")


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _little_endian(number: Column, to_bytes: ToBytes) -> Column:
    """The 8 bytes of a BIGINT, lowest first: its bytes swapped by shifts, then written."""
    swapped: Column | None = None
    for position in range(8):
        byte = F.shiftrightunsigned(number, 8 * position).bitwiseAND(F.lit(255).cast("bigint"))
        moved = F.shiftleft(byte, 56 - 8 * position)
        swapped = moved if swapped is None else swapped.bitwiseOR(moved)
    assert swapped is not None
    return to_bytes(swapped)


def _key_udf(
    keys: Sequence[tuple[DataField, Column]],
    number_of: Callable[[Sequence[pa.Array], Sequence[DataType]], npt.NDArray[np.int32]],
) -> Column:
    types = [field.type for field, _ in keys]
    arrow_types = [to_arrow_type(t) for t in types]

    def numbers(*columns: pa.Array) -> pa.Array:
        cast = [c.cast(t) for c, t in zip(columns, arrow_types, strict=True)]
        return pa.array(number_of(cast, types), pa.int32())

    check_has(ARROW_UDFS, "Write the table with tidelake.open(...) and no Spark.")
    udf = F.arrow_udf(numbers, "int")
    return udf(*(column for _, column in keys))
