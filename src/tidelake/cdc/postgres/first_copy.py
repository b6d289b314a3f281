"""The tables as they were at a position of the log: :class:`PostgresCopy`.

A new slot exports a snapshot: the database as it was at the slot's position. It shows exactly the
transactions whose commit record is before the position, and the log sends exactly the others. That
is more than a transaction of ours with ``pg_current_wal_lsn()`` could say: a transaction has its
commit record in the log some time before others see it.

So a table that joins a running job gets its copy in the same way, by a temporary slot of its own:

1. The table is added to the publication before; then the temporary slot is made at position `P`.
2. The job reads its own slot on, from where it was, before or at `P`, with the new table among the
   tables. It drops the table's changes with an order before ``(P, 0)``: the copy has them. Those
   from ``(P, 0)`` on follow the copy.

A table is read in parts by places on disk (``ctid``), a partitioned one by its partitions too.

TRUNCATE and an ALTER TABLE that writes the table anew are not part of any snapshot: a snapshot from
before sees an empty table. So each part locks its table as a read does, and then compares the file
that the table has with the one that it had in the snapshot. The copy is begun anew if they differ.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import csv

from tidelake.cdc import _optional
from tidelake.cdc.postgres.connection import (
    connect,
    quote_name,
    quote_text,
    result_refusal,
    translated,
)
from tidelake.cdc.postgres.log.row_changes import cast_rows, payload_of
from tidelake.cdc.postgres.log.tuple_columns import TextColumn
from tidelake.cdc.postgres.position import LogPosition
from tidelake.cdc.postgres.publication import quoted
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.cdc.postgres.slot import NewSlot
from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.source.source import Chunk, CopiedRows
from tidelake.cdc.source.source_table import SourceTable
from tidelake.engine.storage import SentSecrets
from tidelake.errors import ConflictError
from tidelake.types import RowKind, TypeRoot

BATCH_BYTES = 2 << 20
"""Of text: so much stays in the processor's cache."""
BLOCK_BYTES_MAX = (1 << 31) - 1
PAGE_ROWS = 60
"""Rows of a page of 8 KiB where the server has not counted any."""
_PAGE_BYTES = 8192
_PASSWORD = "password"
_LEAVES = """
SELECT format('%I.%I', n.nspname, c.relname), c.reltuples::float8, c.relpages,
  pg_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = {root}::regclass AND c.relkind = 'r'
  OR c.oid IN (SELECT relid FROM pg_partition_tree({root}::regclass) WHERE isleaf)
ORDER BY 1
"""
_IS_SAME_FILE = """
SELECT relfilenode = pg_relation_filenode(oid) FROM pg_class WHERE oid = {place}::regclass
"""


@dataclass(frozen=True, slots=True)
class PostgresChunk(Chunk):
    """A part of a table.

    Parameters
    ----------
    place : str
        What is read, in SQL: the table, or one of its partitions.
    """

    place: str = ""


@dataclass(frozen=True, slots=True)
class PostgresChunkReader:
    """Reads parts of a copy in another process, while the copy's snapshot is kept here. Picklable.

    Parameters
    ----------
    settings : PostgresSettings
        Without the password.
    secrets : SentSecrets
        The password.
    position : LogPosition
        The copy's.
    """

    settings: PostgresSettings
    secrets: SentSecrets
    position: LogPosition

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one part, in batches, in the copy's snapshot."""
        assert isinstance(chunk, PostgresChunk)
        password = self.secrets.reveal()[_PASSWORD]
        return read_chunk(replace(self.settings, password=password), chunk, self.position)


class PostgresCopy:
    """Implements :class:`~tidelake.cdc.source.source.FirstCopy`."""

    def __init__(self, settings: PostgresSettings, slot: NewSlot) -> None:
        self._settings = settings
        self._slot = slot

    @property
    def position(self) -> str:
        """Where the log goes on from the copy."""
        return str(self._slot.position)

    def whole_at(self) -> str:
        """Give the position: the snapshot is of just there."""
        return self.position

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that a target has stay: never, as all are copied."""
        return False

    @property
    def order(self) -> tuple[int, int]:
        """The order of the copied rows: before every change that follows."""
        return self._slot.position.lsn, 0

    def chunks(self, table: SourceTable, *, rows_max: int) -> Sequence[PostgresChunk]:
        """Cut a table into parts of about so many rows, or fewer as the settings say."""
        rows_max = min(rows_max, self._settings.chunk_rows)
        with connect(self._settings) as connection, translated(self._settings):
            name = quote_text(quoted(table.name))
            leaves = connection.execute(_LEAVES.format(root=name)).fetchall()
        found = []
        for place, rows, pages, size_bytes in leaves:
            pages_now = -(-size_bytes // _PAGE_BYTES)
            density = rows / pages if rows > 0 and pages > 0 else PAGE_ROWS
            step = max(1, int(rows_max / density))
            for start in range(0, max(pages_now, 1), step):
                condition = f"ctid >= '({start},0)'" if start else ""
                if start + step < pages_now:
                    condition += f"{' AND ' if condition else ''}ctid < '({start + step},0)'"
                count = int(density * min(step, max(pages_now - start, 0)))
                found.append(
                    PostgresChunk(table, condition, count, self._slot.snapshot, place=place)
                )
        return found

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        """Read one part, in batches. Each call has its own connection."""
        assert isinstance(chunk, PostgresChunk)
        return read_chunk(self._settings, chunk, self._slot.position)

    def reader(self, chunks: Sequence[Chunk]) -> PostgresChunkReader:
        """Give what reads any chunk in another process: it joins the snapshot."""
        del chunks
        return PostgresChunkReader(
            replace(self._settings, password=""),
            SentSecrets({_PASSWORD: self._settings.password}),
            self._slot.position,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up the snapshot; parts whose reading has begun go on."""
        self._slot.connection.close()


