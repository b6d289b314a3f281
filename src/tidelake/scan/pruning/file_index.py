"""Pruning by file indexes: finds the files of a plan without a matching row.

1. Only the files that statistics leave are tested, and only by conjuncts on rows.
2. Some indexes are in the manifest; several threads read those in files. The planner does all of
   this, so that no split has a pruned file.
3. A file whose index has no row for the conjuncts on the primary key matters to no run. The other
   conjuncts count like value statistics: if files of a primary-key table overlap, only
   :func:`~tidelake.scan.pruning.prune.prune_section` may use them.
4. An index only saves reading. The plan names a damaged, missing or later index, and its file is
   read.

Source: Paimon's ``FileIndexEvaluator`` and the scans' ``filterByFileIndex`` (1.3.1), which use
indexes in the manifest when they plan and the others when they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.format.file_index import INDEX_SUFFIX, indexed_rows
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.pruning.prune import ScanFilter
from tidelake.types.predicate import Predicate

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UnusedIndex:
    """A file index that could not be used; its file is read instead."""

    file_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexAnswers:
    """The answers of the indexes of a plan's files.

    Parameters
    ----------
    may_hold_key : bool array [entries]
        Files that may have a row that satisfies the conjuncts on the primary key.
    may_match : bool array [entries]
        Files that may have a row that satisfies the predicate.
    """

    may_hold_key: Mask
    may_match: Mask
    unused: tuple[UnusedIndex, ...] = ()


def ask_indexes(
    context: ReadContext, entries: EntryTable, worth_asking: Mask, parts: ScanFilter
) -> IndexAnswers:
    """Query the indexes of files.

    Parameters
    ----------
    worth_asking : bool array [entries]
        Those that statistics leave.

    Returns
    -------
    IndexAnswers

    Raises
    ------
    StorageError
        The storage failed.
    """
    may_hold_key, may_match = np.ones((2, entries.num_rows), dtype=bool)
    asked, key = parts.rest, parts.key
    if asked is None or not context.options.get(declared.FILE_INDEX_READ_ENABLED):
        return IndexAnswers(may_hold_key, may_match)
    rows = np.flatnonzero(worth_asking & _has_index(entries))
    if not len(rows):
        return IndexAnswers(may_hold_key, may_match)

    def answer(entry: tuple[int, DataFileMeta]) -> tuple[bool, bool, str]:
        row, file = entry
        partition = entries.partitions[int(entries["partition_id"][row])]
        try:
            ruled_out = _question(context, partition, int(entries["bucket"][row]), file)
            by_key = key is not None and ruled_out(key)
            return not by_key, not by_key and not ruled_out(asked), ""
        except (CorruptError, NotFoundError, UnsupportedError) as error:
            return True, True, error.message

    files = entries.take(rows).files()
    answers = list(context.env.executor.map(answer, zip(rows.tolist(), files, strict=True)))
    may_hold_key[rows] = [by_key for by_key, _, _ in answers]
    may_match[rows] = [by_value for _, by_value, _ in answers]
    unused = tuple(
        UnusedIndex(file.file_name, fault)
        for file, (_, _, fault) in zip(files, answers, strict=True)
        if fault
    )
    return IndexAnswers(may_hold_key, may_match, unused)


def _has_index(entries: EntryTable) -> Mask:
    """Find the files that may have an index: extra files need not be indexes."""
    extra = pc.greater(pc.list_value_length(entries["extra_files"]), 0)
    found = pc.or_(pc.is_valid(entries["embedded_index"]), pc.fill_null(extra, False))
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _question(
    context: ReadContext, partition: bytes, bucket: int, file: DataFileMeta
) -> Callable[[Predicate], bool]:
    """Return a test of whether a file has no row for a predicate."""
    source: bytes | str
    if file.embedded_index is not None:
        source = file.embedded_index
    else:
        names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
        if not names:
            return lambda _: False
        if len(names) > 1:
            message = f"Data file '{file.file_name}' has {len(names)} index files, not one."
            raise CorruptError(message, kind="file_index")
        source = context.paths.data_file(partition, bucket, names[0])
    schema = context.file_schema(file.schema_id, file_name=file.file_name)

    def ruled_out(predicate: Predicate) -> bool:
        rows = indexed_rows(
            predicate,
            source,
            context.fileio,
            fields=context.schema.fields,
            file_fields=schema.fields,
            row_count=file.row_count,
        )
        return rows is False

    return ruled_out
