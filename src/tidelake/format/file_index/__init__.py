"""Indexes of single data files: the files and rows that a predicate can match.

Bloom filters, bitmaps, range bitmaps and bit slices, in Paimon's bytes. A read ignores an index
that cannot be read.
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
