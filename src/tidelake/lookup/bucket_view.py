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
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import take_rows
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD, is_system_name
from tidelake.lookup.file_memory import MappedBudget
from tidelake.lookup.gather import KeyRows
from tidelake.lookup.key_form import Hashes, Image, Images, some_images
from tidelake.lookup.opened_file import Finder, OpenedFile, RowNumbers
from tidelake.lookup.row_values import RawOf, ValueOf
from tidelake.merge import MergeSpec, fold_rows
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_vector import Positions
from tidelake.telemetry import kept_property
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema, to_arrow_type

Row: TypeAlias = dict[str, Any]
Located: TypeAlias = tuple[tuple[RawOf | None, ...], int]
"""What reads the bytes of the columns, in the order that they were asked for; and the row."""

NARROWED_SHARE = 0.75
"""Later files are asked for fewer keys once so few of those asked are open."""


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
    deleted : int64 array, optional
        Ordinals of the rows that its deletion vector deletes, rising.
    """

    meta: DataFileMeta
    opened: OpenedFile
    deleted: Positions | None = None

    @kept_property
    def is_deleted(self) -> npt.NDArray[np.bool_] | None:
        """Whether each row is deleted; None if none is."""
        if self.deleted is None or not len(self.deleted):
            return None
        mask = np.zeros(self.opened.rows_count, np.bool_)
        mask[self.deleted] = True
        return mask

    @kept_property
    def may_retract(self) -> bool:
        """Whether rows may retract."""
        return self.meta.delete_row_count != 0

    @kept_property
    def kind_of(self) -> ValueOf | None:
        """Gives a row's kind; None if no row retracts."""
        return self.opened.value_of(KIND_FIELD.name) if self.may_retract else None

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """A column of the file."""
        return self.opened.column(name, kind)

    def fixed(self, name: str, kind: pa.DataType) -> npt.NDArray[Any] | None:
        """A column of the file as items of one width."""
        return self.opened.fixed(name, kind)

    def values_of(self, field: DataField, rows: RowNumbers) -> pa.Array:
        """A column of some rows; of system columns that are not stored the manifest's value."""
        kind = to_arrow_type(field.type)
        if field in self.opened.fields or not is_system_name(field.name):
            taken = take_rows(self.opened.column(field.name, kind), rows)
            return taken if taken.type == kind else taken.cast(kind)
        value = 0 if field.name == KIND_FIELD.name else self.meta.min_sequence_number
        return pa.array(np.full(len(rows), value), kind)

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
        kinds = self.opened.column(KIND_FIELD.name, pa.int8())
        retracts: npt.NDArray[np.bool_] = (kinds.to_numpy()[rows] & 1) != 0
        return retracts if retracts.any() else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """How single gets ask one file: its parts at hand, so that no step looks for them."""

    find: Finder
    is_deleted: npt.NDArray[np.bool_] | None
    kind_of: ValueOf | None
    row_of: Callable[[int], Row]
    raw_of: tuple[RawOf | None, ...]
    run: LookupRun


@dataclass(frozen=True, slots=True)
class _Merged:
    """Rows that a fold gave."""

    rows: pa.RecordBatch

    def column(self, name: str, _: pa.DataType) -> pa.Array:
        """A column by name."""
        return self.rows.column(name)

    def fixed(self, name: str, kind: pa.DataType) -> npt.NDArray[Any] | None:
        """None: merged rows are few."""


