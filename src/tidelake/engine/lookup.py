"""Point reads of keys, and the files that they read."""

from __future__ import annotations

from tidelake.lookup import LookupStats, RawColumn
from tidelake.table.query.bucket_files import BucketChange, FileChanges, QueriedBucket
from tidelake.table.query.key_columns import check_keyed
from tidelake.table.query.keys import KeyInput
from tidelake.table.query.local_query import LocalTableQuery
from tidelake.table.query.lookup_result import LookupResult, RowsOfKeys

__all__ = [
    "BucketChange",
    "FileChanges",
    "KeyInput",
    "LocalTableQuery",
    "LookupResult",
    "LookupStats",
    "QueriedBucket",
    "RawColumn",
    "RowsOfKeys",
    "check_keyed",
]
