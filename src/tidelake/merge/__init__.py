"""What a key's value is: sorted runs and write buffers merged, Arrow batches in and out."""

from tidelake.merge.arrival import rows_by_arrival
from tidelake.merge.bounded import RunSource, merge_bounded, merge_bounded_with_changes
from tidelake.merge.buffer import merge_buffer, sort_buffer
from tidelake.merge.changes import ChangeRule, MergedRows, merge_with_changes
from tidelake.merge.engine import Deduplicate, Merged, MergeEngine
from tidelake.merge.engine_of import engine_of
from tidelake.merge.functions import OVERFLOW
from tidelake.merge.key_search import rows_with_keys
from tidelake.merge.retractions import check_retractions, deletes_remove
from tidelake.merge.run_cursor import batch_parts
from tidelake.merge.sections import KeyRange, KeyRank, Section, by_level, key_rank, sections_of
from tidelake.merge.segments import Segments
from tidelake.merge.sorted_runs import merge_runs
from tidelake.merge.spec import MergeSpec
from tidelake.merge.spill import SpillFiles, SpillStack

__all__ = [
    "OVERFLOW",
    "ChangeRule",
    "Deduplicate",
    "KeyRange",
    "KeyRank",
    "MergeEngine",
    "MergeSpec",
    "Merged",
    "MergedRows",
    "RunSource",
    "Section",
    "Segments",
    "SpillFiles",
    "SpillStack",
    "batch_parts",
    "by_level",
    "check_retractions",
    "deletes_remove",
    "engine_of",
    "key_rank",
    "merge_bounded",
    "merge_bounded_with_changes",
    "merge_buffer",
    "merge_runs",
    "merge_with_changes",
    "rows_by_arrival",
    "rows_with_keys",
    "sections_of",
    "sort_buffer",
]
