"""Indexes of single data files: which files, and which of their rows, a predicate can match.

Bloom filters, bitmaps, range bitmaps and bit slices, in Paimon's bytes. An index that cannot be
read is left aside, never an error of a read.
"""

from tidelake.format.file_index.index_reader import INDEX_SUFFIX, indexed_rows, list_indexes
from tidelake.format.file_index.index_writer import FileIndexWriter, check_file_indexes
from tidelake.format.file_index.rows import Rows

__all__ = [
    "INDEX_SUFFIX",
    "FileIndexWriter",
    "Rows",
    "check_file_indexes",
    "indexed_rows",
    "list_indexes",
]
