"""Which columns can be compared with a primary key by its bytes, and how.

A lookup finds a key by the bytes of its own type. A column of another type is cast first, where
the cast gives exactly the key that ``=`` would find, or null where no key can be equal:

==========================  ==============================================================
Key                         Columns
==========================  ==============================================================
TINYINT .. BIGINT           whole numbers of any width, decimals without digits behind the point
DECIMAL(p, s)               whole numbers, decimals with at most `s` digits behind the point
CHAR, VARCHAR               strings that are compared byte by byte
BINARY, VARBINARY           binary
DATE, TIME, BOOLEAN         the same type
TIMESTAMP                   timestamp_ntz
TIMESTAMP_LTZ               timestamp
==========================  ==============================================================

FLOAT and DOUBLE are equal to other bytes (``0.0 = -0.0``), so such a key is never looked up.
"""

from __future__ import annotations

from pyspark.sql import types as st

from tidelake.spark.expression.types import is_time, to_spark_type
from tidelake.types import DataField, TypeRoot

_WHOLE = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_BYTEWISE = "UTF8_BINARY"
_INEXACT = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def key_expression(expression: str, given: st.DataType, key: DataField) -> str | None:
    """Write a column as the key that it is equal to.

    Returns
    -------
    str or None
        The expression in SQL; None where the types cannot be compared by bytes.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> key = DataField(0, "id", parse_type("INT NOT NULL"))
    >>> key_expression("o.id", st.LongType(), key)
    'try_cast(o.id AS int)'
    >>> key_expression("o.id", st.IntegerType(), key)
    'o.id'
    >>> key_expression("o.id", st.StringType(), key) is None
    True
    """
    if key.type.root in _INEXACT:
        return None
    wanted = to_spark_type(key.type, column=key.name)
    if isinstance(wanted, st.StringType):
        is_bytewise = isinstance(given, st.StringType) and given.collation == _BYTEWISE
        return expression if is_bytewise else None
    if given == wanted:
        return expression
    if is_time(wanted) and is_time(given):
        return expression
    if not isinstance(wanted, (*_WHOLE, st.DecimalType)):
        return None
    digits = _fraction_digits(given)
    if digits is None or digits > (_fraction_digits(wanted) or 0):
        return None
    return f"try_cast({expression} AS {wanted.simpleString()})"


def _fraction_digits(number: st.DataType) -> int | None:
    """Digits behind the point; None of what is no exact number."""
    if isinstance(number, st.DecimalType):
        return number.scale
    return 0 if isinstance(number, _WHOLE) else None
