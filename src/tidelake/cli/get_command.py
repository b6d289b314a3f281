"""The command ``tidelake get``: rows by their keys, from the table's query service or its files.

1. The keys are read from their texts by the types of the primary key's columns.
2. A table that a service answers for has a service file: that service is asked. Where there is
   none, or it has stopped, the table's files are looked into. Which of them answered stands on the
   standard error, with the snapshot.
3. Rows come in the order of the keys. Keys that are missing are named on the standard error; as
   JSON each is a line ``null``.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pyarrow as pa

import tidelake
from tidelake.cli.arguments import GetArguments
from tidelake.cli.command_line.key_texts import keys_of
from tidelake.cli.output.cell_text import json_text
from tidelake.cli.output.formats import FORMATS, rows_of
from tidelake.engine.env import local_zone
from tidelake.engine.tables import Catalog, Table, open_catalog
from tidelake.errors import (
    CorruptError,
    InvalidInputError,
    TidelakeError,
    shortened,
)
from tidelake.service.protocol.service_file import read_service_file

if TYPE_CHECKING:
    from tidelake.service.client.table_query import TableQuery

FAILED = 1


@dataclass(frozen=True, slots=True)
class _Answer:
    """Rows of keys, and who gave them."""

    rows: pa.Table
    by: str
    snapshot_id: int | None


def run(arguments: GetArguments) -> int:
    """Run the command and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    try:
        catalog = open_catalog(
            arguments.warehouse, catalog=arguments.catalog_options, memory=arguments.memory
        )
        table = _table(catalog, arguments)
        keys = keys_of(table, arguments.keys)
        answer = _answer(catalog, table, keys, arguments)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    _write(answer, table, arguments, sys.stdout, sys.stderr)
    return 0


def _table(catalog: Catalog, arguments: GetArguments) -> Table:
    table = catalog.table(arguments.table)
    if not isinstance(table, Table):
        message = (
            f"'{arguments.table}' is a system table, which has no rows by key: read it with"
            f' tidelake sql -c "SELECT * FROM {arguments.table}".'
        )
        raise InvalidInputError(message, kind="system_table", table=arguments.table)
    return table


def _answer(
    catalog: Catalog, table: Table, keys: pa.RecordBatch, arguments: GetArguments
) -> _Answer:
    """Ask the service, if there is one, else the files."""
    columns = arguments.columns or tuple(table.schema.names)
    # the key says whether a row was found
    asked = (*columns, *(name for name in table.primary_keys if name not in columns))
    found, files = None, "the table's files"
    if not arguments.local:
        try:
            found = read_service_file(table.fileio, table.handle.paths.log_dir)
        except CorruptError:
            files = "the table's files (its service file is damaged)"
    if found is None:
        with contextlib.closing(table.local_query()) as local:
            rows = local.get_many(keys, columns=asked)
            return _Answer(rows, files, local.snapshot_id)
    with contextlib.closing(_client(catalog, arguments)) as query:
        rows = query.get_many(keys, columns=asked)
        by = f"the service at {found.address}"
        if query.is_local:
            by = f"the table's files ({by} does not answer)"
        return _Answer(rows, by, query.snapshot_id)


def _client(catalog: Catalog, arguments: GetArguments) -> TableQuery:
    token = arguments.token
    return tidelake.lookup_client(
        catalog,
        arguments.table,
        deadline_seconds=arguments.timeout,
        token=None if token is None else Path(token).read_text(encoding="utf-8").strip(),
        tls=arguments.tls_ca,
        fallback=True,
    )


def _write(
    answer: _Answer, table: Table, arguments: GetArguments, out: TextIO, err: TextIO
) -> None:
    """Write the rows, and who gave them."""
    columns = list(arguments.columns or table.schema.names)
    is_found = answer.rows.column(table.primary_keys[0]).is_valid().to_pylist()
    rows = answer.rows.select(columns)
    plain = rows_of(rows.to_batches(), local_zone() or "UTC")
    if arguments.as_json:
        for found, row in zip(is_found, plain, strict=True):
            out.write(json_text(dict(zip(columns, row, strict=True))) if found else "null")
            out.write("\n")
    else:
        kept = (row for found, row in zip(is_found, plain, strict=True) if found)
        for line in FORMATS["table"](rows.schema, kept):
            out.write(f"{line}\n")
    out.flush()
    missing = [key for found, key in zip(is_found, arguments.keys, strict=True) if not found]
    if missing:
        err.write(f"Not found: {shortened(', '.join(missing))}\n")
    err.write(f"From {answer.by}, snapshot {answer.snapshot_id or 'none'}.\n")
