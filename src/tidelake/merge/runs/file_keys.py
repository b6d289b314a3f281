"""The range of keys that a data file may hold, by its metadata.

The bounds of a file in key order are its first and its last key. With ``pk-clustering-override``
files above level 0 are in the order of other columns, and their bounds are those of these columns.
Then the statistics of the key columns give a range: from the smallest to the largest value of
each. It holds every key of the file, and others too. A column without statistics, or whose
statistics may take two values for one (0.0 and -0.0), ends the range there: it is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelake.codec.binary_row import decode_row, serialize_row
from tidelake.merge.runs.sections import KeyRange, KeyRank, key_rank
from tidelake.merge.spec import MergeSpec
from tidelake.types import DataType, TypeRoot

BEHIND_ALL: KeyRank = ((2, None),)
"""Ranks behind every value of a column."""
_NO_STATS = serialize_row((), ())
_TWO_ZEROS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


class Bounds(Protocol):
    """Smallest and largest values of columns."""

    @property
    def min_values(self) -> bytes:
        """Serialized BinaryRow of the smallest values."""
        ...

    @property
    def max_values(self) -> bytes:
        """Serialized BinaryRow of the largest values."""
        ...


class BoundedFile(Protocol):
    """What a manifest says of a data file and its keys."""

    @property
    def file_name(self) -> str:
        """Its name."""
        ...

    @property
    def level(self) -> int:
        """Its level."""
        ...

    @property
    def min_key(self) -> bytes:
        """Serialized BinaryRow of its first row's key, or of other columns."""
        ...

    @property
    def max_key(self) -> bytes:
        """The same of its last row."""
        ...

    @property
    def key_stats(self) -> Bounds:
        """Statistics of the key columns."""
        ...

    @property
    def max_sequence_number(self) -> int:
        """The largest sequence number."""
        ...

    @property
    def creation_time_ms(self) -> int | None:
        """When it was made."""
        ...


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Where the keys of a table's files lie. Picklable.

    Parameters
    ----------
    types : tuple of DataType
        Of the key columns.
    clustered : bool
        Whether files above level 0 are in the order of other columns.
    """

    types: tuple[DataType, ...]
    clustered: bool = False

    @classmethod
    def of(cls, spec: MergeSpec) -> FileKeys:
        """Take a table's key."""
        return cls(spec.key_types, spec.clustered)

    def in_order(self, file: BoundedFile) -> bool:
        """Whether a file's rows are in key order."""
        return not self.clustered or file.level == 0

    def range_of(self, file: BoundedFile) -> KeyRange:
        """The keys that a file may hold, and its age."""
        low, high = self.ranks_of(file)
        return KeyRange(
            low,
            high,
            level=file.level,
            max_sequence_number=file.max_sequence_number,
            creation_time_ms=file.creation_time_ms or 0,
            name=file.file_name,
        )

    def ranges_of(self, files: Sequence[BoundedFile]) -> list[KeyRange]:
        """The same of several files."""
        return [self.range_of(file) for file in files]

    def ranks_of(self, file: BoundedFile) -> tuple[KeyRank, KeyRank]:
        """Smallest and largest key that a file may hold."""
        types = self.types
        if self.in_order(file):
            return (
                key_rank(decode_row(file.min_key, types), types),
                key_rank(decode_row(file.max_key, types), types),
            )
        stats = file.key_stats
        if stats.min_values == _NO_STATS:
            return (), BEHIND_ALL
        low = self._known(decode_row(stats.min_values, types))
        high = self._known(decode_row(stats.max_values, types))
        is_whole = len(high) == len(types)
        return low, high if is_whole else (*high, *BEHIND_ALL)

    def _known(self, values: Sequence[object]) -> KeyRank:
        """The rank of the leading values that are known and bound their column."""
        count = 0
        for value, data_type in zip(values, self.types, strict=True):
            if value is None or data_type.root in _TWO_ZEROS:
                break
            count += 1
        return key_rank(values[:count], self.types[:count])
