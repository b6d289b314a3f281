"""The replication slot: where the server keeps our position, and how much log it holds for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelake.cdc import _optional
from tidelake.cdc.postgres.connection import connect, quote_name, result_refusal
from tidelake.cdc.postgres.position import LogPosition
from tidelake.cdc.postgres.settings import PostgresSettings

FAILOVER_VERSION = 170000
_STATE = """
SELECT plugin::text, database::text, active, active_pid, confirmed_flush_lsn - '0/0'::pg_lsn,
  wal_status, safe_wal_size,
  (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)
    - restart_lsn
FROM pg_replication_slots WHERE slot_name = %(slot)s
"""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server shows it.

    Parameters
    ----------
    confirmed_lsn : int or None
        To where its reader has confirmed.
    wal_status : str or None
        ``reserved``, ``extended``, ``unreserved``, ``lost``.
    safe_bytes : int or None
        Bytes of log until the slot may be lost; None without a limit.
    held_bytes : int or None
        Bytes of log that the server keeps for it.
    """

    plugin: str
    database: str
    is_active: bool
    active_pid: int | None
    confirmed_lsn: int | None
    wal_status: str | None
    safe_bytes: int | None
    held_bytes: int | None


def slot_state(connection: Any, slot: str) -> SlotState | None:
    """Look at a slot; None if it is not there."""
    found = connection.execute(_STATE, {"slot": slot}).fetchone()
    if found is None:
        return None
    plugin, database, active, pid, *numbers = found
    confirmed, status, safe, held = numbers
    whole = [None if value is None else int(value) for value in (confirmed, safe, held)]
    return SlotState(plugin, database, active, pid, whole[0], status, whole[1], whole[2])


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was made just now, and the database as it was at its position.

    Parameters
    ----------
    connection : object
        Of psycopg; the snapshot lives while it is open and does nothing.
    snapshot : str
        Name by which other transactions join it.
    """

    connection: Any
    position: LogPosition
    snapshot: str


def make_slot(settings: PostgresSettings, name: str, *, is_temporary: bool) -> NewSlot:
    """Make a slot and keep its snapshot. Waits for the transactions that are running.

    The snapshot shows what transactions with a commit before the position did, and nothing else.

    Parameters
    ----------
    is_temporary : bool
        Whether it goes with its connection.
    """
    connection = connect(settings, replication=True)
    try:
        wire = connection.pgconn
        options = ["SNAPSHOT 'export'"]
        if settings.failover and not is_temporary:
            options.append("FAILOVER true")
        kind = "TEMPORARY LOGICAL" if is_temporary else "LOGICAL"
        command = f"CREATE_REPLICATION_SLOT {quote_name(name)} {kind} pgoutput"
        if connection.info.server_version >= OPTIONS_VERSION:
            command += f" ({', '.join(options)})"
        else:
            command += " EXPORT_SNAPSHOT"
        result = wire.exec_(command.encode())
        pq = _optional.psycopg_pq()
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise result_refusal(result, settings)
        point, snapshot = (result.get_value(0, column).decode() for column in (1, 2))
    except BaseException:
        connection.close()
        raise
    return NewSlot(connection, LogPosition.parse(point), snapshot)


OPTIONS_VERSION = 150000
"""From here on the command takes its options in parentheses."""
