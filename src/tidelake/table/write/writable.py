"""The check that each write begins with: whether this version can write the table."""

from __future__ import annotations

from tidelake.format import check_file_formats
from tidelake.format.file_index import check_file_indexes
from tidelake.options import check_supported, warn_of_promises
from tidelake.options.file_index import file_index_settings
from tidelake.store import RecordExpiry
from tidelake.table.handle.handle import TableHandle
from tidelake.table.schema.validation import check_keys_may_move, check_marks


def check_writable(handle: TableHandle) -> None:
    """Refuse a table with options or columns that this version cannot write.

    Of options whose work is not done here it warns, once a table and process.
    """
    check_supported(
        handle.options,
        table=handle.identifier,
        has_primary_key=bool(handle.schema.primary_keys),
        action="write",
    )
    check_keys_may_move(handle.schema, handle.options, table=handle.identifier)
    check_marks(handle.options, table=handle.identifier)
    RecordExpiry.of(handle.schema, handle.options, table=handle.identifier)
    what = f"A data file of table '{handle.identifier}'"
    check_file_formats(handle.options, handle.schema.fields, what=what)
    check_file_indexes(handle.schema.fields, file_index_settings(handle.options))
    warn_of_promises(handle.options, table=handle.identifier)
