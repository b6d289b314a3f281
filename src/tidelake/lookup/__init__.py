"""Point reads: lookup files, their cache, and what a bucket's files say of a key.

A lookup file is a local copy of one data file that is indexed by its keys. Tables, snapshots to
choose and Spark may not enter: :mod:`tidelake.table.query` plans, and this package answers.
"""

from tidelake.lookup.bucket_view import BucketView, LookupRun
from tidelake.lookup.build import LookupBuild
from tidelake.lookup.cache import LookupCache, LookupLimits, LookupStats
from tidelake.lookup.directory import LookupDirectory
from tidelake.lookup.gather import KeyRows, gathered, gathered_bytes
from tidelake.lookup.key_form import KeyForm
from tidelake.lookup.opened_file import OpenedFile
from tidelake.lookup.raw_rows import RawColumn, RawRows
from tidelake.lookup.stored_columns import StoredColumns

__all__ = [
    "BucketView",
    "KeyForm",
    "KeyRows",
    "LookupBuild",
    "LookupCache",
    "LookupDirectory",
    "LookupLimits",
    "LookupRun",
    "LookupStats",
    "OpenedFile",
    "RawColumn",
    "RawRows",
    "StoredColumns",
    "gathered",
    "gathered_bytes",
]
