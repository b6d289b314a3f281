"""The part of a section that is merged: rows of keys that several files have, and whole files.

The files of the part stay in their runs, so a merge of it gives those keys' rows as a merge of the
whole section does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidelake.metadata.index.deletion_vector import Positions
from tidelake.scan.context import ReadContext
from tidelake.scan.masks.find import SectionMasks
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.read import read_split
from tidelake.scan.split import Section, Split
from tidelake.types.predicate import Predicate


@dataclass(frozen=True, slots=True)
class MergedPart:
    """Some rows of a split. Picklable.

    Parameters
    ----------
    rows : mapping of str to HiddenRows
        By file name, the only rows to read; files that it lacks are read whole.
    """

    split: Split
    rows: Mapping[str, HiddenRows]

    @classmethod
    def of(
        cls, split: Split, section: Section, masks: SectionMasks, whole: Collection[str] = ()
    ) -> MergedPart | None:
        """The rows of a section that masks hide, but merge; and some files whole.

        Parameters
        ----------
        whole : collection of str
            Names of files that are not read under their masks.

        Returns
        -------
        MergedPart or None
            None if there is nothing to merge.
        """
        rows = {name: own for name, own in masks.merged.items() if name not in whole}
        kept = (
            tuple(f for f in run if f.file_name in rows or f.file_name in whole) for run in section
        )
        runs = tuple(run for run in kept if run)
        return cls(split.part((runs,)), rows) if runs else None

    @property
    def size_bytes(self) -> int:
        """Bytes of the files, by the share of their rows."""
        return sum(
            file.file_size_bytes
            if own is None
            else file.file_size_bytes * own.hidden_count // max(1, file.row_count)
            for file in self.split.files
            for own in [self.rows.get(file.file_name)]
        )

    def read(
        self, context: ReadContext, columns: tuple[str, ...], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows; see :func:`~tidelake.scan.read.read_split`."""
        rows = _Positions(self.rows)
        return read_split(context, self.split, columns=columns, predicate=predicate, rows=rows)


class _Positions(Mapping[str, Positions]):
    """The positions of hidden rows, made when a file is opened: they take 8 bytes a row."""

    def __init__(self, rows: Mapping[str, HiddenRows]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Positions:
        return self._rows[name].positions()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
