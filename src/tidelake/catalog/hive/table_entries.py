"""The entry of a table, as Java's HiveCatalog writes it.

1. Columns have Hive's types. They are all among the columns, unless ``metastore.partitioned-table``
   is set: then the partition columns stand apart, as Hive wants them.
2. Parameters: ``table_type`` = ``PAIMON``, the storage handler, the comment, and all options of the
   table with its keys, unless ``sync-all-properties`` = ``false``: then those of Hive alone.
3. The location is the directory of the table, or with ``location-in-properties`` the parameter
   ``paimon_location``.

Source: ``HiveCatalog.createHiveTable`` and ``updateHmsTable`` (2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidelake.catalog.hive.hive_types import hive_type
from tidelake.catalog.hive.register import EXTERNAL, MANAGED, DatabaseEntry, HiveColumn, TableEntry
from tidelake.catalog.identifier import Identifier
from tidelake.errors import UnsupportedError
from tidelake.options import Options, declared
from tidelake.types import DataField, TableSchema

TABLE_TYPE, PAIMON = "table_type", "PAIMON"
STORAGE_HANDLER = "storage_handler"
HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
LOCATION = "paimon_location"
COMMENT = "comment"
EXTERNAL_FLAG = "EXTERNAL"
HIVE_PREFIX = "hive."
COMMENT_LENGTH_MAX = 255
"""Longest comment of a column in a metastore's own database, and in Glue."""
TAG_TO_PARTITION = "metastore.tag-to-partition"
_CUT = "..."
ALWAYS_SHOWN = ("partition.expiration-time", "data-file.path-directory")
"""Options that other products look for in an entry, whatever ``sync-all-properties`` says."""


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """How a catalog writes its entries.

    Parameters
    ----------
    external : bool
        Whether new tables are external ones.
    """

    location_in_properties: bool = False
    sync_all_properties: bool = True
    external: bool = False

    # ---- where things lie

    def location_of(self, entry: TableEntry | DatabaseEntry) -> str | None:
        """The URI of a table or a database."""
        own = entry.parameters.get(LOCATION) if self.location_in_properties else None
        return own or entry.location

    def database(self, name: str, location: str) -> DatabaseEntry:
        """The entry of a new database."""
        if self.location_in_properties:
            return DatabaseEntry(name, None, {LOCATION: location})
        return DatabaseEntry(name, location)

    def at(self, entry: TableEntry, location: str) -> TableEntry:
        """An entry with another location."""
        if self.location_in_properties:
            return replace(entry, parameters={**entry.parameters, LOCATION: location})
        return replace(entry, location=location)

    # ---- what a table is

    def is_external(self, schema: TableSchema) -> bool:
        """Whether the files of a new table stay when it is dropped."""
        external = self.external or schema.options.get(declared.PATH.key) is not None
        return external or _flag(schema.options).lower() == "true"

    def table(
        self,
        name: Identifier,
        schema: TableSchema,
        location: str,
        *,
        owner: str | None,
        now_ms: int,
    ) -> TableEntry:
        """The entry of a new table.

        Raises
        ------
        UnsupportedError
            The table wants its tags as partitions of Hive.
        """
        external = self.is_external(schema)
        columns, partition_keys = _columns(schema, table=str(name))
        parameters = {
            **self._shown(schema),
            TABLE_TYPE: PAIMON,
            STORAGE_HANDLER: HANDLER,
            **({EXTERNAL_FLAG: "TRUE"} if external else {}),
            **({} if schema.comment is None else {COMMENT: schema.comment}),
        }
        entry = TableEntry(
            name.database,
            name.table,
            None,
            columns,
            partition_keys,
            parameters,
            EXTERNAL if external else MANAGED,
            owner=owner,
            created_s=now_ms // 1000,
        )
        return self.at(entry, location)

    def changed(self, entry: TableEntry, old: TableSchema, new: TableSchema) -> TableEntry:
        """An entry after a change of its table's schema; parameters of others stay."""
        columns, partition_keys = _columns(new, table=f"{entry.database}.{entry.name}")
        gone = self._shown(old).keys() - self._shown(new).keys()
        parameters = {k: v for k, v in entry.parameters.items() if k not in gone}
        parameters |= self._shown(new)
        if new.comment is not None:
            parameters[COMMENT] = new.comment
        elif old.comment is not None:
            parameters.pop(COMMENT, None)
        return replace(entry, columns=columns, partition_keys=partition_keys, parameters=parameters)

    def by_schema(self, entry: TableEntry, schema: TableSchema) -> TableEntry:
        """An entry by its table's schema alone; parameters that are no options stay."""
        known = {"primary-key", "partition", "bucket-key", COMMENT, *declared.BY_KEY}
        own = {key: value for key, value in entry.parameters.items() if key not in known}
        return self.changed(replace(entry, parameters=own), schema, schema)

    def _shown(self, schema: TableSchema) -> dict[str, str]:
        """The options and keys that an entry shows."""
        options = schema.options
        if not self.sync_all_properties:
            always = (key for key in ALWAYS_SHOWN if key in options)
            hives = (key for key in options if key.startswith(HIVE_PREFIX))
            return {key: options[key] for key in (*always, *hives)}
        keys = {
            "primary-key": schema.primary_keys,
            "partition": schema.partition_keys,
            "bucket-key": schema.bucket_keys,
        }
        return {**options, **{key: ",".join(names) for key, names in keys.items() if names}}


def _flag(options: Mapping[str, str]) -> str:
    return options.get("external") or options.get(EXTERNAL_FLAG) or ""


def is_partitioned(schema: TableSchema) -> bool:
    """Whether the metastore knows the partitions of a table."""
    options = Options.parse(schema.options)
    return bool(schema.partition_keys) and options.get(declared.METASTORE_PARTITIONED_TABLE)


def _columns(
    schema: TableSchema, *, table: str
) -> tuple[tuple[HiveColumn, ...], tuple[HiveColumn, ...]]:
    """Columns and partition columns."""
    if schema.options.get(TAG_TO_PARTITION):
        message = (
            f"Table '{table}' has 'metastore.tag-to-partition', which shows its tags to Hive as"
            " partitions, and this version cannot: leave the option out."
        )
        raise UnsupportedError(message, kind="tag_to_partition", table=table)
    apart = schema.partition_keys if is_partitioned(schema) else ()
    own = (_column(f, normal=True) for f in schema.fields if f.name not in apart)
    return tuple(own), tuple(_column(schema.field(name), normal=False) for name in apart)


def _column(field: DataField, *, normal: bool) -> HiveColumn:
    comment = field.description
    if comment is not None and normal:
        comment = comment.replace("\n", " ").replace("\r", " ")
        if len(comment) > COMMENT_LENGTH_MAX:
            comment = comment[: COMMENT_LENGTH_MAX - len(_CUT)] + _CUT
    return HiveColumn(field.name, hive_type(field.type), comment)


def names_of(entries: Iterable[TableEntry]) -> list[str]:
    """Names of entries, sorted."""
    return sorted(entry.name for entry in entries)
