"""Estimates the memory of a read of a data file, without its batches.

The estimate needs only facts from before the file is opened: the types of the columns wanted, the
format, and the manifest's size and row count. The writer chose the units of the read:

- *Parquet*: for each column an encoded page, a decoded page, and the dictionary. A page has at most
  20,000 rows and about 1 MiB, but at least one row.
- *ORC*: a stripe, or the batches that Arrow reads ahead in a large one.
- *Avro*: a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.format.data_file import format_of
from tidelake.format.field_schema import leaves
from tidelake.types import DataField, TypeRoot

FIXED_PAGE_BYTES = 320 << 10
"""20,000 values of 8 bytes, twice."""
PAGE_BYTES = 5 << 19
"""A page of 1 MiB, the same compressed, and half a MiB of dictionary."""
STRIPE_BYTES = 48 << 20
BLOCK_BYTES = 1 << 20
WIDE_ROW_COPIES = 3
"""A row larger than a page is held compressed, decoded, and in a batch."""

_VARIABLE = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})


def held_bytes(
    file_name: str, fields: Sequence[DataField], *, file_size_bytes: int, row_count: int
) -> int:
    """Estimate what reading a file holds, in bytes.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> key = DataField(0, "k", parse_type("BIGINT"))
    >>> held_bytes("data-1.parquet", [key], file_size_bytes=1000, row_count=10)
    327680
    """
    row_bytes = file_size_bytes // max(1, row_count)
    wide = WIDE_ROW_COPIES * row_bytes
    match format_of(file_name):
        case "orc":
            return max(wide, STRIPE_BYTES)
        case "avro":
            return max(wide, BLOCK_BYTES)
    return max(wide, sum(_column_bytes(field) for field in fields))


def _column_bytes(field: DataField) -> int:
    if field.type.is_nested or field.type.root is TypeRoot.VARIANT:
        return PAGE_BYTES * len(leaves(field))  # a page's rows hold any number of values
    return PAGE_BYTES if field.type.root in _VARIABLE else FIXED_PAGE_BYTES
