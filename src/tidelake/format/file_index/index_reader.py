"""The indexes of one data file, read as far as a predicate asks.

1. The container comes from the manifest or from a file beside the data file. Of such a file the
   head is read first, then the indexes of the columns that the predicate names.
2. Columns are known by their names in the schema of the data file; the current schema's field of
   the same id tells under which name the predicate asks. A column whose type has changed since, or
   that has another index than those known here, has none.
3. An index can be wrong in three ways, none of which gives wrong rows: damage that shows (it is not
   used, and said), a missing file (the same), damage that does not show. Against the last there is
   a checksum in what is written here; Java's indexes have none.

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
    IndexEntry,
    head_size,
    parse_head,
)
from tidelake.format.file_index.evaluate import ColumnIndex, IndexedColumn, matching_rows
from tidelake.format.file_index.index_key import IndexKey, KeyForm, key_form
from tidelake.format.file_index.range_bitmap import (
    RANGE_BITMAP,
    RangeBitmapReader,
    range_bitmap_covers,
)
from tidelake.format.file_index.rows import Rows
from tidelake.format.read_error import reading
from tidelake.types import DataField
from tidelake.types.predicate import Predicate

__all__ = ["INDEX_SUFFIX", "indexed_rows", "list_indexes"]

INDEX_SUFFIX = ".index"
"""What the name of an index file ends with."""
_COVERS: Mapping[str, Callable[[KeyForm], bool]] = {
    BLOOM_FILTER: bloom_covers,
    BITMAP: bitmap_covers,
    BSI: bsi_covers,
    RANGE_BITMAP: range_bitmap_covers,
}
ROWS_MAX = 1 << 26
"""Rows of a file above which its index is not asked: a number per row would take too much."""
FIRST_READ_BYTES = 4_096
"""Bytes of an index file read at first: nearly always the whole head, and small indexes too."""


def indexed_rows(
    predicate: Predicate,
    source: bytes | str,
    fileio: FileIO,
    *,
    fields: Sequence[DataField],
    file_fields: Sequence[DataField],
    row_count: int,
) -> Rows:
    """Give the rows of a data file that may satisfy a predicate, by its indexes.

    Parameters
    ----------
    predicate : Predicate
        Bound to `fields`.
    source : bytes or str
        The container, or the path of the file that holds it.
    fileio : FileIO
        Where that file is.
    fields : sequence of DataField
        The table's current columns.
    file_fields : sequence of DataField
        The columns of the schema that the data file was written with.
    row_count : int
        Rows of the data file.

    Returns
    -------
    Rows
        No other row satisfies the predicate.

    Raises
    ------
    NotFoundError
        There is no such file.
    CorruptError
        An index that the predicate asks is damaged, or is not of this data file.
    UnsupportedError
        It is of a later version.

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


def list_indexes(source: bytes | str, fileio: FileIO) -> tuple[IndexEntry, ...]:
    """Give which indexes a container holds; parameters and errors as of :func:`indexed_rows`."""
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
    """A container behind an open file; reads what is asked for."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._first = file.read(FIRST_READ_BYTES)
        head = self.read(0, head_size(self._first[:FIXED_SIZE]))
        self.entries = parse_head(head)

    def read(self, start: int, length: int) -> bytes:
        """Read a range."""
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
    """The indexes of the columns that a predicate names, each read once."""

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
        """The indexes of a column by its current name."""
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

    def _open(self, entry: IndexEntry, form: KeyForm) -> list[ColumnIndex]:
        """Read one index; none where its kind is not known or does not know the type."""
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
    """A bloom filter as an index: it knows only what is surely not there."""

    def __init__(self, reader: BloomFilterReader) -> None:
        self._reader = reader

    def equal(self, keys: Sequence[IndexKey]) -> bool:
        return self._reader.may_hold(keys)

    def between(self, low: IndexKey | None, high: IndexKey | None) -> None:
        """Nothing is known of ranges."""

    def nulls(self) -> None:
        """Nothing is known of nulls."""
