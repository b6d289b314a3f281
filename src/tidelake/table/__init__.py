"""The table as users hold it, and what it is made of."""

from tidelake.table.handle import TableHandle
from tidelake.table.read import TableScan
from tidelake.table.row_view import RowView
from tidelake.table.system_table import SystemTable
from tidelake.table.table import Table
from tidelake.table.write import WriteResult
from tidelake.table.write_session import WriteSession
from tidelake.table.writer import TableWriter

__all__ = [
    "RowView",
    "SystemTable",
    "Table",
    "TableHandle",
    "TableScan",
    "TableWriter",
    "WriteResult",
    "WriteSession",
]
