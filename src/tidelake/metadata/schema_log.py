"""The schemas of a table: ``schema/schema-<N>``, N from 0, written once each.

There is no hint: the newest schema is the largest number of the listing, and, as a listing may be
old, the numbers after it are tried. Source: ``docs/format/schema.md``.
"""

from __future__ import annotations

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.snapshot import JSON_BYTES_MAX, numbered
from tidelake.types import TableSchema

__all__ = ["SchemaLog"]

SCHEMAS_MAX = 100_000


class SchemaLog:
    """The schemas of one table.

    Parameters
    ----------
    fileio : FileIO
        The storage.
    paths : TablePaths
        The table's paths.
    """

    def __init__(self, fileio: FileIO, paths: TablePaths) -> None:
        self._fileio = fileio
        self._paths = paths

    def ids(self) -> list[int]:
        """Numbers of the schema files, ascending."""
        names = (status.name for status in self._fileio.list_dir(self._paths.schema_dir))
        return sorted(i for name in names if (i := numbered(name, "schema-")) is not None)

    def latest_id(self) -> int | None:
        """Number of the newest schema; None where there is none."""
        newest = max(self.ids(), default=-1)
        for _ in range(SCHEMAS_MAX):
            if not self._fileio.exists(self._paths.schema(newest + 1)):
                break
            newest += 1
        return None if newest < 0 else newest

    def latest(self) -> TableSchema | None:
        """The newest schema; None where there is no table."""
        latest_id = self.latest_id()
        return None if latest_id is None else self.load(latest_id)

    def load(self, schema_id: int) -> TableSchema:
        """Read one schema.

        Raises
        ------
        NotFoundError
            There is no such schema.
        CorruptError
            Its file is damaged.
        """
        path = self._paths.schema(schema_id)
        try:
            data = self._fileio.read_bytes(path)
        except NotFoundError as error:
            message = (
                f"Table {self._paths.location} has no schema {schema_id}; it has {self.ids()}."
            )
            raise NotFoundError(message, kind="schema_not_found", schema=schema_id) from error
        if len(data) > JSON_BYTES_MAX:
            message = (
                f"Schema file {path} has {len(data)} bytes: it is no schema. Restore it from a"
                " backup."
            )
            raise CorruptError(message, kind="schema_file", path=path)
        schema = TableSchema.from_json(data, path=path)
        if schema.id != schema_id:
            message = (
                f"Schema file {path} says it is schema {schema.id}: it was put there. Restore the"
                " right one from a backup."
            )
            raise CorruptError(message, kind="schema_file", path=path)
        return schema

    def create(self, schema: TableSchema) -> bool:
        """Write a schema under its id; False, and nothing done, if the id is taken."""
        path = self._paths.schema(schema.id)
        return self._fileio.put_if_absent(path, schema.to_json().encode())
