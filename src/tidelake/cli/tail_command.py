"""The command ``tidelake tail``: prints the changes of a table as they are committed.

1. :meth:`tidelake.Table.stream` gives batches of Arrow rows, and waits for new snapshots.
2. The first column, ``op``, has the kinds. The first batch decides the widths of a table.
3. The output is flushed before the next batch is read, so a pipe gets each change at once. The
   consumer's progress is recorded after that.

Ctrl-C closes the stream, so that the consumer's next run need not wait for the lease.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import sys
from collections.abc import Generator, Iterator
from itertools import chain, islice
from typing import TextIO
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidelake.cli.arguments import TailArguments
from tidelake.cli.output.formats import live_lines, rows_of
from tidelake.cli.output.live_answer import with_op
from tidelake.cli.output.shown_warnings import shown_warnings
from tidelake.engine.env import local_zone
from tidelake.engine.streams import START_OPTIONS, Start, StreamBatch
from tidelake.engine.tables import Table, open_catalog, timestamp_ms
from tidelake.errors import InvalidInputError, TidelakeError

FAILED = 1
INSERT = "+I"
MODES = {"latest": "latest", "full": "latest-full"}
"""Words for ``--from``, and the modes of ``scan.mode`` that they mean."""


def run(arguments: TailArguments) -> int:
    """Run the command and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        with shown_warnings(), contextlib.closing(_stream(arguments)) as stream:
            _write(stream, arguments, sys.stdout)
    except TidelakeError as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    return 0


def _stream(arguments: TailArguments) -> Generator[StreamBatch, None, None]:
    catalog = open_catalog(
        arguments.warehouse, catalog=arguments.catalog_options, memory=arguments.memory
    )
    table = catalog.table(arguments.table)
    if not isinstance(table, Table):
        message = (
            f"'{arguments.table}' is a system table, which has no stream: read it with tidelake"
            f" sql -c 'SELECT * FROM {arguments.table}'."
        )
        raise InvalidInputError(message, kind="system_table", table=arguments.table)
    return table.stream(
        start=_start(arguments),
        consumer_id=arguments.consumer_id,
        columns=arguments.columns,
        where=arguments.where,
        options=arguments.options,
        timeout=arguments.timeout,
    )


def _start(arguments: TailArguments) -> Start:
    """Find where the stream begins; None if options decide it."""
    given = arguments.start
    said = [option.key for option in START_OPTIONS if option.key in arguments.options]
    if said:
        if given is not None:
            message = f"--from {given} and --option {said[0]} both set where it begins: give one."
            raise InvalidInputError(message, kind="two_moments", option=said[0])
        return None
    if given is None or given.lower() in MODES:
        return MODES[(given or "latest").lower()]
    if given.isascii() and given.isdecimal():
        return int(given)
    try:
        at_ms = timestamp_ms(given, zone=local_zone())
    except InvalidInputError as error:
        message = (
            f"--from takes 'latest', 'full', the number of a snapshot or a time such as"
            f" '2026-11-25 16:00', not '{given}'."
        )
        raise InvalidInputError(message, kind="stream_start") from error
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=at_ms)


def _write(stream: Iterator[StreamBatch], arguments: TailArguments, out: TextIO) -> None:
    """Write rows as they come, until the end of the stream or the limit."""
    tables = (with_op(pa.Table.from_batches([batch.data]), INSERT) for batch in stream)
    first = next(tables, None)
    if first is None:
        return
    rows = rows_of(_batches(first, tables, out), str(_zone()))
    first_count = first.num_rows
    if arguments.limit is not None:
        rows = islice(rows, arguments.limit)
        first_count = min(first_count, arguments.limit)
    for line in live_lines(arguments.format, first.schema, rows, first_count=first_count):
        out.write(f"{line}\n")
    out.flush()


def _batches(first: pa.Table, rest: Iterator[pa.Table], out: TextIO) -> Iterator[pa.RecordBatch]:
    """Yield the batches; flush the output before each."""
    for table in chain([first], rest):
        yield from table.to_batches()
        out.flush()


def _zone() -> dt.tzinfo:
    """Return the time zone of this machine."""
    return ZoneInfo(local_zone() or "UTC")
