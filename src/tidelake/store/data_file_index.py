"""The indexes of one data file being written: built with its rows, stored by the options.

Indexes of at most ``file-index.in-manifest-threshold`` bytes go into the manifest. Larger ones go
into ``<data file>.index`` beside the data file; the data file's entry names it, and it is deleted
with the data file. It is complete before the data file is.

Source: Paimon's ``DataFileIndexWriter`` (1.3.1).
"""

from __future__ import annotations

from typing import TypedDict

import pyarrow as pa

from tidelake.format.file_index import INDEX_SUFFIX, FileIndexWriter
from tidelake.options.declared import FILE_INDEX_IN_MANIFEST_THRESHOLD
from tidelake.options.file_index import file_index_settings
from tidelake.store.context import StoreContext


class IndexParts(TypedDict):
    """The fields of a data file's entry about its indexes."""

    extra_files: tuple[str, ...]
    embedded_index: bytes | None


class DataFileIndex:
    """The index builder; without file indexes in the table it builds nothing."""

    def __init__(self, context: StoreContext, name: str, path: str) -> None:
        self._context = context
        self._name = name + INDEX_SUFFIX
        self._path = path + INDEX_SUFFIX
        settings = file_index_settings(context.options)
        self._writer = FileIndexWriter(context.schema.fields, settings) if settings else None

    @property
    def buffered_bytes(self) -> int:
        """Bytes held in memory that grow with the rows."""
        return 0 if self._writer is None else self._writer.buffered_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, as the data file does."""
        if self._writer is not None:
            self._writer.add(rows)

    def finish(self) -> IndexParts:
        """Build the indexes; an index file is complete when this returns."""
        if self._writer is None:
            return IndexParts(extra_files=(), embedded_index=None)
        container = self._writer.finish()
        if len(container) <= self._context.options.get(FILE_INDEX_IN_MANIFEST_THRESHOLD):
            return IndexParts(extra_files=(), embedded_index=container)
        out = self._context.fileio.open_output(self._path)
        try:
            out.write(container)
            out.close()
        finally:
            out.abort()
        return IndexParts(extra_files=(self._name,), embedded_index=None)
