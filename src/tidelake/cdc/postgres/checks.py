"""What stands in the way of reading a database's log: :func:`find_faults`.

Each fault comes with the statement that mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidelake.cdc.postgres.catalogue import STORED, CatalogueTable
from tidelake.cdc.postgres.connection import quote_name
from tidelake.cdc.postgres.publication import Publication, publication, quoted, statements
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.cdc.postgres.slot import FAILOVER_VERSION, slot_state
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.source_table import OldRows, SourceTable
from tidelake.types import TypeRoot

VERSION_MIN = 140000
"""Of the server: messages in the log, and ranges of ctid, came with 14."""
_SETTINGS = """
SELECT current_setting('wal_level'), current_setting('max_replication_slots')::int,
  (SELECT count(*) FROM pg_replication_slots), current_setting('max_wal_senders')::int,
  (SELECT count(*) FROM pg_stat_replication), pg_is_in_recovery(),
  (SELECT bool_or(rolname = current_user AND (rolreplication OR rolsuper)
      OR rolname = 'rds_replication' AND pg_has_role(current_user, oid, 'MEMBER')) FROM pg_roles),
  current_setting('server_encoding'),
  current_setting('max_slot_wal_keep_size')
"""
_TABLES = """
SELECT c.oid::int8, has_table_privilege(c.oid, 'SELECT'), c.relpersistence = 'u',
  pg_has_role(c.relowner, 'USAGE'), (c.relkind = 'p' OR c.reltoastrelid <> 0) AND EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attstorage IN ('x', 'e', 'm')),
  c.relrowsecurity
