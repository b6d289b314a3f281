"""The masks of a section's files: which rows newer runs replace, from the key columns alone.

Where the newest run with a key decides about it (:func:`newest_run_wins`), a row of a run is live
exactly if no newer run has its key and its own kind adds. Elsewhere the merge decides
(:mod:`tidelake.scan.masks.winners`). In the first case:

1. For each file: the **newer files**, those of newer runs whose key ranges meet its own. A file
   with none and without deletes needs no mask.
2. The cache gives the mask for the largest known part of these files. The others are *fresh*.
3. The keys of all fresh files are sorted once, each with the number of its run.
4. The keys of each file are looked up among them (those of the fresh files are in memory, others
   stream past). A hit of a newer run is a replaced row. A row that retracts is hidden too.
5. The masks are kept. A file's deletion vector is added by :func:`vector_mask`; a row that the
   vector of a newer file deletes replaces nothing, so the vector is part of the newer file's name.

The columns of the key keep their ids and types for ever, so nothing else decides. What decides in a
merge may be altered; it is part of what such a mask is kept under (:func:`_deciding`).

Cost: the keys of files whose mask is not known are read once, 20 to 50 ns a row, and a bisection
per fresh key. Memory: the keys of the fresh files, twice as columns and once encoded. Where columns
and encoding are larger than a sort may take, there is no mask.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.binary_row import decode_row
from tidelake.codec.key_order import key_bytes, key_widths
from tidelake.codec.sorted_keys import SortedKeys
from tidelake.format import KIND_FIELD, orc_zone_moves
from tidelake.merge import MergeSpec
from tidelake.merge.runs.sections import KeyRank, key_rank
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.expired import names_expiry
from tidelake.scan.masks.cache import MaskCache, NewerFiles
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.masks.winners import RETRACTS, losing_rows
from tidelake.scan.read import deleted_rows, read_file
from tidelake.scan.split import Section, Split
from tidelake.scan.system_columns import newer_run_by_run

__all__ = [
    "FileMask",
    "MaskRequest",
    "merge_reason",
    "rows_to_read",
    "section_masks",
    "vector_mask",
]

DIGEST_BYTES = 20


@dataclass(frozen=True, slots=True)
class FileMask:
    """A file of a section, and which files may hide rows of it.

    Parameters
    ----------
    file : DataFileMeta
        The file.
    run : int
        Its run: 0 is the oldest.
    newer : tuple of DataFileMeta
        The files of newer runs whose keys may meet its own.
    path : str
        Where it is, for the cache.
    names : frozenset of str
        The names of the newer files, for the cache.
    known : HiddenRows, optional
        The rows that some of the newer files hide.
    fresh : tuple of DataFileMeta
        The other newer files.
    """

    file: DataFileMeta
    run: int
    newer: tuple[DataFileMeta, ...]
    path: str
    names: NewerFiles
    known: HiddenRows | None = None
    fresh: tuple[DataFileMeta, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the cache knew the mask."""
        return self.known is not None and not self.fresh


@dataclass(frozen=True, slots=True)
class MaskRequest:
    """A section whose masks are wanted, with what the cache knows of them.

    Parameters
    ----------
    split : Split
        The split of the section.
    section : Section
        Its runs, oldest first.
    files : tuple of FileMask
        The files with newer ones or deletes; all others need no mask.
    by_merge : bool
        Whether the merge decides, because a newer run need not win.
    """

    split: Split
    section: Section
    files: tuple[FileMask, ...]
    by_merge: bool = False

    @classmethod
    def of(
        cls, context: ReadContext, split: Split, section: Section, spec: MergeSpec, cache: MaskCache
    ) -> MaskRequest:
        """Look up what the cache knows; no file is read. Requires: there is no merge reason."""
        if not newest_run_wins(section, spec):
            return cls(split, section, _all_files(context, split, section, spec, cache), True)
        runs = [_Run.of(run, spec) for run in section]
        names = {file.file_name: _name(split, file) for run in section for file in run}
        files = []
        for number, run in enumerate(runs):
            for file, low, high in zip(run.files, run.lows, run.highs, strict=True):
                newer = tuple(f for above in runs[number + 1 :] for f in above.meeting(low, high))
                if newer or file.delete_row_count != 0:
                    files.append(_looked_up(context, split, file, number, newer, names, cache))
        return cls(split, section, tuple(files))

    @property
    def fresh(self) -> dict[str, DataFileMeta]:
        """The files whose keys must be looked up in others, by name."""
        return {f.file_name: f for mask in self.files for f in mask.fresh}

    @property
    def is_known(self) -> bool:
        """Whether the cache knows all masks."""
        return all(mask.is_known for mask in self.files)

    @property
    def digest(self) -> bytes:
        """Names what must be computed."""
        # where the merge decides, a path holds all names already
        unknown = (
            (mask.path, () if self.by_merge else sorted(file.file_name for file in mask.fresh))
            for mask in self.files
            if mask.fresh
        )
        named = repr((sorted(unknown), sorted(self.split.deletions.items(), key=itemgetter(0))))
        return hashlib.blake2b(named.encode(), digest_size=DIGEST_BYTES).digest()


