"""Reads the indexes of one data file that a predicate needs.

1. The container comes from the manifest or from a file beside the data file. The head of such a
   file is read first, then the indexes of the predicate's columns.
2. The container has the column names of the data file's schema. The field of the same id in the
   current schema has the predicate's name. A column whose type has changed since then, or whose
   kind of index is unknown, counts as one without an index.
3. No fault of an index gives wrong rows. If an index is visibly damaged, or its file is missing,
   the read logs it and does without. A checksum in our files finds hidden damage; Java's indexes
   have none.

Source: Paimon's ``FileIndexEvaluator`` and ``FileIndexPredicate`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.format.file_index.bit_slice import BSI, bsi_covers, bsi_rows
from tidelake.format.file_index.bitmap import BITMAP, BitmapReader, bitmap_covers
from tidelake.format.file_index.bloom_filter import BLOOM_FILTER, BloomFilterReader, bloom_covers
from tidelake.format.file_index.container import (
    FIXED_SIZE,
    FileIndexEntry,
    head_size,
    parse_head,
)
from tidelake.format.file_index.evaluate import ColumnIndex, IndexedColumn, matching_rows
from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm, key_form
from tidelake.format.file_index.range_bitmap import (
    RANGE_BITMAP,
    RangeBitmapReader,
    range_bitmap_covers,
)
from tidelake.format.file_index.rows import Rows
from tidelake.format.read_error import reading
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

INDEX_SUFFIX = ".index"
"""Suffix of the names of index files."""
_COVERS: Mapping[str, Callable[[IndexKeyForm], bool]] = {
    BLOOM_FILTER: bloom_covers,
    BITMAP: bitmap_covers,
    BSI: bsi_covers,
    RANGE_BITMAP: range_bitmap_covers,
}
ROWS_MAX = 1 << 26
"""The most rows of a file whose index is used: a number for each row takes memory."""
FIRST_READ_BYTES = 4_096
"""Bytes of an index file in the first read: nearly always the whole head, and small indexes."""


def indexed_rows(
    predicate: Predicate,
    source: bytes | str,
    fileio: FileIO,
    *,
    fields: Sequence[DataField],
    file_fields: Sequence[DataField],
    row_count: int,
) -> Rows:
    """Find the rows of a data file that may satisfy a predicate, by its indexes.

    Parameters
    ----------
    predicate : Predicate
        Bound to `fields`.

    Returns
    -------
    Rows
        No other row satisfies the predicate.

    Raises
    ------
    NotFoundError
        The file does not exist.
    CorruptError
        An index that the predicate needs is damaged, or belongs to another data file.
    UnsupportedError
        The index is of a later version.

    Notes
    -----
    Thread-safe; the file is closed when this returns.
    """
    if row_count > ROWS_MAX:
        return True
    if isinstance(source, bytes):
        with pa.BufferReader(source) as container:
            return _asked(container, predicate, fields, file_fields, row_count)
    with reading(source), fileio.open_input(source) as container:
        return _asked(container, predicate, fields, file_fields, row_count)


def list_indexes(source: bytes | str, fileio: FileIO) -> tuple[FileIndexEntry, ...]:
    """List the indexes of a container; parameters and errors as in :func:`indexed_rows`."""
    if isinstance(source, bytes):
        with pa.BufferReader(source) as container:
            return _Container(container).entries
    with reading(source), fileio.open_input(source) as container:
        return _Container(container).entries


def _asked(
    container: pa.NativeFile,
    predicate: Predicate,
    fields: Sequence[DataField],
    file_fields: Sequence[DataField],
    row_count: int,
) -> Rows:
    columns = _Columns(_Container(container), fields, file_fields, row_count)
    return matching_rows(predicate, columns.find)


class _Container:
    """A container in an open file or in memory."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._first = file.read(FIRST_READ_BYTES)
        head = self.read(0, head_size(self._first[:FIXED_SIZE]))
        self.entries = parse_head(head)

    def read(self, start: int, length: int) -> bytes:
        """Read a range of bytes."""
        have = self._first[start : start + length]
        if len(have) == length:
            return have
        if length > self._file.size() - start:
            message = "A file index is damaged: it is cut off."
            raise CorruptError(message, kind="file_index")
        self._file.seek(start + len(have))
        rest: bytes = self._file.read(length - len(have))
        return have + rest


class _Columns:
    """The indexes of the predicate's columns, each read once."""

    def __init__(
        self,
        container: _Container,
        fields: Sequence[DataField],
        file_fields: Sequence[DataField],
        row_count: int,
    ) -> None:
        self._container = container
        self._row_count = row_count
        self._fields = {f.name: f for f in fields}
        self._file_fields = {f.id: f for f in file_fields}
        self._found: dict[str, IndexedColumn | None] = {}

    def find(self, name: str) -> IndexedColumn | None:
        """Find the indexes of a column by its current name."""
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def _read(self, name: str) -> IndexedColumn | None:
        field = self._fields[name]
        own = self._file_fields.get(field.id)
        if own is None or own.type.as_nullable() != field.type.as_nullable():
            return None
        form = key_form(own.type)
        if form is None:
            return None
        indexes = [
            index
            for entry in self._container.entries
            if entry.column == own.name and entry.start >= 0
            for index in self._open(entry, form)
        ]
        return (form, indexes) if indexes else None

    def _open(self, entry: FileIndexEntry, form: IndexKeyForm) -> list[ColumnIndex]:
        """Read one index; None if its kind is unknown or does not cover the type."""
        covers = _COVERS.get(entry.kind)
        if covers is None or not covers(form):
            return []
        data = entry.check(self._container.read(entry.start, entry.length))
        if entry.kind == BLOOM_FILTER:
            return [_Bloom(BloomFilterReader(form, data))]
        if entry.kind == BITMAP:
            return [BitmapReader(form, data, self._row_count)]
        if entry.kind == BSI:
            return [bsi_rows(data, self._row_count)]
        return [RangeBitmapReader(form, data, self._row_count)]


class _Bloom:
    """A bloom filter as an index: it only rules keys out."""

    def __init__(self, reader: BloomFilterReader) -> None:
        self._reader = reader

    def equal(self, keys: Sequence[IndexKey]) -> bool:
        return self._reader.may_hold(keys)

    def between(self, low: IndexKey | None, high: IndexKey | None) -> None:
        """Return None: a filter does not answer for ranges."""

    def nulls(self) -> None:
        """Return None: a filter does not answer for nulls."""