class BucketView:
    """The files of one bucket at one snapshot. Threads share it.

    Parameters
    ----------
    runs : sequence of LookupRun
        The files, oldest first (:func:`by_age`).
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
        self._readers: dict[tuple[str, ...], tuple[_Reader, ...]] = {}

    def map_what_fits(self, budget: MappedBudget) -> None:
        """Map files that had no room when they were opened."""
        for run in self.runs:
            if run.opened.map_if_fits(budget):
                self._readers.clear()  # they read piece by piece

    # ---- one key

    def get(self, hashed: int, image: Image, names: tuple[str, ...]) -> Row | None:
        """The row of one key; None without one."""
        readers = self._readers.get(names) or self._readers_of(names)
        if not self._first_hit:
            return self._folded(hashed, image, names, readers)
        hit = self._first(hashed, image, readers)
        return None if hit is None else hit[0].row_of(hit[1])

    def locate(
        self, hashes: Sequence[int], images: Sequence[Image], names: tuple[str, ...]
    ) -> list[Located | None] | None:
        """Where the rows of a few keys are, for the bytes of their columns.

        Returns
        -------
        list of (Located or None), or None
            None in it for a key without a row; None where rows must be merged to tell.
        """
        readers = self._readers.get(names) or self._readers_of(names)
        first = readers[0]
        if len(readers) == 1 and first.kind_of is None and first.is_deleted is None:
            rows, raw_of = map(first.find, hashes, images), first.raw_of
            return [(raw_of, row) if row >= 0 else None for row in rows]
        located: list[Located | None] = []
        for hashed, image in zip(hashes, images, strict=True):
            if self._first_hit:
                hit = self._first(hashed, image, readers)
            else:
                hits = _hits(hashed, image, readers)
                if len(hits) > 1:
                    return None
                hit = hits[0] if hits and not _retracts(*hits[0]) else None
            located.append(None if hit is None else (hit[0].raw_of, hit[1]))
        return located

    def _first(
        self, hashed: int, image: Image, readers: Sequence[_Reader]
    ) -> tuple[_Reader, int] | None:
        for reader in readers:
            row = reader.find(hashed, image)
            if row < 0 or (reader.is_deleted is not None and reader.is_deleted[row]):
                continue
            if reader.kind_of is None or not reader.kind_of(row) & 1:
                return reader, row
            if not self._passes_over:
                return None
        return None

    def _readers_of(self, names: tuple[str, ...]) -> tuple[_Reader, ...]:
        readers = tuple(
            _Reader(
                run.opened.find,
                run.is_deleted,
                run.kind_of,
                _row_reader(run.opened, names),
                tuple(map(run.opened.raw_of, names)),
                run,
            )
            for run in self._asked
        )
        self._readers[names] = readers
        return readers

    def _folded(
        self, hashed: int, image: Image, names: tuple[str, ...], readers: Sequence[_Reader]
    ) -> Row | None:
        hits = _hits(hashed, image, readers)
        if not hits:
            return None
        if len(hits) == 1:
            reader, row = hits[0]
            return None if _retracts(reader, row) else reader.row_of(row)
        if self._asked is not self.runs:
            hits.reverse()
        key = np.zeros(1, np.int64)
        found = self._fold([KeyRows(key, r.run, np.array([row])) for r, row in hits], names)
        values: list[Row] = found.rows.to_pylist()
        return values[0] if values else None

    # ---- many keys

    def find(self, hashes: Hashes, images: Images, names: tuple[str, ...]) -> Iterator[KeyRows]:
        """The rows of many keys, each key once.

        Parameters
        ----------
        hashes, images
            Of the keys, as :class:`~tidelake.lookup.KeyForm` makes them.

        Yields
        ------
        KeyRows
            Rows of different keys.
        """
        if self._first_hit:
            yield from self._first_hits(hashes, images)
            return
        hits = [KeyRows(keys, run, rows) for run in self.runs
                for keys, rows in [run.rows_of(hashes, images)] if len(keys)]  # fmt: skip
        if len(hits) == 1:
            yield from _adding(hits[0])
        elif hits:
            keys, merged = self._fold_many(hits, names)
            yield KeyRows(keys, _Merged(merged), np.arange(len(keys)))

    def _first_hits(self, hashes: Hashes, images: Images) -> Iterator[KeyRows]:
        decided = np.zeros(len(hashes), np.bool_)
        still: RowNumbers | None = None  # all
        left = open_count = len(hashes)
        for run in self._asked:
            keys, rows = run.rows_of(hashes, images)
            if still is not None:
                keys = still[keys]
            if left < open_count:
                fresh = ~decided[keys]
                keys, rows = keys[fresh], rows[fresh]
            if not len(keys):
                continue
            retracts = run.retract_many(rows)
            if retracts is not None:
                passed = keys if not self._passes_over else keys[~retracts]
                keys, rows = keys[~retracts], rows[~retracts]
            else:
                passed = keys
            decided[passed] = True
            left -= len(passed)
            if len(keys):
                yield KeyRows(keys, run.opened, rows)
            if not left:
                return
            if (
                left < open_count * NARROWED_SHARE
            ):  # else asking fewer keys costs more than it saves
                more = np.flatnonzero(~decided if still is None else ~decided[still])
                still = more if still is None else still[more]
                hashes, images, open_count = hashes[more], some_images(images, more), left

    def _fold(self, hits: Sequence[KeyRows], names: tuple[str, ...]) -> _Merged:
        return _Merged(self._fold_many(hits, names)[1])

    def _fold_many(
        self, hits: Sequence[KeyRows], names: tuple[str, ...]
    ) -> tuple[RowNumbers, pa.RecordBatch]:
        """Merge all rows of the keys; the oldest run's first."""
        keys_unasked = set(self._spec.key_columns).difference(names)
        needed = [n for n in self._spec.with_needed(names) if n not in keys_unasked]
        fields = [*(self._fields[name] for name in needed), SEQUENCE_FIELD, KIND_FIELD]
        schema = to_arrow_schema(fields)
        batches, levels = [], []
        for hit in hits:
            run = hit.source
            assert isinstance(run, LookupRun)
            columns = [run.values_of(field, hit.rows) for field in fields]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
            levels.append(np.full(len(hit.rows), run.meta.level))
        keys = np.concatenate([hit.keys for hit in hits])
        return fold_rows(batches, keys, np.concatenate(levels), self._spec, columns=names)


def _hits(hashed: int, image: Image, readers: Sequence[_Reader]) -> list[tuple[_Reader, int]]:
    """The rows of one key that are not deleted."""
    hits: list[tuple[_Reader, int]] = []
    for reader in readers:
        row = reader.find(hashed, image)
        if row >= 0 and (reader.is_deleted is None or not reader.is_deleted[row]):
            hits.append((reader, row))
    return hits


def _retracts(reader: _Reader, row: int) -> bool:
    return reader.kind_of is not None and bool(reader.kind_of(row) & 1)


def _adding(hit: KeyRows) -> Iterator[KeyRows]:
    """The keys whose only row adds."""
    run = hit.source
    assert isinstance(run, LookupRun)
    retracts = run.retract_many(hit.rows)
    if retracts is None:
        yield KeyRows(hit.keys, run.opened, hit.rows)
    elif not retracts.all():
        yield KeyRows(hit.keys[~retracts], run.opened, hit.rows[~retracts])


def _row_reader(opened: OpenedFile, names: tuple[str, ...]) -> Callable[[int], Row]:
    readers = [(name, opened.value_of(name)) for name in names]

    def row_of(row: int) -> Row:
        return {name: read(row) for name, read in readers}

    return row_of
