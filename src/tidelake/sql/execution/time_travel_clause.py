"""Time travel clauses: a snapshot, a tag or a time after a table."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from tidelake.engine.tables import MetadataTable, RowView, SystemTable, Table, zone_of
from tidelake.errors import InvalidInputError
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.table_clause import Clause

TIME_ZONE = "spark.sql.session.timeZone"
"""Spark's setting for the session time zone."""


def time_travel_arguments(
    clause: Clause, found: Table | SystemTable, session: SqlSession
) -> dict[str, Any]:
    """Return the arguments of a scan for a clause.

    Parameters
    ----------
    session : SqlSession
        Its time zone applies to times without one.

    Returns
    -------
    dict
        ``snapshot_id``, ``timestamp`` or ``tag``; empty without time travel.

    Raises
    ------
    InvalidInputError
        It has VERSION and TIMESTAMP.
    """
    if clause.version is not None and clause.timestamp is not None:
        message = "Write VERSION AS OF or TIMESTAMP AS OF, not both."
        raise InvalidInputError(message, kind="two_moments")
    if clause.timestamp is not None:
        return {"timestamp": session.time(clause.timestamp)}
    version = clause.version
    if version is None:
        return {}
    if isinstance(version, str):
        of_a_table = (Table, RowView, MetadataTable)
        tags = found.handle.tags.names() if isinstance(found, of_a_table) else ()
        if version.isdecimal() and version not in tags:
            return {"snapshot_id": int(version)}
        return {"tag": version}
    return {"snapshot_id": version}


def named_zone(name: str) -> tzinfo:
    """Return the time zone of a session's setting.

    Raises
    ------
    InvalidInputError
        The zone is unknown.
    """
    zone = zone_of(name)
    if zone is None:
        message = (
            f"The session's time zone '{name}' is unknown: set '{TIME_ZONE}' to a region"
            " such as 'Asia/Shanghai', or to an offset such as '+08:00'."
        )
        raise InvalidInputError(message, kind="time_zone", option=TIME_ZONE)
    return zone
