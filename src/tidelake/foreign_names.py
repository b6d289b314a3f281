"""Names that users of Delta, Iceberg and pypaimon know, and what to write here instead.

A missing attribute of a table, a catalog, a scan or the package is looked up here: one that others
have gets an ``AttributeError`` that names the call to make. The page "Names from elsewhere" shows
the same tables. A name that the class has itself stands in none of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

DELTA, ICEBERG, PYPAIMON = "Delta", "pyiceberg", "pypaimon"
FRAMES = "pandas or Polars"
OTHERS = "others"
"""The origin of a name that is common, and of no library."""


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A name, who has it, and what to write here.

    Parameters
    ----------
    instead : str
        What to write here, with Python between backticks; a sentence where no call takes its place.
    """

    name: str
    origin: str
    instead: str


def _by_name(*lines: tuple[str, str, str]) -> Mapping[str, ForeignName]:
    """Tables of lines: names with spaces between them, who has them, what to write."""
    found = {
        name: ForeignName(name, origin, instead)
        for names, origin, instead in lines
        for name in names.split()
    }
    assert len(found) == sum(len(names.split()) for names, _, _ in lines), "a name stands twice"
    return MappingProxyType(found)


_SYSTEM_TABLE = "`table.system_table('{}').to_arrow()`"

