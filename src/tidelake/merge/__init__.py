"""The value of a key: sorted runs and write buffers merged, Arrow batches in and out.

Every path that decides a key's row calls this package. Files, snapshots and Spark may not enter.
"""

from tidelake.merge.change_history import (
    DELETE,
    ROLE_COLUMN,
    TARGET,
    UPSERT,
    HistoryRule,
    versions_of,
)
from tidelake.merge.engines.engine import Deduplicate, Merged, MergeEngine
from tidelake.merge.engines.engine_of import engine_of
from tidelake.merge.engines.retractions import check_retractions, deletes_remove
from tidelake.merge.functions import OVERFLOW
from tidelake.merge.input_deduplication import deduplicate_input
from tidelake.merge.runs.bounded import (
    RunSource,
    merge_bounded,
    merge_bounded_with_changes,
    read_in_order,
)
from tidelake.merge.runs.changelog import ChangeRule, MergedRows, merge_with_changes
from tidelake.merge.runs.file_keys import FileKeys
from tidelake.merge.runs.fold import fold_rows
from tidelake.merge.runs.key_search import rows_with_keys
from tidelake.merge.runs.merged_order import MergedOrder, OrderRecorder, order_bytes
from tidelake.merge.runs.row_sorter import RowSorter, rows_in_order
from tidelake.merge.runs.run_cursor import batch_parts
from tidelake.merge.runs.sections import KeyRange, KeyRank, Section, by_level, key_rank, sections_of
from tidelake.merge.runs.sort_buffer import merge_buffer, sort_buffer
from tidelake.merge.runs.sorted_runs import merge_runs
from tidelake.merge.runs.spill import SpillFiles, SpillStack
from tidelake.merge.segments import Segments
from tidelake.merge.spec import MergeSpec

__all__ = [
    "DELETE",
    "OVERFLOW",
    "ROLE_COLUMN",
    "TARGET",
    "UPSERT",
    "ChangeRule",
    "Deduplicate",
    "FileKeys",
    "HistoryRule",
    "KeyRange",
    "KeyRank",
    "MergeEngine",
    "MergeSpec",
    "Merged",
    "MergedOrder",
    "MergedRows",
    "OrderRecorder",
    "RowSorter",
    "RunSource",
    "Section",
    "Segments",
    "SpillFiles",
    "SpillStack",
    "batch_parts",
    "by_level",
    "check_retractions",
    "deduplicate_input",
    "deletes_remove",
    "engine_of",
    "fold_rows",
    "key_rank",
    "merge_bounded",
    "merge_bounded_with_changes",
    "merge_buffer",
    "merge_runs",
    "merge_with_changes",
    "order_bytes",
    "read_in_order",
    "rows_in_order",
    "rows_with_keys",
    "sections_of",
    "sort_buffer",
    "versions_of",
]
