"""Opens a warehouse: chooses the kind of its catalog, the memory and the storage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelake.catalog import rest
from tidelake.catalog.catalog import Catalog
from tidelake.catalog.catalog_options import CatalogRequest, CatalogType, chosen_type
from tidelake.catalog.filesystem import FilesystemMetastore
from tidelake.catalog.hive import (
    GLUE_OPTIONS,
    HIVE_OPTIONS,
    glue_metastore,
    hive_metastore,
)
from tidelake.catalog.jdbc import JDBC_OPTIONS, PROPERTY_PREFIX, JdbcMetastore, jdbc_metastore
from tidelake.catalog.upkeep.maintenance_job import MaintenanceRound
from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio import FileIO
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage, split_options
from tidelake.options import memory_bytes, table_defaults
from tidelake.table.upkeep import TablePlan
from tidelake.telemetry import MEMORY_BYTES_MIN, Env, Memory

TABLE_DEFAULT = "table-default."


def open_catalog(
    warehouse: str | Path | None = None,
    *,
    catalog: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    storage: Mapping[str, object] | None = None,
    env: Env | None = None,
    fileio: FileIO | None = None,
) -> Catalog:
    """Open a warehouse; the first table creates a missing directory.

    Parameters
    ----------
    warehouse : str or Path
        A directory, or a URI such as ``s3://bucket/prefix``. It may stand in `catalog` instead.
    catalog : mapping, optional
        The kind of the catalog and its options, by Paimon's names: ``{"type": "filesystem"}``, the
        default, or ``{"type": "jdbc", "uri": "jdbc:sqlite:/catalog.db"}``. See
        ``docs/catalogs.md``.
    options : mapping, optional
        Options of the catalog: ``{"table-default.bucket": 4}`` is the default of an option of new
        tables.
    memory : int or str, optional
        Bytes, or a size such as ``"256 mb"``, 64 mb or more. It limits what writes, reads,
        compactions and plans use in this process, without the interpreter and the caller's rows. By
        default only ``write-buffer-size`` limits memory. Shares are defined in
        :class:`tidelake.telemetry.Memory`: an eighth each for the rows of a writer (unless a table
        sets ``write-buffer-size``), for a row group being written and for decoded manifests; a
        sixteenth for the rows of a merge, and one for what is fetched early of a remote storage;
        and a quarter for the pages of a merge's files. Rows that do not fit are spilled to the
        local disk. One task runs at a time per 512 mb, four at most.
    storage : mapping, optional
        How to reach an object store, by Paimon's names: ``{"s3.endpoint": ..., "s3.access-key":
        ..., "s3.secret-key": ...}``; and whether to keep what is read of it on the local disk:
        ``{"local-cache.enabled": "true", "local-cache.dir": "/cache"}``. They may stand in
        `catalog` instead. See ``docs/storage.md``.
    env : Env, optional
        Clock, ids, executor; the system's by default.
    fileio : FileIO, optional
        The storage; that of the warehouse's URI by default.

    Raises
    ------
    InvalidInputError
        The memory is no size, or too small; the catalog has no such kind or option.
    StorageError
        The database or server of the catalog does not answer.

    Examples
    --------
    >>> import tempfile, tidelake, pyarrow as pa
    >>> catalog = tidelake.open(tempfile.mkdtemp())
    >>> t = catalog.create_table("demo.t", pa.schema({"k": pa.int64(), "v": pa.string()}),
    ...                          primary_keys=["k"], options={"bucket": 1})
    >>> _ = t.write([{"k": 1, "v": "a"}, {"k": 1, "v": "b"}])
    >>> t.to_arrow().to_pylist()
    [{'k': 1, 'v': 'b'}]
    """
    world = env or Env.system()
    if memory is not None:
        world = world.with_memory(_memory(memory))
    given, reached = split_options(catalog or {})
    defaults = {key: given.pop(key) for key in list(given) if str(key).startswith(TABLE_DEFAULT)}
    chosen, named, settings = chosen_type(given, CATALOG_TYPES)
    if warehouse is not None and named is not None and str(warehouse) != named:
        message = f"The warehouse is given twice, as '{warehouse}' and as '{named}': give one."
        raise InvalidInputError(message, kind="warehouse")
    request = CatalogRequest(
        named if warehouse is None else _text(warehouse),
        settings,
        world,
        fileio,
        {**reached, **(storage or {})},
    )
    return Catalog(
        chosen.make(request),
        env=world,
        table_options=table_defaults({**defaults, **(options or {})}),
    )


def maintain(
    warehouse: str | Path | None = None,
    *tables: str,
    catalog: Mapping[str, object] | None = None,
    storage: Mapping[str, object] | None = None,
    memory: int | str | None = None,
    **job: Any,
) -> MaintenanceRound | tuple[TablePlan, ...]:
    """Keep the tables of a warehouse healthy, until it is interrupted.

    Parameters
    ----------
    warehouse, catalog, storage, memory
        As of :func:`tidelake.open`.
    *tables : str
        ``"database.table"``, ``"database.*"`` or ``"*.*"``, which is the default.
    **job
        ``interval``, ``rounds``, ``seconds``, ``dry_run``, ``options`` and ``watch`` of
        :meth:`tidelake.Catalog.maintain`.

    Returns
    -------
    MaintenanceRound or tuple of TablePlan
        As of :meth:`tidelake.Catalog.maintain`, with its errors.

    Examples
    --------
    >>> import tempfile
    >>> maintain(tempfile.mkdtemp(), rounds=1).looked_count
    0
    """
    opened = open_catalog(warehouse, catalog=catalog, storage=storage, memory=memory)
    return opened.maintain(*tables, **job)


def _filesystem(request: CatalogRequest) -> FilesystemMetastore:
    return FilesystemMetastore(
        _warehouse_path(request.warehouse), fileio=_storage(request), ids=request.env.ids
    )


def _storage(request: CatalogRequest) -> FileIO:
    if request.fileio is not None:
        return request.fileio
    return open_storage(parse_location(request.warehouse), request.storage, request.env)


def _jdbc(request: CatalogRequest) -> JdbcMetastore:
    return jdbc_metastore(
        _warehouse_path(request.warehouse), request.options, _storage(request), request.env
    )


CATALOG_TYPES = (
    CatalogType("filesystem", (), (), _filesystem),
    CatalogType("jdbc", JDBC_OPTIONS, (PROPERTY_PREFIX,), _jdbc),
    CatalogType("hive", HIVE_OPTIONS, (), hive_metastore),
    CatalogType("glue", GLUE_OPTIONS, (), glue_metastore),
    CatalogType("rest", rest.OPTIONS, rest.PREFIXES, rest.rest_metastore),
)
"""The kinds of catalogs."""


def _memory(given: object) -> Memory:
    try:
        total_bytes = memory_bytes(given)
    except ValueError as error:
        message = f"memory is {shortened(repr(given))} but must be {error}."
        raise InvalidInputError(message, kind="memory") from error
    if total_bytes < MEMORY_BYTES_MIN:
        message = (
            f"memory is {shortened(repr(given))}, {total_bytes} bytes, too small for a row group"
            f" and the pages of a few files: give {MEMORY_BYTES_MIN >> 20} mb or more."
        )
        raise InvalidInputError(message, kind="memory")
    return Memory.of(total_bytes)


def _text(warehouse: object) -> str:
    if not isinstance(warehouse, (str, Path)):
        message = f"Warehouse {shortened(repr(warehouse))} is not a path: give a local directory."
        raise InvalidInputError(message, kind="warehouse")
    return str(warehouse)


def _warehouse_path(text: str | None) -> str:
    if not text:
        message = (
            "The catalog has no 'warehouse': give the directory of its tables."
            if text is None
            else "The warehouse's path is empty: give a local directory."
        )
        raise InvalidInputError(message, kind="warehouse", option="warehouse")
    return parse_location(text).path
