"""How a table gives its rows their buckets, as its option ``bucket`` says."""

from __future__ import annotations

from tidelake.options import declared
from tidelake.options.table_options import Options

__all__ = ["DYNAMIC", "is_dynamic"]

DYNAMIC = -1
"""The ``bucket`` option of a table whose buckets are made as they are needed."""


def is_dynamic(options: Options, *, has_primary_key: bool) -> bool:
    """Whether buckets are made as they are needed."""
    return has_primary_key and options.get(declared.BUCKET) == DYNAMIC
