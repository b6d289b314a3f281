"""Changelog files of several buckets in one file: their names, and reading a part of such a file.

Flink's writers and ours join the small changelog files of a commit (``precommit-compact``). The
encoding of rows, and the choice of the files to join, may not enter.
"""

from tidelake.format.compacted.names import FileSlice, part_name, slice_of, whole_name
from tidelake.format.compacted.slice_input import open_slice, ranges_within

__all__ = ["FileSlice", "open_slice", "part_name", "ranges_within", "slice_of", "whole_name"]
