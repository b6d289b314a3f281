"""All replication slots of a server, as those who watch its disk want to know them.

A slot holds log whether its reader is connected or not. One that nobody reads holds all that is
written, until ``max_slot_wal_keep_size`` gives it up, or the disk is full.
"""

from __future__ import annotations

from typing import Any

from tidelake.cdc.postgres.connection import quote_text
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.cdc.source.slot_status import MISSING, SlotStatus

SINCE_VERSION = 170000
"""From here on a slot says since when nobody reads it."""
_SLOTS = """
SELECT slot_name::text, active, wal_status, safe_wal_size,
  (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)
    - restart_lsn,
  coalesce(database::text, ''), %s
FROM pg_replication_slots WHERE NOT temporary ORDER BY slot_name
"""
_SINCE = "to_char(inactive_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"


def slot_health(connection: Any, settings: PostgresSettings) -> list[SlotStatus]:
    """Look at all slots of the server; that of the job is first, also if it is missing."""
    since = _SINCE if connection.info.server_version >= SINCE_VERSION else "NULL"
    found = [_slot(row, settings) for row in connection.execute(_SLOTS % since).fetchall()]
    if not any(one.is_ours for one in found):
        found.append(SlotStatus(settings.slot, True, False, None, MISSING, None))
    return sorted(found, key=lambda one: not one.is_ours)


def _slot(row: tuple[Any, ...], settings: PostgresSettings) -> SlotStatus:
    name, is_active, status, safe, held, database, since = row
    is_ours = (name, database) == (settings.slot, settings.database)
    problem, mend = "", ""
    drop = f"SELECT pg_drop_replication_slot({quote_text(name)})"
    if status == "lost":
        problem = "the server threw away log that it needs"
        mend = f"If its reader does not come back, run: {drop}"
        if is_ours:
            mend = "Run the job with --on-lost-position resnapshot, or end it by tidelake cdc drop"
    elif not is_active:
        problem = f"nobody has read it since {since} UTC" if since else "it has no reader"
        mend = f"If its reader does not come back, run: {drop}"
        if is_ours:
            mend = "Run the job, or end it by tidelake cdc drop"
    elif status in ("extended", "unreserved"):
        problem = "its reader is so far behind that the log may be lost"
        mend = (
            "Let the reader catch up, or raise the limit: ALTER SYSTEM SET max_slot_wal_keep_size"
        )
    whole = [None if number is None else int(number) for number in (held, safe)]
    return SlotStatus(name, is_ours, is_active, whole[0], status or "", whole[1], problem, mend)