def merge_reason(section: Section, spec: MergeSpec) -> str | None:
    """Why a section must be merged; None if each of its keys has one of its rows, or none.

    Parameters
    ----------
    section : Section
        Its runs, oldest first.
    spec : MergeSpec
        The table's rules.
    """
    is_one_row = len(section) == 1 or spec.engine == DEDUPLICATE
    return None if is_one_row else f"merge-engine = {spec.engine}"


def newest_run_wins(section: Section, spec: MergeSpec) -> bool:
    """Whether a newer run decides about every key that it has.

    The engine keeps the newest row of a key by its sequence number alone, and the numbers of each
    run are above those of all older runs. Two jobs that wrote a bucket at the same time break
    that.

    Parameters
    ----------
    section : Section
        Its runs, oldest first.
    spec : MergeSpec
        The table's rules. Requires: there is no merge reason.
    """
    if len(section) == 1:
        return True
    if spec.sequence_columns or not newer_run_by_run(section):
        return False
    # a delete that is ignored would not replace the older row
    return not spec.ignore_delete or all(f.delete_row_count == 0 for run in section for f in run)


def rows_to_read(request: MaskRequest) -> int:
    """Rows whose keys :func:`section_masks` reads."""
    files = {m.file.file_name: m.file for m in request.files if not m.is_known} | request.fresh
    return sum(file.row_count for file in files.values())


def section_masks(
    context: ReadContext, request: MaskRequest, spec: MergeSpec
) -> list[tuple[FileMask, HiddenRows]] | None:
    """Compute the masks that the cache did not know whole.

    Parameters
    ----------
    context : ReadContext
        The table.
    request : MaskRequest
        The section.
    spec : MergeSpec
        The table's rules.

    Returns
    -------
    list of (FileMask, HiddenRows), or None
        Each file that the cache did not know, and its hidden rows without those of its vector.
        None if what must be held is larger than ``sort_keys_bytes`` of the memory.

    Raises
    ------
    CorruptError
        A file is damaged or does not match the manifest; the message names it.
    NotFoundError
        A file is missing: the snapshot expired meanwhile, or the file was lost.

    Notes
    -----
    Runs on the driver or on executors. Thread-safe.
    """
    with names_expiry(context, request.split.snapshot_id):
        if request.by_merge:
            losing = losing_rows(context, request.split, request.section, spec)
            if losing is None:
                return None
            masks = {mask.file.file_name: mask for mask in request.files}
            return [(masks[file.file_name], hidden) for file, hidden in losing]
        held = _held_keys(context, request, spec)
        if held is None:
            return None
        sought = _sought(context, request, held, spec)
        return [
            (mask, _hidden(context, request.split, mask, held, sought, spec))
            for mask in request.files
            if not mask.is_known
        ]


def vector_mask(context: ReadContext, split: Split, file: DataFileMeta) -> HiddenRows | None:
    """The rows that a file's deletion vector deletes; None if it has none."""
    with names_expiry(context, split.snapshot_id):
        deleted = deleted_rows(context, split, file)
    if deleted is None:
        return None
    flags = np.zeros(file.row_count, np.bool_)
    flags[deleted] = True
    return HiddenRows.of(flags)


@dataclass(frozen=True, slots=True)
class _Run:
    """The files of a run with their key ranges, both in key order."""

    files: tuple[DataFileMeta, ...]
    lows: list[KeyRank]
    highs: list[KeyRank]

    @classmethod
    def of(cls, run: Sequence[DataFileMeta], spec: MergeSpec) -> _Run:
        types = spec.key_types
        files = tuple(run)
        return cls(
            files,
            [key_rank(decode_row(f.min_key, types), types) for f in files],
            [key_rank(decode_row(f.max_key, types), types) for f in files],
        )

    def meeting(self, low: KeyRank, high: KeyRank) -> tuple[DataFileMeta, ...]:
        """The files that may have a key of the range, ends included."""
        return self.files[bisect_left(self.highs, low) : bisect_right(self.lows, high)]


def _looked_up(
    context: ReadContext,
    split: Split,
    file: DataFileMeta,
    run: int,
    newer: tuple[DataFileMeta, ...],
    all_names: Mapping[str, str],
    cache: MaskCache,
) -> FileMask:
    path = context.paths.data_file(split.partition, split.bucket, file)
    named = {all_names[f.file_name]: f for f in newer}
    names = frozenset(named)
    known = cache.nearest(path, names)
    if known is None:
        return FileMask(file, run, newer, path, names, None, newer)
    covered, hidden = known
    fresh = tuple(f for name, f in named.items() if name not in covered)
    return FileMask(file, run, newer, path, names, hidden, fresh)


def _all_files(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec, cache: MaskCache
) -> tuple[FileMask, ...]:
    """The masks that the merge of all files decides; each depends on all of them."""
    files = tuple(file for run in section for file in run)
    others = "|".join([_deciding(context, spec), *(_name(split, file) for file in files)])
    # a digest: else n files would be kept under n texts of n names each
    digest = hashlib.blake2b(others.encode(), digest_size=DIGEST_BYTES).hexdigest()
    found = []
    for number, run in enumerate(section):
        for file in run:
            path = context.paths.data_file(split.partition, split.bucket, file)
            key = f"{path}|{digest}"
            known = cache.nearest(key, frozenset())
            hidden, fresh = (None, files) if known is None else (known[1], ())
            found.append(FileMask(file, number, files, key, frozenset(), hidden, fresh))
    return tuple(found)


