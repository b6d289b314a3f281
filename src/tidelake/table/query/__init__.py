"""Point reads of a table: rows by their primary key, from local lookup files.

:class:`LocalTableQuery` plans, keeps the lookup files (:mod:`tidelake.lookup`) and answers.
"""

from tidelake.table.query.bucket_files import BucketChange, FileChanges, changes_between
from tidelake.table.query.local_query import LocalTableQuery
from tidelake.table.query.lookup_result import LookupResult

__all__ = ["BucketChange", "FileChanges", "LocalTableQuery", "LookupResult", "changes_between"]
