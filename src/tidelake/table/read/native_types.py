"""Which column types Spark's own Parquet scan reads as the kernel does.

No Spark is needed to say so: an explanation of a plan says it, too.
"""

from __future__ import annotations

from tidelake.types import DataType, TypeRoot

FRACTION_DIGITS_MAX = 6
_ONLY_KERNEL = frozenset({TypeRoot.TIME, TypeRoot.VARIANT})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def is_read_alike(data_type: DataType) -> bool:
    """Whether Spark reads a column of the type as the kernel does.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> is_read_alike(parse_type("TIMESTAMP(6)")), is_read_alike(parse_type("TIMESTAMP(9)"))
    (True, False)
    """
    if data_type.root in _TIMESTAMPS:
        return (data_type.precision or 0) <= FRACTION_DIGITS_MAX
    if data_type.root is TypeRoot.ROW:
        names = [name.lower() for _, name in data_type.child_fields]
        if len(set(names)) != len(names):
            return False  # the session decides which of them Spark means
    return data_type.root not in _ONLY_KERNEL and all(map(is_read_alike, data_type.children))