def _deciding(context: ReadContext, spec: MergeSpec) -> str:
    """What decides besides the files: the columns by id and type, for names come again.

    A file has its columns by id, and they are read as the type of the schema that is read with.
    """
    columns = context.fields((*spec.key_columns, *spec.sequence_columns))
    named = [(field.id, str(field.type)) for field in columns]
    rules = (spec.sequence_descending, spec.ignore_delete)
    reads = (context.env.zone, orc_zone_moves(context.options))
    return repr((len(spec.key_columns), named, rules, reads))


def _name(split: Split, file: DataFileMeta) -> str:
    """A file with its live rows: its name, and its vector if it has one."""
    where = split.deletions.get(file.file_name)
    return file.file_name if where is None else f"{file.file_name}|{where.path}:{where.offset}"


HeldKeys: TypeAlias = Mapping[str, Sequence[pa.RecordBatch]]
"""By file name, what :func:`_key_batches` gives."""


def _held_keys(context: ReadContext, request: MaskRequest, spec: MergeSpec) -> HeldKeys | None:
    """Read the fresh files' keys; None once they, with their encoding, are too large.

    One long text makes every encoded key as long.
    """
    held: dict[str, list[pa.RecordBatch]] = {}
    widths, rows, nbytes = (0,) * len(spec.key_types), 0, 0
    for file in request.fresh.values():
        own = held.setdefault(file.file_name, [])
        for batch in _key_batches(context, request.split, file, spec):
            keys = batch.columns[: len(spec.key_columns)]
            widths = tuple(map(max, widths, key_widths(keys, spec.key_types)))
            rows += batch.num_rows
            nbytes += batch.nbytes
            if nbytes + rows * key_bytes(spec.key_types, widths) > _held_max(context):
                return None
            own.append(batch)
    return held


def _held_max(context: ReadContext) -> int:
    return context.env.memory.sort_keys_bytes


def _sought(
    context: ReadContext, request: MaskRequest, held: HeldKeys, spec: MergeSpec
) -> SortedKeys | None:
    """The live keys of all fresh files, each with the number of its run; None without any."""
    columns: list[list[pa.Array]] = [[] for _ in spec.key_columns]
    runs: list[npt.NDArray[np.intp]] = []
    for number, run in enumerate(request.section):
        for file in run:
            batches = held.get(file.file_name)
            if not batches:
                continue
            rows = pa.Table.from_batches(batches).select(list(spec.key_columns))
            deleted = deleted_rows(context, request.split, file)
            if deleted is not None:
                live = np.ones(file.row_count, np.bool_)
                live[deleted] = False
                rows = rows.filter(pa.array(live))
            if rows.num_rows:
                for own, column in zip(columns, rows.columns, strict=True):
                    own += column.chunks
                runs.append(np.full(rows.num_rows, number, np.intp))
    if not runs:
        return None
    joined = [pa.concat_arrays(chunks) for chunks in columns]
    return SortedKeys(joined, spec.key_types, np.concatenate(runs))


def _hidden(
    context: ReadContext,
    split: Split,
    mask: FileMask,
    held: HeldKeys,
    sought: SortedKeys | None,
    spec: MergeSpec,
) -> HiddenRows:
    file = mask.file
    flags = np.zeros(file.row_count, np.bool_) if mask.known is None else mask.known.flags()
    batches: Iterable[pa.RecordBatch] | None = held.get(file.file_name)
    if batches is None:
        batches = _key_batches(context, split, file, spec)
    if sought is not None:  # a batch is encoded as wide as the sought keys
        batches = _sliced(batches, max(1, _held_max(context) // sought.key_bytes))
    begin = 0
    for batch in batches:
        keys = batch.columns[: len(spec.key_columns)]
        if sought is not None:
            runs, positions = sought.found_in(keys)
            flags[begin + positions[runs > mask.run]] = True
        end = begin + batch.num_rows
        if file.delete_row_count != 0:
            kinds = batch.column(len(keys)).to_numpy(zero_copy_only=False)
            flags[begin:end] |= (kinds & RETRACTS) != 0
        begin = end
    assert begin == file.row_count, "a reader checks the number of rows"
    return HiddenRows.of(flags)


def _sliced(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for begin in range(0, batch.num_rows, rows_max):
            yield batch.slice(begin, rows_max)


def _key_batches(
    context: ReadContext, split: Split, file: DataFileMeta, spec: MergeSpec
) -> Iterator[pa.RecordBatch]:
    """The keys of a file in its order, those of deleted rows too; with kinds if it has deletes."""
    fields = context.fields(spec.key_columns)
    if file.delete_row_count != 0:
        fields = (*fields, KIND_FIELD)
    yield from read_file(context, split, file, fields)
