"""The commands ``tidelake ls``, ``show``, ``files``, ``snapshots`` and ``history``: they look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.output.formats import FORMATS, rows_of
from tidelake.cli.versions.arguments import LookArguments
from tidelake.engine.env import local_zone
from tidelake.engine.tables import SYSTEM_TABLE_NAMES, Catalog, Table, open_catalog
from tidelake.errors import InvalidInputError, TidelakeError, near_names

FAILED = 1
_FILES = (
    "partition",
    "bucket",
    "level",
    "record_count",
    "file_size_in_bytes",
    "min_key",
    "max_key",
    "creation_time",
    "file_path",
)
_SNAPSHOTS = (
    "snapshot_id",
    "commit_time",
    "commit_kind",
    "total_record_count",
    "delta_record_count",
    "schema_id",
    "commit_user",
    "watermark",
)
_TIME = pa.timestamp("ms", "UTC")
_TABLES = pa.schema(
    [
        ("table", pa.string()),
        ("kind", pa.string()),
        ("snapshot", pa.int64()),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("last_commit", _TIME),
        ("problem", pa.string()),
    ]
)
_EVENTS = pa.schema([("time", _TIME), ("event", pa.string()), ("what", pa.string())])


def run(given: LookArguments) -> int:
    """Run the command and return the exit code."""
    try:
        if given.command == "ls":
            catalog = open_catalog(given.warehouse, catalog=given.catalog_options)
            found = _databases(catalog) if given.name is None else _tables(catalog, given.name)
        else:
            assert given.name is not None, "of a table"
            table = opened(given.warehouse, given.name, given.catalog_options)
            if given.command == "show" and given.what is None:
                sys.stdout.write(f"{table}\n")
                return 0
            found = _ROWS[given.command](table, given)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    write_rows(found, given.format)
    return 0


def write_rows(found: pa.Table, form: str) -> None:
    """Print rows in one of the formats."""
    rows = rows_of(found.to_batches(), local_zone() or "UTC")
    for line in FORMATS[form](found.schema, rows):
        sys.stdout.write(f"{line}\n")


def _databases(catalog: Catalog) -> pa.Table:
    names = catalog.list_databases()
    return pa.table(
        {"database": names, "tables": [len(catalog.list_tables(name)) for name in names]},
        schema=pa.schema([("database", pa.string()), ("tables", pa.int64())]),
    )


def _tables(catalog: Catalog, database: str) -> pa.Table:
    rows = []
    for name in catalog.list_tables(database):
        try:
            rows.append({"table": name, **_facts(catalog, f"{database}.{name}")})
        except TidelakeError as error:  # one that is damaged does not hide the others
            rows.append({"table": name, "problem": error.message})
    return pa.Table.from_pylist(rows, schema=_TABLES)


def _facts(catalog: Catalog, identifier: str) -> Mapping[str, object]:
    table = catalog.table(identifier)
    assert isinstance(table, Table), "no system table is listed"
    kind = "primary key" if table.primary_keys else "append"
    newest = table.latest_snapshot_id
    if newest is None:
        return {"kind": kind, "rows": 0, "files": 0, "bytes": 0}
    snapshot = table.handle.snapshots.load(newest)
    partitions = table.system_table("partitions").to_arrow()
    sums = {name: pc.sum(partitions[name]).as_py() or 0 for name in _SUMS}
    return {
        "kind": kind,
        "snapshot": newest,
        "rows": sums["record_count"],
        "files": sums["file_count"],
        "bytes": sums["file_size_in_bytes"],
        "last_commit": snapshot.time_ms,
    }


_SUMS = ("record_count", "file_count", "file_size_in_bytes")


def _shown(table: Table, given: LookArguments) -> pa.Table:
    what = str(given.what)
    if what not in SYSTEM_TABLE_NAMES:
        message = (
            f"Table '{table.identifier}' has no system table '{what}'; it has"
            f" {', '.join(SYSTEM_TABLE_NAMES)}.{near_names(what, SYSTEM_TABLE_NAMES)}"
        )
        raise InvalidInputError(message, kind="bad_argument", argument="what")
    return table.system_table(what).to_arrow()


def _files(table: Table, _: LookArguments) -> pa.Table:
    return table.system_table("files").to_arrow().select(_FILES)


def _snapshots(table: Table, _: LookArguments) -> pa.Table:
    found = table.history()
    tags: dict[int, list[str]] = {}
    for tag in table.tags:
        tags.setdefault(tag.snapshot_id, []).append(tag.name)
    names = [", ".join(tags.get(number, ())) or None for number in found["snapshot_id"].to_pylist()]
    return found.select(_SNAPSHOTS).append_column("tags", pa.array(names, pa.string()))


def _history(table: Table, _: LookArguments) -> pa.Table:
    """Commits, tags and schemas, by time, the newest first."""
    events: list[tuple[int, int, str, str]] = []
    for row in table.history().to_pylist():
        what = f"snapshot {row['snapshot_id']}: {row['delta_record_count']:+,} stored rows"
        what += f", {row['total_record_count']:,} in all, by {row['commit_user']}"
        events.append((_ms(row["commit_time"]), 1, row["commit_kind"], what))
    for tag in table.tags:
        time = tag.create_time or tag.commit_time
        stays = "" if tag.time_retained is None else f", stays {tag.time_retained}"
        events.append((_ms(time), 2, "TAG", f"'{tag.name}' of snapshot {tag.snapshot_id}{stays}"))
    schemas = table.handle.schemas
    for schema in map(schemas.load, schemas.ids()):
        columns = f"{len(schema.fields)} columns, {len(schema.options)} options"
        events.append((schema.time_ms, 0, "SCHEMA", f"schema {schema.id}: {columns}"))
    events.sort(reverse=True)
    return pa.table(
        {
            "time": pa.array([one[0] for one in events], pa.int64()).cast(_TIME),
            "event": [one[2] for one in events],
            "what": [one[3] for one in events],
        },
        schema=_EVENTS,
    )


def _ms(time: object) -> int:
    return int(pa.scalar(time, _TIME).cast(pa.int64()).as_py())


_ROWS: Mapping[str, Callable[[Table, LookArguments], pa.Table]] = {
    "show": _shown,
    "files": _files,
    "snapshots": _snapshots,
    "history": _history,
}
