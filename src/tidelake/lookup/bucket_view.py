"""What the files of one bucket say of a key, at one snapshot.

A view is immutable: a newer snapshot has a new view, which shares the opened files that stay.
Rows deleted by a file's deletion vector do not count. The rule that chooses a key's row is one of:

- **first hit**: files are asked from the newest to the oldest, and the first row of the key
  decides; if it retracts, the key has no row. So for the engine deduplicate, if the sequence
  numbers of each file are above those of all older ones. With ``ignore-delete`` rows that retract
  are passed over. First-row asks from the oldest file, those above level 0 first, and passes them
  over too.
- **fold**: all rows of the key are collected, and :mod:`tidelake.merge` decides: every other case.
  A key with one row needs no merge.

A batch asks each file for all keys that are open still, and merges all keys at once. The order of
files of equal age is that of a read (:mod:`tidelake.merge.runs.sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import take_rows
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD, is_system_name
from tidelake.lookup.key_form import Hashes, Image, Images, some_images
from tidelake.lookup.opened_file import OpenedFile, RowNumbers
from tidelake.lookup.row_values import ValueOf
from tidelake.merge import MergeSpec, fold_rows
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema, to_arrow_type

__all__ = ["BucketView", "KeyRows", "LookupRun", "by_age", "is_first_hit", "is_newer_run_by_run"]

Row: TypeAlias = dict[str, Any]


def by_age(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Sorts a bucket's files from the oldest to the newest."""
    return (-file.level, file.max_sequence_number, file.creation_time_ms or 0, file.file_name)


def is_newer_run_by_run(files: Sequence[DataFileMeta]) -> bool:
    """Whether the sequence numbers of each run are above those of all older ones.

    Parameters
    ----------
    files : sequence of DataFileMeta
        A bucket's files, oldest first. Those of one level above 0 share no key.
    """
    runs: list[tuple[int, int]] = []
    level_before = 0
    for file in files:
        low, high = file.min_sequence_number, file.max_sequence_number
        if runs and file.level > 0 and file.level == level_before:
            last_low, last_high = runs.pop()
            low, high = min(low, last_low), max(high, last_high)
        runs.append((low, high))
        level_before = file.level
    return all(own[1] < newer[0] for own, newer in pairwise(runs))


def is_first_hit(spec: MergeSpec, files: Sequence[DataFileMeta]) -> bool:
    """Whether the first row found of a key decides.

    Parameters
    ----------
    spec : MergeSpec
        The table's rules.
    files : sequence of DataFileMeta
        A bucket's files, oldest first.
    """
    if spec.engine not in (DEDUPLICATE, FIRST_ROW) or spec.sequence_columns:
        return False
    return is_newer_run_by_run(files)


