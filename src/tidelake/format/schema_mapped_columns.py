"""Finds columns in files without field ids, by the schema that the file was written with.

1. The file's own schema (the table's schema that it was written with) has the name, type and id of
   each column in the file. With it, wanted columns are found and cast as in a Parquet file
   (:mod:`tidelake.format.field_id_mapping`).
2. If the schema is unknown, columns are found by ids in the file itself (ORC), else by name.
3. System columns have the same name in every file.

Source: Paimon's ``FormatReaderMapping`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.format.field_id_mapping import ColumnOrigin, cast_column, map_schema
from tidelake.format.field_schema import parquet_arrow_schema
from tidelake.format.file_reader import ReadRequest
from tidelake.format.read_error import corrupt
from tidelake.format.system_fields import is_system_name
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_schema


def check_no_variant(fields: Sequence[DataField], *, file_format: str) -> None:
    """Refuse variants, which Paimon writes to Parquet files only.

    Raises
    ------
    UnsupportedError
        Names the column, and what to do.
    """
    for field in fields:
        if _holds_variant(field.type):
            message = (
                f"Column '{field.name}' of type {field.type} cannot be read from or written to"
                f" {file_format} files, which cannot hold VARIANT, not even in Java: set"
                " 'file.format' to 'parquet'."
            )
            raise UnsupportedError(message, kind="column_type", column=field.name)


def _holds_variant(data_type: DataType) -> bool:
    return data_type.root is TypeRoot.VARIANT or any(map(_holds_variant, data_type.children))


class OwnColumns:
    """The wanted columns of a file.

    Parameters
    ----------
    ids : mapping of int to str, optional
        Names by field id, if the file has ids.

    Raises
    ------
    CorruptError
        The file lacks a NOT NULL column or one that its schema has, or has a name twice.
    UnsupportedError
        A column's type in the file cannot become the wanted one without loss.
    """

    def __init__(
        self, request: ReadRequest, names: Sequence[str], *, ids: Mapping[int, str] | None = None
    ) -> None:
        self._path = request.path
        if len(set(names)) != len(names):
            raise corrupt(request.path, "two of its columns have the same name")
        own = {f.name: f for f in _own_fields(request, frozenset(names), ids or {})}
        self._sources = map_schema(
            parquet_arrow_schema(tuple(own.values())),
            request.fields,
            path=request.path,
            file_fields=request.file_fields,
        )
        wanted = dict.fromkeys(s.file_name for s in self._sources if s.file_name is not None)
        self.fields: tuple[DataField, ...] = tuple(own[name] for name in wanted)
        """The columns to read, with the types of the file's own schema."""
        self._schema = to_arrow_schema(request.fields)

    def wanted(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """Convert the columns read, by name and in the file's types, to the wanted ones."""
        arrays = [_wanted(source, columns, rows, self._path) for source in self._sources]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _wanted(
    source: ColumnOrigin, columns: Mapping[str, pa.Array], rows: int, path: str
) -> pa.Array:
    if source.file_name is None:
        return pa.nulls(rows, source.target)
    return cast_column(columns[source.file_name], source, path=path)


def _own_fields(
    request: ReadRequest, names: frozenset[str], ids: Mapping[int, str]
) -> Iterator[DataField]:
    """List the known columns of the file, with their names there."""
    system = [f for f in request.fields if is_system_name(f.name)]
    if request.file_fields:
        known = [f for f in request.file_fields if not is_system_name(f.name)]
    elif ids:
        known = [replace(f, name=ids[f.id]) for f in request.fields if f.id in ids]
    else:
        known = [f for f in request.fields if not is_system_name(f.name)]
    yield from (f for f in (*system, *known) if f.name in names)
