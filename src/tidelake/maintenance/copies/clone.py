"""The procedures that copy tables: copy (Paimon's on Spark) and clone (Paimon's on Flink)."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from tidelake.engine.jobs import CloneResult
from tidelake.engine.tables import Catalog, Table, open_catalog
from tidelake.errors import NotFoundError, TidelakeError, near_names
from tidelake.maintenance.parameters import DRY_RUN
from tidelake.maintenance.partition_text import pairs_of
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)
from tidelake.maintenance.result_schemas import MESSAGE

PAIMON, HIVE = "paimon", "hive"
_LOG = logging.getLogger("tidelake")
_ANSWER = pa.schema(
    [
        pa.field("result", pa.bool_()),
        pa.field("filesCount", pa.int64()),
        pa.field("totalBytes", pa.int64()),
    ]
)
"""Of a dry run the first is false. The last two columns are ours."""
_SNAPSHOT = optional(
    "snapshot", ParameterType.LONG, "The snapshot to copy; the newest by default.", is_ours=True
)
_TAG = optional("tag", ParameterType.STRING, "The tag to copy.", is_ours=True)
_HISTORY = optional(
    "history",
    ParameterType.BOOLEAN,
    "Copy all snapshots, changelogs and tags.",
    is_ours=True,
)


def _copied(call: ProcedureCall, catalog: Catalog, table: Table, target: str) -> CloneResult:
    return catalog.clone_table(
        table,
        target,
        snapshot=call["snapshot"],
        tag=call["tag"],
        where=call["where"] or None,
        history=bool(call["history"]),
        dry_run=bool(call["dry_run"]),
        runner=call.plan_runner,
    )


def _copy(call: ProcedureCall) -> Rows:
    catalog, source = call.named("source_table")
    target_catalog, target = call.named("target_table")
    done = _copied(call, target_catalog, call.data_table(catalog, source), target)
    return [(not done.dry_run, done.files_count, done.size_bytes)]


COPY = Procedure(
    "copy",
    (
        required("source_table", ParameterType.TABLE, "The table, `catalog.db.t` of another one."),
        required("target_table", ParameterType.TABLE, "The new table, or an empty one like it."),
        optional(
            "where",
            ParameterType.STRING,
            "A condition on partition columns: `dt > '2024-01-01'`.",
        ),
        _SNAPSHOT,
        _TAG,
        _HISTORY,
        DRY_RUN,
    ),
    _ANSWER,
    "Copies a table into a new one, or an empty one like it: files are linked where both lie on"
    " one file system, and else copied, on Spark's executors if there are any. (2.1, which also"
    " replaces partitions of a table that has rows, and lacks the last two columns.)",
    _copy,
    "copy(source_table => 'db.t', target_table => 'db.t_copy')",
)


def _clone(call: ProcedureCall) -> Rows:
    kind = (call["clone_from"] or PAIMON).lower()
    if kind != PAIMON:
        raise call.invalid(
            "clone_from", f"it is 'paimon', not '{kind}': tables of others by migrate_table."
        )
    for name, instead in _NOT_HERE.items():
        if call[name]:
            raise call.invalid(name, instead)
    source = _catalog(call, "catalog_conf")
    target = _catalog(call, "target_catalog_conf")
    database, table = call["database"], call["table"]
    if not database:
        raise call.invalid("database", "give the database, and the table or none for all of them.")
    if table and (call["included_tables"] or call["excluded_tables"]):
        raise call.invalid("included_tables", "it is of a whole database: leave out 'table'.")
    if call["parallelism"] is not None and call["parallelism"] < 1:
        raise call.invalid("parallelism", "it is a number from 1 on.")
    skips = call["clone_if_exists"] is False
    names = [table] if table else _listed(call, source, database)
    done: list[CloneResult] = []
    skipped, failed = 0, list[str]()
    for name in names:
        new = call["target_table"] if table and call["target_table"] else name
        identifier = f"{call['target_database'] or database}.{new}"
        if skips and target.table_exists(identifier):
            skipped += 1
            continue
        try:
            opened = call.data_table(source, f"{database}.{name}")
            done.append(_copied(call, target, opened, identifier))
        except TidelakeError as error:
            if table:
                raise
            failed.append(f"{database}.{name}: {error.message}")
            _LOG.warning("clone: table '%s.%s' is not copied: %s", database, name, error)
    verb = "Would copy" if call["dry_run"] else "Success"
    size = sum(one.size_bytes for one in done)
    text = f"{verb}: {len(done)} ({sum(one.files_count for one in done)} files, {size} bytes)"
    text += f", Skipped: {skipped}, Failed: {len(failed)}"
    return [("; ".join([text, *failed]),)]


def _catalog(call: ProcedureCall, argument: str) -> Catalog:
    """The catalog of a configuration, or that of the call."""
    text = call[argument]
    if not text:
        return call.catalog
    return open_catalog(catalog=pairs_of(text, argument, example="warehouse=/data/lake"))


def _listed(call: ProcedureCall, catalog: Catalog, database: str) -> list[str]:
    """The tables of a database that the lists of names take."""
    if call["target_table"]:
        raise call.invalid("target_table", "it needs 'table': give the table to copy.")
    known = catalog.list_tables(database)
    lists = {}
    for argument in ("included_tables", "excluded_tables"):
        names = [n.strip().removeprefix(f"{database}.") for n in (call[argument] or "").split(",")]
        lists[argument] = {name for name in names if name}
        for name in lists[argument] - set(known):
            message = f"There is no table '{database}.{name}'.{near_names(name, known)}"
            raise NotFoundError(message, kind="table_not_found", table=name)
    wanted = lists["included_tables"] or set(known)
    return [name for name in known if name in wanted - lists["excluded_tables"]]


_NOT_HERE = {
    "prefer_file_format": "files are copied as they are: compact with another 'file.format' later.",
    "meta_only": "use CREATE TABLE ... LIKE.",
    "target_table_conf": "set options of the copy by ALTER TABLE.",
}


def _text(name: str, description: str) -> Any:
    return optional(name, ParameterType.STRING, description)


CLONE = Procedure(
    "clone",
    (
        _text("database", "The database of the source."),
        _text("table", "The table; all of the database by default."),
        _text("catalog_conf", "The source's catalog: `warehouse=/data/lake`; this by default."),
        _text("target_database", "The database of the copy; that of the source by default."),
        _text("target_table", "The name of the copy; that of the source by default."),
        _text("target_catalog_conf", "The copy's catalog, as `catalog_conf`."),
        optional("parallelism", ParameterType.INTEGER, "No effect."),
        _text("where", "A condition on partition columns."),
        _text("included_tables", "Of a database: `a,b`, only these."),
        _text("excluded_tables", "Of a database: `a,b`, all but these."),
        _text("prefer_file_format", "Not supported."),
        _text("clone_from", "`paimon`; tables of others move in by `migrate_table`."),
        optional("meta_only", ParameterType.BOOLEAN, "Not supported."),
        optional(
            "clone_if_exists",
            ParameterType.BOOLEAN,
            "`false`: leave tables out that exist; else one that is not empty is an error.",
        ),
        _text("target_table_conf", "Not supported."),
        _SNAPSHOT,
        _TAG,
        _HISTORY,
        DRY_RUN,
    ),
    MESSAGE,
    "Copies a table or a database, also between warehouses; the same as `copy`. (Flink.)",
    _clone,
    "clone(database => 'db', table => 't', target_table => 't_clone')",
)