@dataclass(frozen=True)
class LookupRun:
    """One data file of a bucket, by its lookup file.

    Parameters
    ----------
    meta : DataFileMeta
        The data file.
    opened : OpenedFile
        Its lookup file.
    deleted : int64 array, optional
        Ordinals of the rows that its deletion vector deletes, rising.
    """

    meta: DataFileMeta
    opened: OpenedFile
    deleted: Positions | None = None

    @cached_property
    def is_deleted(self) -> npt.NDArray[np.bool_] | None:
        """Whether each row is deleted; None if none is."""
        if self.deleted is None or not len(self.deleted):
            return None
        mask = np.zeros(self.opened.rows_count, np.bool_)
        mask[self.deleted] = True
        return mask

    @cached_property
    def may_retract(self) -> bool:
        """Whether rows may retract."""
        return self.meta.delete_row_count != 0

    @cached_property
    def _kind_of(self) -> ValueOf | None:
        return self.opened.value_of(KIND_FIELD.name) if self.may_retract else None

    def row_of(self, hashed: int, image: Image) -> int:
        """The row of a key that no vector deletes; -1 without one."""
        row = self.opened.find(hashed, image)
        if row >= 0 and self.is_deleted is not None and self.is_deleted[row]:
            return -1
        return row

    def retracts(self, row: int) -> bool:
        """Whether a row retracts."""
        return self._kind_of is not None and bool(self._kind_of(row) & 1)

    def rows_of(self, hashes: Hashes, images: Images) -> tuple[RowNumbers, RowNumbers]:
        """The keys that have a row here, and the rows."""
        keys, rows = self.opened.find_many(hashes, images)
        if self.is_deleted is not None and len(rows):
            live = ~self.is_deleted[rows]
            return keys[live], rows[live]
        return keys, rows

    def retract_many(self, rows: RowNumbers) -> npt.NDArray[np.bool_] | None:
        """Whether each row retracts; None if none does."""
        if not self.may_retract or not len(rows):
            return None
        (kinds,) = self.opened.columns([KIND_FIELD.name], [to_arrow_type(KIND_FIELD.type)])
        retracts: npt.NDArray[np.bool_] = (kinds.to_numpy()[rows] & 1) != 0
        return retracts if retracts.any() else None


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The rows of some keys.

    Parameters
    ----------
    keys : int array [m]
        Which of the keys asked for have a row; in any order.
    rows : RecordBatch [m]
        Their rows.
    """

    keys: RowNumbers
    rows: pa.RecordBatch


class BucketView:
    """The files of one bucket at one snapshot. Threads share it.

    Parameters
    ----------
    runs : sequence of LookupRun
        The files, oldest first (:func:`by_age`).
    spec : MergeSpec
        The table's rules.
    first_hit : bool
        Whether the first row found decides (:func:`is_first_hit`).
    fields : mapping of str to DataField
        The columns that may be wanted, or that a fold of them needs.
    """

    def __init__(
        self,
        runs: Sequence[LookupRun],
        spec: MergeSpec,
        *,
        first_hit: bool,
        fields: Mapping[str, DataField],
    ) -> None:
        self.runs = tuple(runs)
        self._spec = spec
        self._first_hit = first_hit
        self._fields = fields
        self._passes_over = spec.ignore_delete or spec.engine == FIRST_ROW
        # first-row: those above level 0 are the oldest
        self._asked = self.runs if spec.engine == FIRST_ROW else self.runs[::-1]
        self._readers: dict[
            tuple[str, ...], tuple[tuple[LookupRun, Callable[[int], Row]], ...]
        ] = {}

    # ---- one key

    def get(self, hashed: int, image: Image, names: tuple[str, ...]) -> Row | None:
        """The row of one key; None without one."""
        if not self._first_hit:
            return self._folded(hashed, image, names)
        readers = self._readers.get(names) or self._readers_of(names)
        for run, row_of in readers:
            row = run.opened.find(hashed, image)
            if row < 0 or (run.is_deleted is not None and run.is_deleted[row]):
                continue
            if not run.may_retract or not run.retracts(row):
                return row_of(row)
            if not self._passes_over:
                return None
        return None

    def _readers_of(
        self, names: tuple[str, ...]
    ) -> tuple[tuple[LookupRun, Callable[[int], Row]], ...]:
        readers = tuple((run, _row_reader(run.opened, names)) for run in self._asked)
        self._readers[names] = readers
        return readers

    def _folded(self, hashed: int, image: Image, names: tuple[str, ...]) -> Row | None:
        readers = self._readers.get(names) or self._readers_of(names)
        hits = [
            (run, row_of, row) for run, row_of in readers if (row := run.row_of(hashed, image)) >= 0
        ]
        if not hits:
            return None
        if len(hits) == 1:
            run, row_of, row = hits[0]
            return None if run.retracts(row) else row_of(row)
        key = np.zeros(1, np.int64)
        by_run = [(run, key, np.array([row])) for run, _, row in hits]
        found = self._fold(by_run if self._asked is self.runs else by_run[::-1], names)
        row_values: list[Row] = found.rows.to_pylist()
        return row_values[0] if row_values else None

    # ---- many keys

    def find(self, hashes: Hashes, images: Images, names: tuple[str, ...]) -> Iterator[KeyRows]:
        """The rows of many keys, each key once.

        Parameters
        ----------
        hashes, images
            Of the keys, as :class:`~tidelake.lookup.KeyForm` makes them.
        names : tuple of str
            The columns wanted.

        Yields
        ------
        KeyRows
            Rows of different keys.
        """
        if self._first_hit:
            yield from self._first_hits(hashes, images, names)
            return
        hits = [(run, *run.rows_of(hashes, images)) for run in self.runs]
        hits = [hit for hit in hits if len(hit[1])]
        if len(hits) == 1:
            run, keys, rows = hits[0]
            retracts = run.retract_many(rows)
            if retracts is not None:
                keys, rows = keys[~retracts], rows[~retracts]
            yield KeyRows(keys, self._taken(run, rows, names))
        elif hits:
            yield self._fold(hits, names)

    def _first_hits(
        self, hashes: Hashes, images: Images, names: tuple[str, ...]
    ) -> Iterator[KeyRows]:
        still = np.arange(len(hashes))
        for run in self._asked:
            if not len(still):
                return
            all_open = len(still) == len(hashes)
            sought = hashes if all_open else hashes[still]
            keys, rows = run.rows_of(sought, images if all_open else some_images(images, still))
            if not len(keys):
                continue
            decided = np.zeros(len(still), np.bool_)
            retracts = run.retract_many(rows)
            if retracts is None:
                decided[keys] = True
            else:
                decided[keys[~retracts] if self._passes_over else keys] = True
                keys, rows = keys[~retracts], rows[~retracts]
            if len(keys):
                yield KeyRows(still[keys], self._taken(run, rows, names))
            still = still[~decided]

    def _taken(self, run: LookupRun, rows: RowNumbers, names: tuple[str, ...]) -> pa.RecordBatch:
        schema = to_arrow_schema([self._fields[name] for name in names])
        if not names:
            return _without_columns(len(rows))
        columns = run.opened.columns(names, schema.types)
        arrays = [
            _as_type(take_rows(column, rows), kind)
            for column, kind in zip(columns, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _fold(
        self, hits: Sequence[tuple[LookupRun, RowNumbers, RowNumbers]], names: tuple[str, ...]
    ) -> KeyRows:
        """Merge all rows of the keys; the oldest run's first."""
        keys_unasked = set(self._spec.key_columns).difference(names)
        needed = [n for n in self._spec.with_needed(names) if n not in keys_unasked]
        fields = [*(self._fields[name] for name in needed), SEQUENCE_FIELD, KIND_FIELD]
        schema = to_arrow_schema(fields)
        batches = [
            pa.RecordBatch.from_arrays(
                [_column_of(run, field, rows) for field in fields], schema=schema
            )
            for run, _, rows in hits
        ]
        keys = np.concatenate([keys for _, keys, _ in hits])
        levels = np.repeat([run.meta.level for run, _, _ in hits], [len(k) for _, k, _ in hits])
        merged_keys, rows = fold_rows(batches, keys, levels, self._spec, columns=names)
        return KeyRows(merged_keys, rows)


def _row_reader(opened: OpenedFile, names: tuple[str, ...]) -> Callable[[int], Row]:
    readers = [opened.value_of(name) for name in names]

    def row_of(row: int) -> Row:
        return dict(zip(names, [read(row) for read in readers], strict=True))

    return row_of


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _column_of(run: LookupRun, field: DataField, rows: RowNumbers) -> pa.Array:
    """A column of some rows; of system columns that the lookup file lacks the manifest's value."""
    kind = to_arrow_type(field.type)
    if field in run.opened.fields or not is_system_name(field.name):
        (column,) = run.opened.columns([field.name], [kind])
        return _as_type(take_rows(column, rows), kind)
    value = 0 if field.name == KIND_FIELD.name else run.meta.min_sequence_number
    return pa.array(np.full(len(rows), value), kind)


def _without_columns(count: int) -> pa.RecordBatch:
    """Rows without columns that have their number."""
    empty = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(empty)
