"""The schemas of a table: ``schema/schema-<N>``, N from 0, written once each.

There is no hint: the newest schema is the largest number of the listing. Because a listing may be
old, the numbers after it are tried. Source: ``docs/format/schema.md``.

A table that was dropped and recreated begins with schema 0 and the same field ids. A reader of the
old table distinguishes them by the schema it opened (:meth:`SchemaLog.check_same`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from tidelake.errors import CorruptError, NotFoundError, StorageError, TidelakeError
from tidelake.fileio import FileIO, OpenDirectory, put_new
from tidelake.metadata.at_once import at_once
from tidelake.metadata.paths import TablePaths, numbered
from tidelake.telemetry import Executor
from tidelake.types import TableSchema

SCHEMAS_MAX = 100_000
_MISSING = frozenset({"file_not_found", "directory_not_found"})


class SchemaLog:
    """The schemas of one table."""

    def __init__(self, fileio: FileIO, paths: TablePaths) -> None:
        self._fileio = fileio
        self._paths = paths

    def names(self) -> list[str]:
        """Names of all files in the directory of the schemas."""
        return [status.name for status in self._fileio.list_dir(self._paths.schema_dir)]

    def ids(self) -> list[int]:
        """Numbers of the schema files, ascending."""
        return _ids(self.names())

    def latest_id(self, names: Iterable[str] | None = None) -> int | None:
        """Number of the newest schema; None if there is none."""
        newest = max(_ids(self.names() if names is None else names), default=-1)
        for _ in range(SCHEMAS_MAX):
            if not self._is_there(newest + 1):
                break
            newest += 1
        return None if newest < 0 else newest

    def _is_there(self, schema_id: int) -> bool:
        """Whether a schema exists, by one request: a directory would take another."""
        try:
            self._fileio.size(self._paths.schema(schema_id))
        except NotFoundError:
            return False
        return True

    def latest(self) -> TableSchema | None:
        """The newest schema; None if there is no table."""
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
        schema = TableSchema.from_json(data, path=path)
        if schema.id != schema_id:
            message = (
                f"Schema file {path} contains schema {schema.id}: it was moved there. Restore the"
                " right one from a backup."
            )
            raise CorruptError(message, kind="schema_file", path=path)
        return schema

    def load_all(self, reads: Executor) -> dict[int, TableSchema]:
        """Read all schemas of a listing, by id; of a remote storage, side by side."""
        ids = self.ids()
        calls = [partial(self.load, schema_id) for schema_id in ids]
        return dict(zip(ids, at_once(self._fileio, reads, calls), strict=True)) if ids else {}

    def check_same(self, opened: TableSchema, *, table: str) -> TableSchema:
        """Refuse a table that is not the one that was opened; reads one small file.

        Returns
        -------
        TableSchema
            The stored schema.

        Raises
        ------
        NotFoundError
            It was dropped, and perhaps recreated.
        """
        try:
            stored = self.load(opened.id)
        except NotFoundError as error:
            if self.ids():
                raise _recreated(table) from error
            raise dropped(table) from error
        check_same_table(stored, opened, table=table)
        return stored

    def create(self, schema: TableSchema, *, within: OpenDirectory | None = None) -> bool:
        """Write a schema under its id; False, and nothing done, if the id is taken.

        Parameters
        ----------
        within : OpenDirectory, optional
            The open directory of schemas: the file is written there or nowhere. Without it the
            table's directory is created too.

        Raises
        ------
        NotFoundError
            The open directory was removed.
        """
        path, data = self._paths.schema(schema.id), schema.to_json().encode()
        return put_new(self._fileio, path, data, within=within)


def _ids(names: Iterable[str]) -> list[int]:
    return sorted(i for name in names if (i := numbered(name, "schema-")) is not None)


def check_same_table(stored: TableSchema, opened: TableSchema, *, table: str) -> None:
    """Refuse a schema file that is not the one that a table was opened with.

    Options do not count: one use may set other options.

    Raises
    ------
    NotFoundError
        The table was dropped and recreated.
    """
    if _marks(stored) != _marks(opened):
        raise _recreated(table)


def dropped(table: str) -> NotFoundError:
    """The error for a table without schemas."""
    message = f"Table '{table}' has no schema any more: it was dropped or renamed meanwhile."
    return NotFoundError(message, kind="table_not_found", table=table)


@contextmanager
def names_drop(fileio: FileIO, paths: TablePaths, *, table: str) -> Iterator[None]:
    """Let the error of a missing file or directory say that the table was dropped, if it was.

    The schemas are looked at after such an error alone.

    Raises
    ------
    NotFoundError
        The table has no schema any more.
    """
    try:
        yield
    except (NotFoundError, StorageError) as error:
        if _says_missing(error) and _has_no_schema(fileio, paths):
            raise dropped(table) from error
        raise


def _says_missing(error: TidelakeError) -> bool:
    if isinstance(error, NotFoundError):
        return error.kind in _MISSING
    # a directory that was removed while its new names were made durable
    return error.kind == "storage" and isinstance(error.__cause__, FileNotFoundError)


def _has_no_schema(fileio: FileIO, paths: TablePaths) -> bool:
    """Whether the table is gone; False if the storage does not say."""
    try:
        return SchemaLog(fileio, paths).latest_id() is None
    except TidelakeError:
        return False


def _marks(schema: TableSchema) -> tuple[object, ...]:
    return schema.id, schema.fields, schema.partition_keys, schema.primary_keys, schema.time_ms


def _recreated(table: str) -> NotFoundError:
    message = f"Table '{table}' was dropped and recreated since it was opened: open it again."
    return NotFoundError(message, kind="table_recreated", table=table)
