"""The table as users hold it, and the rooms behind it.

``table`` and its ``*_methods`` are the face; every other room does one kind of work. The order of
the rooms is a contract of import-linter; pyspark may not enter.
"""

from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.orphans import OrphanFiles
from tidelake.table.jobs.purge import PurgeResult
from tidelake.table.jobs.rollback import RollbackResult
from tidelake.table.maintenance import Maintenance
from tidelake.table.read.table_scan import TableScan
from tidelake.table.system.row_views import RowView
from tidelake.table.system.system_table import SystemTable
from tidelake.table.table import Table
from tidelake.table.tags import TagInfo, Tags
from tidelake.table.write.result import WriteResult
from tidelake.table.write.table_writer import TableWriter
from tidelake.table.write.write_session import WriteSession

__all__ = [
    "Maintenance",
    "OrphanFiles",
    "PurgeResult",
    "RollbackResult",
    "RowView",
    "SystemTable",
    "Table",
    "TableHandle",
    "TableScan",
    "TableWriter",
    "TagInfo",
    "Tags",
    "WriteResult",
    "WriteSession",
]
