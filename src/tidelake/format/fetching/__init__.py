"""What is fetched of remote files before it is asked for, and the memory for it.

`read_ahead` opens the next files early; `fetched_file` serves reads from what came. File formats
may not enter: they say which ranges they want.
"""

from tidelake.format.fetching.fetched_file import FetchedBytes, RangedFiles, whole_or_in_pieces
from tidelake.format.fetching.read_ahead import OpenedEarly, ReadAhead, files_in_turn

__all__ = [
    "FetchedBytes",
    "OpenedEarly",
    "RangedFiles",
    "ReadAhead",
    "files_in_turn",
    "whole_or_in_pieces",
]