OF_TABLE = _by_name(
    # rows
    ("to_pyarrow_table", DELTA, "`table.to_arrow()`"),
    (
        "to_pyarrow_dataset",
        DELTA,
        "`table.to_batches()` streams; `table.scan(where=)` prunes files",
    ),
    ("toDF", DELTA, "`table.to_pandas()`; on Spark `spark.table()` or `tl.table()`"),
    ("load_as_version", DELTA, "`table.scan(snapshot_id=)`, `(tag=)` or `(timestamp=)`"),
    ("load_cdf", DELTA, "`table.changes(start, end)`"),
    ("incremental_append_scan", ICEBERG, "`table.changes(start, end, mode='delta')`"),
    ("to_daft to_bodo", ICEBERG, "`table.to_arrow()`"),
    ("new_read_builder", PYPAIMON, "`table.scan(columns=, where=, limit=).to_arrow()`"),
    ("new_stream_read_builder", PYPAIMON, "`table.stream()`, `table.follow()`"),
    ("to_arrow_batch_reader", PYPAIMON, "`table.to_batches()`"),
    ("to_ray to_torch", PYPAIMON, "`table.to_batches()`"),
    ("read read_all to_table collect rows", OTHERS, "`table.to_arrow()`, `table.to_batches()`"),
    ("to_df", FRAMES, "`table.to_pandas()`, `table.to_polars()`"),
    ("to_pylist to_dicts to_list", FRAMES, "`table.to_arrow().to_pylist()`"),
    ("filter select where query", FRAMES, "`table.scan(where=, columns=)`"),
    ("columns", FRAMES, "`table.schema.names`"),
    ("num_rows shape size", FRAMES, "`table.count()`"),
    # writes
    ("merge", DELTA, "`table.upsert(rows)`; with conditions `tl.merge()` or `MERGE INTO` on Spark"),
    ("dynamic_partition_overwrite", ICEBERG, "`table.overwrite(rows)`"),
    ("add_files", ICEBERG, "`table.append(reader)`, for any Arrow reader of the files"),
    ("transaction", ICEBERG, "`table.writer()`, a with block that commits once"),
    ("new_batch_write_builder", PYPAIMON, "`table.write(rows)`, `table.writer()`"),
    (
        "new_stream_write_builder",
        PYPAIMON,
        "`table.write(rows, commit_user=, commit_identifier=)` writes once",
    ),
    ("insert insert_into add save", OTHERS, "`table.append(rows)`, `table.upsert(rows)`"),
    ("delete_where delete_rows", OTHERS, "`table.delete('k > 1')`"),
    # versions
    ("version", DELTA, "`table.latest_snapshot_id`"),
    ("restore", DELTA, "`table.rollback_to(snapshot_id)`"),
    ("current_snapshot latest_snapshot", ICEBERG, "`table.latest_snapshot_id`, `table.history()`"),
    ("snapshots snapshot_by_id", ICEBERG, "`table.history()`"),
    ("snapshot_by_name refs", ICEBERG, "`table.tags.list()`"),
    ("snapshot_as_of_timestamp", ICEBERG, "`table.scan(timestamp=)`"),
    ("manage_snapshots", ICEBERG, "`table.tags.create(name)`, `table.rollback_to(snapshot_id)`"),
    ("rollback rollback_to_snapshot", ICEBERG, "`table.rollback_to(snapshot_id)`"),
    (
        "create_branch",
        ICEBERG,
        "`table.branches.create(name)`, `table.branches.create(name, snapshot_id=)`",
    ),
    ("refresh", ICEBERG, "Not needed: every call reads the newest snapshot."),
    ("update_incremental", DELTA, "Not needed: every call reads the newest snapshot."),
    # upkeep
    (
        "vacuum",
        DELTA,
        "`table.maintenance.expire_snapshots()`, which also removes files that only these need",
    ),
    ("optimize z_order", DELTA, "`table.compact()`"),
    (
        "create_checkpoint cleanup_metadata",
        DELTA,
        "`table.maintenance.compact_manifests()`, seldom",
    ),
    ("repair", DELTA, "`table.rollback_to(snapshot_id)` leaves a snapshot whose files are lost"),
    ("rewrite_data_files", ICEBERG, "`table.compact()`"),
    ("rewrite_manifests", ICEBERG, "`table.maintenance.compact_manifests()`"),
    (
        "remove_orphan_files",
        PYPAIMON,
        "`table.maintenance.remove_orphan_files()`, or `catalog.remove_orphan_files('db.*')`",
    ),
    ("expire_snapshots", PYPAIMON, "`table.maintenance.expire_snapshots()`"),
    ("expire_changelogs", PYPAIMON, "`table.maintenance.expire_changelogs()`"),
    ("purge_files", PYPAIMON, "`table.maintenance.purge_files()`"),
    ("compact_manifests", PYPAIMON, "`table.maintenance.compact_manifests()`"),
    ("sync_iceberg", OTHERS, "`table.maintenance.sync_iceberg()`"),
    ("create_tag", PYPAIMON, "`table.tags.create(name)`"),
    ("rename_tag", PYPAIMON, "`table.tags.rename(name, new_name)`"),
    ("replace_tag", PYPAIMON, "`table.tags.replace(name)`"),
    ("delete_tag", PYPAIMON, "`table.tags.delete(name)`"),
    ("list_tags", PYPAIMON, "`table.tags.list()`"),
    ("analyze", OTHERS, "`table.maintenance.analyze()`"),
    ("update_statistics", ICEBERG, "`table.maintenance.analyze()`"),
    # what it is
    ("table_uri", DELTA, "`table.location`"),
    ("metadata protocol detail", DELTA, "`table.table_schema`, `table.options`"),
    ("files file_uris get_add_actions", DELTA, _SYSTEM_TABLE.format("files")),
    ("partitions", DELTA, _SYSTEM_TABLE.format("partitions")),
    ("deletion_vectors", DELTA, _SYSTEM_TABLE.format("table_indexes")),
    ("inspect", ICEBERG, "`table.history()`, `table.system_table('files').to_arrow()` and others"),
    ("metadata_location", ICEBERG, "`table.location`, `table.maintenance.sync_iceberg()`"),
    ("properties", ICEBERG, "`table.options`"),
    ("format_version", ICEBERG, "`table.options`"),
    ("schemas", ICEBERG, _SYSTEM_TABLE.format("schemas")),
    ("spec specs", ICEBERG, "`table.partition_keys`"),
    ("sort_order sort_orders", ICEBERG, "`table.primary_keys`"),
    ("table_path", PYPAIMON, "`table.location`"),
    ("snapshot_manager", PYPAIMON, "`table.history()`"),
    ("schema_manager", PYPAIMON, _SYSTEM_TABLE.format("schemas")),
    ("tag_manager", PYPAIMON, "`table.tags.list()`, `table.tags.create(name)`"),
    ("info describe", FRAMES, "`print(table)`"),
    # changes of the definition
    ("add_columns", DELTA, "`table.add_column(name, type)`"),
    ("set_table_properties", DELTA, "`table.set_options({...})`"),
    (
        "update_schema",
        ICEBERG,
        "`table.add_column(name, type)`, `table.drop_column(name)` and others",
    ),
    ("update_spec", ICEBERG, "Partition columns never change: make a new table."),
    (
        "update_sort_order",
        ICEBERG,
        "`table.compact()`, which keeps files sorted by the primary key",
    ),
    ("set_properties", ICEBERG, "`table.set_options({...})`"),
    ("rename drop", FRAMES, "`catalog.rename_table(name, new_name)`, `catalog.drop_table(name)`"),
)
"""Of :class:`tidelake.Table`."""