FROM pg_class c WHERE c.oid::int8 = ANY (%(oids)s::int8[])
"""


def find_faults(
    connection: Any,
    settings: PostgresSettings,
    tables: Sequence[SourceTable],
    catalogue: Mapping[str, CatalogueTable],
) -> list[SourceFinding]:
    """Look at the server and the tables.

    Parameters
    ----------
    catalogue : mapping of str to CatalogueTable
        By :attr:`SourceTable.identity`.
    """
    found = publication(connection, settings.publication)
    version = connection.info.server_version
    facts = connection.execute(_TABLES, {"oids": [int(t.identity) for t in tables]}).fetchall()
    by_table = {str(oid): rest for oid, *rest in facts}
    findings = list(_of_server(connection, settings))
    findings += _of_publication(settings, found)
    if found is None:
        owned = {table: rights[2] for table in tables if (rights := by_table.get(table.identity))}
        findings += _of_new_publication(connection, settings, owned)
    for table in tables:
        now, rights = catalogue.get(table.identity), by_table.get(table.identity)
        if now is None or rights is None:
            message = f"The table {table.name} is no longer there."
            findings.append(SourceFinding("table_missing", message, table=str(table.name)))
            continue
        findings += _of_rights(settings, table, rights, found)
        findings += _of_identity(table, now, has_large=rights[3])
        findings += _of_columns(table, now, found, version, settings.publication)
        findings += _of_column_list(settings, table, found)
    return findings


def _of_server(connection: Any, settings: PostgresSettings) -> Iterator[SourceFinding]:
    version = connection.info.server_version
    row = connection.execute(_SETTINGS).fetchone()
    level, slots_max, slots, senders_max, senders, is_standby, may, encoding, keep = row
    role = quote_name(settings.username)
    if version < VERSION_MIN:
        yield SourceFinding(
            "version", f"PostgreSQL {version // 10000} is too old; 14 is the oldest read."
        )
    if level != "logical":
        mend = "ALTER SYSTEM SET wal_level = 'logical'; then restart the server"
        yield SourceFinding("wal_level", f"wal_level is '{level}': rows are not in the log.", mend)
    if is_standby:
        message = "The server is a standby; a publication and a slot are made on the primary."
        yield SourceFinding("standby", message, "hostname=<the primary>")
    if not may:
        mend = f"ALTER ROLE {role} REPLICATION"
        yield SourceFinding("replication_right", f"The role {role} may not replicate.", mend)
    if encoding != "UTF8":
        message = f"The database's encoding is {encoding}; texts that are not UTF-8 would fail."
        yield SourceFinding("encoding", message, is_error=encoding == "SQL_ASCII")
    state = slot_state(connection, settings.slot)
    if state is None and slots >= slots_max:
        mend = f"ALTER SYSTEM SET max_replication_slots = {slots_max + 4}; then restart the server"
        yield SourceFinding("slots_full", f"All {slots_max} replication slots are in use.", mend)
    if senders >= senders_max:
        mend = f"ALTER SYSTEM SET max_wal_senders = {senders_max + 4}; then restart the server"
        yield SourceFinding("senders_full", f"All {senders_max} WAL senders are in use.", mend)
    if state is not None and (state.plugin, state.database) != ("pgoutput", settings.database):
        message = (
            f"The slot '{settings.slot}' is of plugin '{state.plugin}' and database"
            f" '{state.database}'; it is another program's."
        )
        yield SourceFinding("slot_of_other", message, "slot.name=<another name>")
    if state is not None and state.wal_status == "lost":
        message = f"The server threw away the log that the slot '{settings.slot}' needs."
        mend = "--on-lost-position resnapshot"
        yield SourceFinding("slot_lost", message, mend, is_lost_position=True)
    if settings.failover and version < FAILOVER_VERSION:
        message = "slot.failover needs PostgreSQL 17; this server cannot keep slots on standbys."
        yield SourceFinding("failover", message, "slot.failover=false")
    if keep == "-1":
        message = "The log that a stopped job holds has no limit and may fill the server's disk."
        mend = "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'"
        yield SourceFinding("wal_keep_unlimited", message, mend, is_error=False)


def _of_new_publication(
    connection: Any, settings: PostgresSettings, owned: Mapping[SourceTable, bool]
) -> Iterator[SourceFinding]:
    """Look whether the role may make the publication; if not, one statement makes it whole.

    Parameters
    ----------
    owned : mapping of SourceTable to bool
        Whether the role owns each table.
    """
    name = settings.publication
    [may_make] = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE')"
    ).fetchone()
    others = [str(table.name) for table, is_owned in owned.items() if not is_owned]
    why = ["the role may not make one"] if not may_make else []
    if others:
        why.append(f"only the owner may publish {', '.join(others)}")
    # a table without an identity must not be in it
    published = [table.name for table in owned if table.keys or table.old_rows is OldRows.ALL]
    if why and published:
        message = f"There is no publication '{name}': {', and '.join(why)}."
        wanted = statements(None, name, published, connection.info.server_version)
        yield SourceFinding("publication_right", message, wanted[0])


def _of_publication(
    settings: PostgresSettings, found: Publication | None
) -> Iterator[SourceFinding]:
    name = settings.publication
    if found is None:
        return
    if found.is_for_all:
        message = (
            f"The publication '{name}' is FOR ALL TABLES: an UPDATE of any table without a replica"
            " identity fails in the application."
        )
        yield SourceFinding("publication_for_all", message, is_error=False)
    if not found.has_all_changes or not found.has_truncates:
        message = f"The publication '{name}' leaves out some kinds of changes."
        mend = (
            f"ALTER PUBLICATION {quote_name(name)} SET"
            " (publish = 'insert, update, delete, truncate')"
        )
        yield SourceFinding("publication_kinds", message, mend)
    if not found.is_by_root:
        message = f"The publication '{name}' sends partitions under their own names."
        mend = f"ALTER PUBLICATION {quote_name(name)} SET (publish_via_partition_root = true)"
        yield SourceFinding("publication_root", message, mend, is_error=False)
    for schema, table in found.filtered:
        message = f"The publication '{name}' sends only some rows of {schema}.{table}."
        full = f"{settings.database}.{schema}.{table}"
        yield SourceFinding("publication_filter", message, is_error=False, table=full)


def _of_rights(
    settings: PostgresSettings,
    table: SourceTable,
    rights: Sequence[bool],
    found: Publication | None,
) -> Iterator[SourceFinding]:
    may_read, is_unlogged, is_owner, _, has_policies = rights
    name, role = str(table.name), quote_name(settings.username)
    if not may_read:
        mend = f"GRANT SELECT ON {quoted(table.name)} TO {role}"
        yield SourceFinding(
            "select_right", f"The role {role} may not read {name}.", mend, table=name
        )
    if is_unlogged:
        message = f"{name} is UNLOGGED: its changes are in no log."
        mend = f"ALTER TABLE {quoted(table.name)} SET LOGGED"
        yield SourceFinding("unlogged", message, mend, table=name)
    if has_policies and not is_owner:
        message = f"{name} has row security: the first copy may not see all rows."
        mend = f"ALTER ROLE {role} BYPASSRLS"
        yield SourceFinding("row_security", message, mend, is_error=False, table=name)
    is_in = found is not None and (
        found.is_for_all or (table.name.schema, table.name.table) in found.tables
    )
    if found is not None and not is_in and not is_owner:
        message = f"Only the owner of {name} may add it to the publication."
        mend = (
            f"ALTER PUBLICATION {quote_name(settings.publication)} ADD TABLE {quoted(table.name)}"
        )
        yield SourceFinding("publication_right", message, mend, table=name)


def _of_identity(
    table: SourceTable, now: CatalogueTable, *, has_large: bool
) -> Iterator[SourceFinding]:
    name, sql = str(table.name), quoted(table.name)
    if not table.keys:
        message = f"{name} has no primary key."
        if table.old_rows is OldRows.NOTHING:
            message += " In a publication its UPDATEs and DELETEs would fail in the application."
            mend = (
                f"ALTER TABLE {sql} ADD PRIMARY KEY (...); or ALTER TABLE {sql} REPLICA IDENTITY"
                " FULL, with --primary_keys or --keyless append"
            )
            yield SourceFinding("no_primary_key", message, mend, table=name)
        else:
            mend = f"ALTER TABLE {sql} ADD PRIMARY KEY (...), or --primary_keys"
            yield SourceFinding("no_primary_key", message, mend, is_error=False, table=name)
        return
    if table.old_rows is OldRows.NOTHING:
        said = "NOTHING" if now.replica_identity == "n" else "an index without the whole key"
        message = f"The replica identity of {name} is {said}: a DELETE does not name its row."
        mend = f"ALTER TABLE {sql} REPLICA IDENTITY DEFAULT"
        yield SourceFinding("replica_identity", message, mend, table=name)
    elif table.old_rows is OldRows.KEYS and has_large:
        message = (
            f"{name} may have values that are stored out of line. One that an UPDATE leaves"
            " alone is not in the log; it is taken from our table, which costs a look-up."
        )
        mend = f"ALTER TABLE {sql} REPLICA IDENTITY FULL"
        yield SourceFinding("unchanged_values", message, mend, is_error=False, table=name)


def _of_column_list(
    settings: PostgresSettings, table: SourceTable, found: Publication | None
) -> Iterator[SourceFinding]:
    listed = found.columns.get((table.name.schema, table.name.table)) if found else None
    left = [] if listed is None else [c.name for c in table.columns if c.name not in listed]
    if left:
        message = (
            f"The publication '{settings.publication}' leaves columns of {table.name} out:"
            f" {', '.join(left)}."
        )
        name = quote_name(settings.publication)
        sql = quoted(table.name)
        mend = (
            f"ALTER PUBLICATION {name} DROP TABLE {sql}; ALTER PUBLICATION {name} ADD TABLE {sql}"
        )
        yield SourceFinding("publication_columns", message, mend, table=str(table.name))


def _of_columns(
    table: SourceTable,
    now: CatalogueTable,
    found: Publication | None,
    version: int,
    publication_name: str,
) -> Iterator[SourceFinding]:
    name = str(table.name)
    for column in table.columns:
        if column.type is None:
            message = f"{name}: the type {column.native_type} of '{column.name}' has no type here."
            mend = "--type_mapping unknown-to-string"
            yield SourceFinding("column_type", message, mend, table=name)
        elif column.type.root is TypeRoot.TIME and (column.type.precision or 0) > 3:
            message = f"{name}: '{column.name}' keeps milliseconds; finer digits are cut."
            column_sql = f"{quote_name(column.name)} TYPE time(3)"
            mend = f"ALTER TABLE {quoted(table.name)} ALTER COLUMN {column_sql}"
            yield SourceFinding("time_digits", message, mend, is_error=False, table=name)
    sent = {column.name for column in table.columns}
    for left in now.columns:
        if left.generated and not left.is_dropped and left.name not in sent:
            message = (
                f"{name}: the generated column '{left.name}' is not in the log; it is left out."
            )
            mend = ""
            if left.generated == STORED and version >= 180000 and found is not None:
                mend = (
                    f"ALTER PUBLICATION {quote_name(publication_name)} SET"
                    " (publish_generated_columns = stored)"
                )
            yield SourceFinding("generated_column", message, mend, is_error=False, table=name)
            if now.replica_identity == "f" and version >= 180000:
                message = (
                    f"{name} has REPLICA IDENTITY FULL and the generated column '{left.name}' that"
                    " is not published: its UPDATEs would fail in the application."
                )
                mend = f"ALTER TABLE {quoted(table.name)} REPLICA IDENTITY DEFAULT"
                yield SourceFinding("generated_in_identity", message, mend, table=name)
