"""Options of a table: declared once, parsed once, refused if they are not covered.

A misspelt key is an error with a suggestion. No code that acts on an option may enter.
"""

from tidelake.options import declared
from tidelake.options.check import (
    check_new_table,
    check_one_use,
    check_retained,
    check_supported,
    check_write_mode,
    is_option,
    session_options,
    table_defaults,
)
from tidelake.options.derived import (
    clustering_columns,
    file_order_columns,
    levels_count,
    merges_by_lookup,
    sorted_runs_stop,
    target_file_size_bytes,
    write_buffer_bytes,
)
from tidelake.options.key_pattern import CONSTRAINT_PREFIX
from tidelake.options.option import Action, Kind, Option, Support
from tidelake.options.promises import warn_of_promises, warn_once
from tidelake.options.table_options import Options
from tidelake.options.text_value import memory_bytes, parse_value
from tidelake.options.user_options import option_texts

__all__ = [
    "CONSTRAINT_PREFIX",
    "Action",
    "Kind",
    "Option",
    "Options",
    "Support",
    "check_new_table",
    "check_one_use",
    "check_retained",
    "check_supported",
    "check_write_mode",
    "clustering_columns",
    "declared",
    "file_order_columns",
    "is_option",
    "levels_count",
    "memory_bytes",
    "merges_by_lookup",
    "option_texts",
    "parse_value",
    "session_options",
    "sorted_runs_stop",
    "table_defaults",
    "target_file_size_bytes",
    "warn_of_promises",
    "warn_once",
    "write_buffer_bytes",
]
