"""The masks of a section's files: which rows other runs hide, from the key columns alone.

For a request (:mod:`tidelake.scan.masks.mask_request`):

1. The keys of all held files are read and sorted once, each with the number of its row among them.
2. The keys of the other file of each pair stream past and are looked up among them. A hit in a
   newer run hides one of the two rows, or both, by the rule. A row that retracts is hidden too,
   unless only older runs hide.
3. What the cache knew of a file's mask is united with it. A file's own deletion vector is added
   later (:func:`vector_mask`).

Where the merge decides, it gives the masks (:mod:`tidelake.scan.masks.winners`).

Cost: the keys of files whose mask is not known are read once, 20 to 50 ns a row, and a bisection
per held key. Memory: the keys of the held files, twice as columns and once encoded. Where columns
and encoding are larger than a sort may take, there is no mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.key_order import key_bytes, key_widths
from tidelake.codec.sorted_keys import SortedKeys
from tidelake.format import KIND_FIELD
from tidelake.merge import FileKeys, MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import deleted_rows, read_file
from tidelake.scan.expired import names_expiry
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.masks.mask_request import FileMask, MaskRequest
from tidelake.scan.masks.rule import MaskRule
from tidelake.scan.masks.winners import RETRACTS, losing_rows
from tidelake.scan.split import Split


def section_masks(
    context: ReadContext, request: MaskRequest, spec: MergeSpec
) -> list[tuple[FileMask, HiddenRows]] | None:
    """Compute the masks that the cache did not know whole.

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
        if request.rule is MaskRule.MERGE:
            losing = losing_rows(context, request.split, request.section, spec)
            if losing is None:
                return None
            masks = {mask.file.file_name: mask for mask in request.files}
            return [(masks[file.file_name], hidden) for file, hidden in losing]
        held = _held_keys(context, request, spec)
        if held is None:
            return None
        sought = _Sought.of(context, request, held, spec)
        known = {m.file.file_name: m.known for m in request.files if m.known is not None}
        hidden: dict[str, HiddenRows] = {}
        streamed = request.streamed
        for number, run in enumerate(request.runs):
            for file in run:
                if file.file_name in streamed:
                    own = _hidden(context, request, file, number, known, held, sought, spec)
                    hidden[file.file_name] = own
        return [
            (mask, sought.joined(mask.file, hidden.get(mask.file.file_name) or mask.known))
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


HeldKeys: TypeAlias = Mapping[str, Sequence[pa.RecordBatch]]
"""By file name, what :func:`_key_batches` gives."""


def _held_keys(context: ReadContext, request: MaskRequest, spec: MergeSpec) -> HeldKeys | None:
    """Read the held files' keys; None once they, with their encoding, are too large.

    One long text makes every encoded key as long.
    """
    held: dict[str, list[pa.RecordBatch]] = {}
    widths, rows, nbytes = (0,) * len(spec.key_types), 0, 0
    for file in request.held.values():
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


@dataclass(frozen=True, slots=True)
class _Sought:
    """The live keys of the held files, sorted, and what is found out of their rows.

    Parameters
    ----------
    keys : SortedKeys or None
        With the number of each row among all of the held files; None if there is no live row.
    runs : int array [rows]
        The run of each row.
    hidden : bool array [rows]
        Whether a row of another run hides the row, or it retracts.
    begins : mapping of str to int
        By file name, the number of its first row.
    """

    keys: SortedKeys | None
    runs: npt.NDArray[np.intp]
    hidden: npt.NDArray[np.bool_]
    begins: Mapping[str, int]

    @classmethod
    def of(
        cls, context: ReadContext, request: MaskRequest, held: HeldKeys, spec: MergeSpec
    ) -> _Sought:
        columns: list[list[pa.Array]] = [[] for _ in spec.key_columns]
        numbers: list[npt.NDArray[np.intp]] = []
        runs: list[npt.NDArray[np.intp]] = []
        hidden: list[npt.NDArray[np.bool_]] = []
        begins: dict[str, int] = {}
        begin = 0
        for run_number, run in enumerate(request.runs):
            for file in (f for f in run if f.file_name in held):
                begins[file.file_name] = begin
                own = np.arange(begin, begin + file.row_count)
                begin += file.row_count
                runs.append(np.full(file.row_count, run_number, np.intp))
                hidden.append(_retracting(held[file.file_name], file, spec))
                batches = held[file.file_name]
                if not batches:
                    continue
                rows = pa.Table.from_batches(batches).select(list(spec.key_columns))
                live = _live(context, request.split, file)
                if live is not None:
                    rows, own = rows.filter(pa.array(live)), own[live]
                if rows.num_rows:
                    for column, part in zip(columns, rows.columns, strict=True):
                        column += part.chunks
                    numbers.append(own)
        if not runs:
            return cls(None, np.zeros(0, np.intp), np.zeros(0, np.bool_), begins)
        keys = None
        if numbers:
            joined = [pa.concat_arrays(chunks) for chunks in columns]
            keys = SortedKeys(joined, spec.key_types, np.concatenate(numbers))
        return cls(keys, np.concatenate(runs), np.concatenate(hidden), begins)

    def joined(self, file: DataFileMeta, hidden: HiddenRows | None) -> HiddenRows:
        """What is hidden of a file, with what was found while it was held."""
        begin = self.begins.get(file.file_name)
        if begin is None:
            assert hidden is not None, "a file is held, streamed or known"
            return hidden
        return HiddenRows.of(self.hidden[begin : begin + file.row_count]).united(hidden)


def _live(context: ReadContext, split: Split, file: DataFileMeta) -> npt.NDArray[np.bool_] | None:
    """Whether a file's vector leaves each row; None if it has none."""
    deleted = deleted_rows(context, split, file)
    if deleted is None:
        return None
    live = np.ones(file.row_count, np.bool_)
    live[deleted] = False
    return live


def _retracting(
    batches: Iterable[pa.RecordBatch], file: DataFileMeta, spec: MergeSpec
) -> npt.NDArray[np.bool_]:
    """Whether each row retracts."""
    if file.delete_row_count == 0:
        return np.zeros(file.row_count, np.bool_)
    return np.concatenate([_retracts(batch, spec) for batch in batches] or [np.zeros(0, np.bool_)])


def _retracts(batch: pa.RecordBatch, spec: MergeSpec) -> npt.NDArray[np.bool_]:
    kinds = batch.column(len(spec.key_columns)).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.bool_] = (kinds & RETRACTS) != 0
    return found