OF_CATALOG = _by_name(
    ("get_table", PYPAIMON, "`catalog.table(name)`"),
    ("get_database", PYPAIMON, "`catalog.list_tables(database)`"),
    ("alter_database", PYPAIMON, "Properties of databases are set by Paimon's own engines."),
    ("open_table read_table load", OTHERS, "`catalog.table(name)`"),
    ("tables table_names", OTHERS, "`catalog.list_tables(database)`"),
    ("databases", OTHERS, "`catalog.list_databases()`"),
    ("exists has_table", OTHERS, "`catalog.table_exists(name)`"),
    ("close", OTHERS, "Not needed: a catalog may simply be dropped."),
    ("sql query", OTHERS, "`tl.sql(text)` on Spark, or the program `tidelake sql`"),
    ("create_namespace create_schema", ICEBERG, "`catalog.create_database(name)`"),
    (
        "create_namespace_if_not_exists",
        ICEBERG,
        "`catalog.create_database(name, if_exists='ignore')`",
    ),
    ("list_namespaces", ICEBERG, "`catalog.list_databases()`"),
    ("namespace_exists", ICEBERG, "`catalog.database_exists(name)`"),
    ("drop_namespace", ICEBERG, "`catalog.drop_database(name, cascade=)`"),
    (
        "load_namespace_properties update_namespace_properties",
        ICEBERG,
        "Databases have no properties: `table.set_options({...})` sets those of a table.",
    ),
    (
        "create_table_if_not_exists",
        ICEBERG,
        "`catalog.create_table(name, schema, if_exists='ignore')`",
    ),
    (
        "create_table_transaction",
        ICEBERG,
        "`catalog.create_table(name, schema)`, then `table.write(rows)`",
    ),
    ("purge_table", ICEBERG, "`catalog.drop_table(name)`, which deletes the files too"),
    ("register_table", ICEBERG, "`tidelake.open(warehouse)`, which lists its directories"),
    ("list_views", ICEBERG, "`catalog.views(database)`"),
    ("load_view", ICEBERG, "`catalog.view(name)`"),
    ("view_exists", ICEBERG, "`catalog.find_view(name)`, which is None without one"),
)
"""Of :class:`tidelake.Catalog`."""

OF_SCAN = _by_name(
    ("to_table to_pyarrow_table read read_all execute collect table", OTHERS, "`scan.to_arrow()`"),
    ("to_df", FRAMES, "`scan.to_pandas()`, `scan.to_polars()`"),
    ("to_pylist to_dicts to_list", FRAMES, "`scan.to_arrow().to_pylist()`"),
    ("num_rows shape size", FRAMES, "`len(scan)`"),
    ("to_arrow_batch_reader", ICEBERG, "`scan.reader()`"),
    ("to_batches", OTHERS, "`scan.reader()`, `scan.batches()`"),
    ("plan_files", ICEBERG, "`scan.plan.splits`, `table.explain()`"),
    (
        "filter select use_ref update",
        ICEBERG,
        "`table.scan(where=, columns=, snapshot_id=, tag=)`",
    ),
    ("projection", ICEBERG, "`scan.schema`"),
    ("to_ray", ICEBERG, "`scan.reader()`"),
    ("to_torch to_iterator", PYPAIMON, "`scan.batches()`"),
    ("splits", PYPAIMON, "`scan.plan.splits`"),
    ("new_scan new_read", PYPAIMON, "`scan.to_arrow()`, `scan.batches()`"),
    ("with_filter with_projection with_limit", PYPAIMON, "`table.scan(where=, columns=, limit=)`"),
)
"""Of :class:`tidelake.table.TableScan`."""

