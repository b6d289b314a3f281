"""A table's options: declared once, parsed once, refused where they are not covered."""

from tidelake.options import declared
from tidelake.options.check import check_new_table, check_one_use, check_supported
from tidelake.options.derived import levels_count, sorted_runs_stop, target_file_size_bytes
from tidelake.options.given import option_texts
from tidelake.options.option import Action, Kind, Option, Support
from tidelake.options.table_options import Options

__all__ = [
    "Action",
    "Kind",
    "Option",
    "Options",
    "Support",
    "check_new_table",
    "check_one_use",
    "check_supported",
    "declared",
    "levels_count",
    "option_texts",
    "sorted_runs_stop",
    "target_file_size_bytes",
]