def read_chunk(
    settings: PostgresSettings, chunk: PostgresChunk, position: LogPosition
) -> Iterator[CopiedRows]:
    """Read a part of a table in its snapshot, in batches of about 2 MiB; on any machine.

    Raises
    ------
    ConflictError
        The snapshot does not show the table any more: kind ``cdc_copy_disturbed``.
    """
    table = chunk.table
    columns = ", ".join(quote_name(field.name) for field in table.fields)
    where = f" WHERE {chunk.condition}" if chunk.condition else ""
    # an empty text in quotes is empty, one without is null
    texts = [f.name for f in table.fields if f.type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}]
    forced = f", FORCE_QUOTE ({', '.join(map(quote_name, texts))})" if texts else ""
    command = f"COPY (SELECT {columns} FROM {chunk.place}{where}) TO STDOUT (FORMAT csv{forced})"
    connection = connect(settings)
    try:
        with translated(settings):
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if chunk.snapshot:
                connection.execute(f"SET TRANSACTION SNAPSHOT {quote_text(chunk.snapshot)}")
                _check_file(connection, chunk)
            for lines in _batches(connection.pgconn, command, settings):
                yield _copied(lines, table, position)
    finally:
        connection.close()


def _check_file(connection: Any, chunk: PostgresChunk) -> None:
    """Refuse a table whose rows of the snapshot are gone; the lock lasts for the transaction."""
    connection.execute(f"LOCK TABLE ONLY {chunk.place} IN ACCESS SHARE MODE")
    found = connection.execute(_IS_SAME_FILE.format(place=quote_text(chunk.place))).fetchone()
    if found is None or not found[0]:
        message = (
            f"{chunk.table.name} was truncated or written anew, by TRUNCATE or ALTER TABLE, while"
            " it was copied. Copy it again."
        )
        raise ConflictError(message, kind="cdc_copy_disturbed", table=str(chunk.table.name))


def _batches(wire: Any, command: str, settings: PostgresSettings) -> Iterator[bytearray]:
    """Whole rows, as the server sends one a message: about 0.5 us each.

    psycopg's own loop, and a list of the rows, take three.
    """
    pq = _optional.psycopg_pq()
    result = wire.exec_(command.encode())
    if result.status != pq.ExecStatus.COPY_OUT:
        raise result_refusal(result, settings)
    poll = select.poll()
    poll.register(wire.socket, select.POLLIN)
    lines = bytearray()
    while True:
        length, line = wire.get_copy_data(1)
        if length > 0:
            lines += line
            if len(lines) >= BATCH_BYTES:
                yield lines
                lines = bytearray()
        elif length == 0:
            poll.poll()
            wire.consume_input()
        else:
            break
    result = wire.get_result()
    if result is None or result.status != pq.ExecStatus.COMMAND_OK:
        raise result_refusal(result, settings)
    if lines:
        yield lines


def _copied(lines: bytearray, table: SourceTable, position: LogPosition) -> CopiedRows:
    names = [field.name for field in table.fields]
    # by number, for two columns may differ in a way that a header cannot show
    numbered = [str(place) for place in range(len(names))]
    # one block: a row may be as large as the server lets it
    block_bytes = min(len(lines) + 1, BLOCK_BYTES_MAX)
    parsed = csv.read_csv(
        pa.BufferReader(lines),
        csv.ReadOptions(column_names=numbered, use_threads=False, block_size=block_bytes),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(numbered, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    columns = {
        name: TextColumn(_one_array(parsed.column(place))) for place, name in enumerate(names)
    }
    rows, faults = cast_rows(columns, table)
    rejected = tuple(
        Rejected(
            table.name,
            (position.lsn, 0),
            int(RowKind.INSERT),
            faults[row],
            payload_of(columns, row),
        )
        for row in sorted(faults)
    )
    if faults:
        kept = pa.array([row not in faults for row in range(rows.num_rows)])
        rows = rows.filter(kept)
    return CopiedRows(rows, rejected)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
