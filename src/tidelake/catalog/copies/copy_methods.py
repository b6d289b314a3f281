"""Methods of a catalog that make tables of files that exist."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelake.catalog.copies.clone import CloneRequest, CloneResult, clone
from tidelake.catalog.copies.migrate import MigrateRequest, MigrateResult, TargetTable, migrate
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import Metastore
from tidelake.errors import InvalidInputError
from tidelake.fileio import FileIO
from tidelake.fileio.location import parse_location
from tidelake.fileio.name import validate_name
from tidelake.fileio.opening import open_storage
from tidelake.table import SystemTable, Table, TableHandle
from tidelake.table.job.plan import HERE, Runner
from tidelake.telemetry import Env
from tidelake.types import TableSchema


class CopyMethods(abc.ABC):
    """Methods of :class:`tidelake.catalog.Catalog`."""

    env: Env

    @property
    @abc.abstractmethod
    def fileio(self) -> FileIO:
        """The storage of the warehouse."""

    @property
    @abc.abstractmethod
    def metastore(self) -> Metastore:
        """Knows which databases and tables there are."""

    @abc.abstractmethod
    def first_schema(
        self,
        identifier: str,
        schema: object,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> TableSchema:
        """Return the first schema of a new table."""

    @abc.abstractmethod
    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table."""

    def clone_table(
        self,
        source: str | Table,
        target: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        where: object = None,
        history: bool = False,
        dry_run: bool = False,
        runner: Runner = HERE,
    ) -> CloneResult:
        """Copy a table into a new one of this catalog, or into an empty one like it.

        Parameters
        ----------
        source : str or Table
            ``"database.table"``, one of its branches, or a table of another catalog.
        target : str
            The name of the new table; or of one without snapshots that has the same columns, keys
            and layout.
        snapshot, tag : optional
            The snapshot's id or the tag to copy; the newest snapshot by default.
        where : str or filter, optional
            A condition on partition columns: only these partitions.
        history : bool
            Whether to copy all snapshots, changelogs and tags.
        dry_run : bool
            Whether to say only what would be copied.
        runner : Runner
            What copies files: this process, or executors.

        Returns
        -------
        CloneResult
            How many files the copy has, and what of the source it does not have.

        Raises
        ------
        AlreadyExistsError
            The target exists, and is not empty or not alike.
        NotFoundError
            There is no such table, snapshot or tag.
        CorruptError
            The source lacks a file; nothing was done.
        InvalidInputError, UnsupportedError
            An argument is wrong, or the source has what this version cannot write.

        Notes
        -----
        On one file system files are hard links, in one store the store copies them, and else they
        are read and written. After a failure there is no new table; in one that existed files may
        stay as orphans.

        Examples
        --------
        >>> import tempfile, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", {"k": "int64"})
        >>> _ = table.write([{"k": 1}])
        >>> done = catalog.clone_table("db.t", "db.copy")
        >>> done.files_count, done.linked_count, catalog.table("db.copy").to_arrow().to_pylist()
        (1, 1, [{'k': 1}])
        """
        name = Identifier.of(target)
        validate_name(name.database, "database")
        handle = self._source(source)
        if snapshot is not None and tag is not None:
            message = f"Give one of snapshot and tag: each names a moment of '{handle.identifier}'."
            raise InvalidInputError(message, kind="two_moments", table=handle.identifier)
        moment = snapshot if tag is None else tag
        return clone(
            self.metastore,
            handle,
            name,
            CloneRequest(moment, history, where),
            open_target=lambda: self._source(str(name)),
            runner=runner,
            dry_run=dry_run,
        )

    def migrate_table(  # noqa: PLR0913 - what tells one source from others
        self,
        kind: str,
        source: str | Path,
        target: str,
        *,
        options: Mapping[str, object] | None = None,
        partition_types: Mapping[str, str] | None = None,
        storage: Mapping[str, object] | None = None,
        delete_origin: bool = False,
        dry_run: bool = False,
        runner: Runner = HERE,
    ) -> MigrateResult:
        """Make a table of another format a new table of this catalog, without reading its rows.

        Parameters
        ----------
        kind : {'parquet', 'hive', 'delta', 'iceberg'}
            A directory of Parquet files; that of a Hive-style table, with directories such as
            ``day=2024-01-01``; a Delta or an Iceberg table.
        source : str or Path
            Its directory: a path or a URI. Of an Iceberg table a ``*.metadata.json`` does, too.
        target : str
            The name of the new table: an append table without buckets.
        options : mapping, optional
            Options of the new table.
        partition_types : mapping of str to str, optional
            Types of partition columns of a Hive-style table; what its values suggest by default.
        storage : mapping, optional
            How to reach the source's storage, if it is not the catalog's: ``{"s3.endpoint": ...}``.
        delete_origin : bool
            Whether to delete the source's directory at the end.
        dry_run : bool
            Whether to say only what would be done.
        runner : Runner
            What copies files where they cannot be linked.

        Returns
        -------
        MigrateResult
            Rows, files and partition columns of the table.

        Raises
        ------
        AlreadyExistsError
            The target exists.
        NotFoundError
            The source has no file.
        InvalidInputError, UnsupportedError
            A file or the source has what a table cannot take as it is; nothing was written.

        Notes
        -----
        On one file system files are hard links, so the source stays as it is. After a failure there
        is no new table, and the source is unchanged.
        """
        name = Identifier.of(target)
        validate_name(name.database, "database")
        location = parse_location(source, what="Source")
        fileio = self.fileio
        if self.fileio.uri_of(location.path) != str(location):
            fileio = open_storage(location, storage, self.env)
        return migrate(
            self.metastore,
            fileio,
            name,
            MigrateRequest(
                kind, location.path.rstrip("/"), options or {}, partition_types or {}, delete_origin
            ),
            new=TargetTable(self.first_schema, lambda: self._source(str(name))),
            env=self.env,
            runner=runner,
            dry_run=dry_run,
        )

    def _source(self, given: str | Table) -> TableHandle:
        found = self.table(given) if isinstance(given, str) else given
        if not isinstance(found, Table):
            message = f"'{given}' is a system table: name the table itself."
            raise InvalidInputError(message, kind="system_table", table=str(given))
        return found.handle