OF_PACKAGE = _by_name(
    (
        "query query_async",
        OTHERS,
        "`tidelake.lookup_client(warehouse, 'db.t')` for rows by key, `tl.sql` for SQL",
    ),
    ("DeltaTable", DELTA, "`tidelake.open(warehouse).table('db.t')`"),
    (
        "write_deltalake",
        DELTA,
        "`table.append(rows)`, `table.overwrite(rows)` of `tidelake.open(warehouse).table('db.t')`",
    ),
    ("convert_to_deltalake", DELTA, "`catalog.create_table(name, schema)`, `table.append(rows)`"),
    ("QueryBuilder", DELTA, "`table.to_duckdb()`, or SQL on Spark by `tidelake.spark`"),
    ("load_catalog", ICEBERG, "`tidelake.open(warehouse, catalog={...})`"),
    ("StaticTable", ICEBERG, "`tidelake.open(warehouse).table('db.t')`"),
    ("CatalogFactory", PYPAIMON, "`tidelake.open(warehouse, catalog={...})`"),
    (
        "Schema",
        PYPAIMON,
        "`pyarrow.schema(...)` or a dict, for `catalog.create_table(name, schema)`",
    ),
    ("Predicate PredicateBuilder", PYPAIMON, "`tidelake.col('v') > 1`"),
    ("load_table open_table read_table", OTHERS, "`tidelake.open(warehouse).table('db.t')`"),
    ("create_table", OTHERS, "`tidelake.open(warehouse).create_table(name, schema)`"),
    ("read write", OTHERS, "`tidelake.open(warehouse).table('db.t')`"),
)
"""Of the package ``tidelake``."""


def foreign_name_error(owner: str, found: ForeignName) -> AttributeError:
    """Make the error for a name that others have.

    Examples
    --------
    >>> print(foreign_name_error("Table", OF_TABLE["optimize"]))
    Table has no 'optimize', a name of Delta: use table.compact().
    >>> print(foreign_name_error("Table", OF_TABLE["refresh"]))
    Table has no 'refresh', a name of pyiceberg. Not needed: every call reads the newest snapshot.
    """
    whose = "" if found.origin == OTHERS else f", a name of {found.origin}"
    instead = found.instead.replace("`", "")
    said = f". {instead}" if instead[0].isupper() else f": use {instead}."
    # without `obj` Python adds no near name of its own, which may contradict the message
    return AttributeError(f"{owner} has no '{found.name}'{whose}{said}", name=found.name)


OF_SCAN_ARGUMENTS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("filter", "filters", "row_filter", "predicate", "condition"), "where")
    | dict.fromkeys(("selected_fields", "projection", "fields"), "columns")
    | dict.fromkeys(("version", "version_as_of", "snapshot"), "snapshot_id")
    | dict.fromkeys(("as_of", "timestamp_as_of"), "timestamp")
)
"""Arguments of reads that others have, and their names here."""


def with_hints(function: Callable[P, R]) -> Callable[P, R]:
    """Let a read that is given an argument of another library say how it is called here.

    Examples
    --------
    >>> @with_hints
    ... def scan(*, where=None):
    ...     return where
    >>> scan(filter="k > 1")
    Traceback (most recent call last):
        ...
    TypeError: scan() has no argument 'filter': use where=.
    """
    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*given: P.args, **named: P.kwargs) -> R:
        for name in named:
            here = OF_SCAN_ARGUMENTS.get(name)
            if here in own:
                message = f"{function.__name__}() has no argument '{name}': use {here}=."
                raise TypeError(message)
        return function(*given, **named)

    return checked


def missing_from_package(name: str) -> object:
    """The ``__getattr__`` of the package."""
    found = OF_PACKAGE.get(name)
    if found is None:
        raise AttributeError(f"module 'tidelake' has no attribute '{name}'", name=name)
    raise foreign_name_error("tidelake", found)


class AnswersForeignNames:
    """A class whose missing attributes say what to write instead."""

    __slots__ = ()

    _foreign_names: ClassVar[Mapping[str, ForeignName]] = MappingProxyType({})
    _inner_names: ClassVar[frozenset[str]] = frozenset()
    """Attributes for this package alone, which ``dir()`` and completion do not offer."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._inner_names]

    if not TYPE_CHECKING:  # for a type checker a misspelt name stays an error

        def __getattr__(self, name: str) -> object:
            # only what stands on the class is looked at: pickle and copy ask objects without state
            found = type(self)._foreign_names.get(name)
            if found is None:
                # Python's own error; that of a property whose body failed is raised as it was
                return object.__getattribute__(self, name)
            raise foreign_name_error(type(self).__name__, found)