def _hidden(
    context: ReadContext,
    request: MaskRequest,
    file: DataFileMeta,
    run: int,
    known: Mapping[str, HiddenRows],
    held: HeldKeys,
    sought: _Sought,
    spec: MergeSpec,
) -> HiddenRows:
    """Let the keys of a file pass those that are held; notes what it hides among them."""
    before = known.get(file.file_name)
    flags = np.zeros(file.row_count, np.bool_) if before is None else before.flags()
    batches: Iterable[pa.RecordBatch] | None = held.get(file.file_name)
    if batches is None:
        batches = _key_batches(context, request.split, file, spec)
    if sought.keys is not None:  # a batch is encoded as wide as the sought keys
        batches = _sliced(batches, max(1, _held_max(context) // sought.keys.key_bytes))
    live = _live(context, request.split, file) if request.rule.hides_newer else None
    begin = 0
    for batch in batches:
        keys = batch.columns[: len(spec.key_columns)]
        if sought.keys is not None:
            numbers, positions = sought.keys.found_in(keys, rising=FileKeys.of(spec).in_order(file))
            in_newer = sought.runs[numbers] > run
            positions, numbers = begin + positions[in_newer], numbers[in_newer]
            if request.rule.hides_older:
                flags[positions] = True
            if request.rule.hides_newer:
                # a row that a vector deletes hides nothing
                sought.hidden[numbers if live is None else numbers[live[positions]]] = True
        end = begin + batch.num_rows
        if file.delete_row_count != 0:
            flags[begin:end] |= _retracts(batch, spec)
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
