"""Builds the indexes of one data file while it is written.

Rows come in batches, in the order of the file. Bloom filters hash whole columns, bitmaps sort them
once at the end of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.format.file_index.bitmap import BITMAP, bitmap_covers, serialize_bitmap
from tidelake.format.file_index.bloom_filter import (
    BLOOM_FILTER,
    BloomFilterWriter,
    bloom_covers,
    bloom_shape,
)
from tidelake.format.file_index.container import serialize
from tidelake.format.file_index.distinct import DistinctRows, DistinctValues
from tidelake.format.file_index.index_key import IndexKeyForm, key_form
from tidelake.format.file_index.range_bitmap import (
    RANGE_BITMAP,
    default_chunk_size,
    range_bitmap_covers,
    serialize_range_bitmap,
)
from tidelake.options.file_index import FileIndexSetting
from tidelake.types import DataField

_COVERS = {
    BLOOM_FILTER: bloom_covers,
    BITMAP: bitmap_covers,
    RANGE_BITMAP: range_bitmap_covers,
}


def check_file_indexes(fields: Sequence[DataField], settings: Sequence[FileIndexSetting]) -> None:
    """Check that a table's columns can have the indexes of its options.

    Raises
    ------
    InvalidInputError
        A column does not exist, or a setting has a wrong value.
    UnsupportedError
        Paimon has no such index for the column's type.
    """
    by_name = {f.name: f for f in fields}
    for setting in settings:
        _check_form(setting, by_name)
        match setting.kind:
            case "bloom-filter":
                bloom_shape(setting.items, setting.fpp)
            case "bitmap":
                assert setting.version, "checked by reading it"
                assert setting.block_size >= 0, "checked by reading it"
            case _:
                assert setting.chunk_size(0) >= 0, "checked by reading it"


def _check_form(setting: FileIndexSetting, by_name: dict[str, DataField]) -> IndexKeyForm:
    key = f"file-index.{setting.kind}.columns"
    field = by_name.get(setting.column)
    if field is None:
        message = (
            f"Table {setting.table}: option '{key}' names the column '{setting.column}', which"
            f" does not exist.{near_names(setting.column, by_name)}"
        )
        raise InvalidInputError(message, kind="column_not_found", column=setting.column, option=key)
    form = key_form(field.type)
    if form is None or not _COVERS[setting.kind](form):
        message = (
            f"Table {setting.table}: option '{key}' names the column '{setting.column}' of type"
            f" {field.type.as_nullable()}, for which Paimon has no {setting.kind} index. Remove the"
            " column from the option."
        )
        raise UnsupportedError(message, kind="column_type", column=setting.column, option=key)
    return form


class FileIndexWriter:
    """Collects the values for the indexes of one data file.

    Raises
    ------
    InvalidInputError, UnsupportedError
        See :func:`check_file_indexes`.
    """

    def __init__(self, fields: Sequence[DataField], settings: Sequence[FileIndexSetting]) -> None:
        check_file_indexes(fields, settings)
        by_name = {f.name: f for f in fields}
        self._settings = tuple(settings)
        self._forms = {s.column: _check_form(s, by_name) for s in settings}
        self._filters = {
            s.column: BloomFilterWriter(self._forms[s.column], items=s.items, fpp=s.fpp)
            for s in settings
            if s.kind == BLOOM_FILTER
        }
        self._distinct = {
            s.column: DistinctRows(self._forms[s.column])
            for s in settings
            if s.kind in (BITMAP, RANGE_BITMAP)
        }

    @property
    def buffered_bytes(self) -> int:
        """Bytes in memory, which grow with the rows."""
        return sum(distinct.size_bytes for distinct in self._distinct.values())

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; finds columns by name."""
        for column, bloom in self._filters.items():
            bloom.add(rows.column(column))
        for column, distinct in self._distinct.items():
            distinct.add(rows.column(column))

    def finish(self) -> bytes:
        """Return the container of all indexes."""
        found = {column: distinct.finish() for column, distinct in self._distinct.items()}
        indexes: dict[str, dict[str, bytes]] = {}
        for setting in self._settings:
            body = self._body(setting, found)
            if body is not None:
                indexes.setdefault(setting.column, {})[setting.kind] = body
        return serialize(indexes)

    def _body(self, setting: FileIndexSetting, found: dict[str, DistinctValues]) -> bytes | None:
        form = self._forms[setting.column]
        if setting.kind == BLOOM_FILTER:
            return self._filters[setting.column].finish()
        distinct = found[setting.column]
        if setting.kind == BITMAP:
            return serialize_bitmap(
                form, distinct, version=setting.version, block_size=setting.block_size
            )
        if not len(distinct.keys):
            return None  # Java 1.3.1 loses the rows of a file whose range bitmap has no value
        return serialize_range_bitmap(
            form, distinct, chunk_size=setting.chunk_size(default_chunk_size(form))
        )
