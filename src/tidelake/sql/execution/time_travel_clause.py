"""The moment of a table that a clause behind it names: a snapshot, a tag or a time."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from tidelake.errors import InvalidInputError
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.table_clause import Clause
from tidelake.table import RowView, SystemTable, Table
from tidelake.table.handle.time_travel import zone_of
from tidelake.table.system.system_table import MetadataTable

__all__ = ["TIME_ZONE", "moment_of", "named_zone"]

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting of a session that names the zone of times which name none."""


def moment_of(clause: Clause, found: Table | SystemTable, session: SqlSession) -> dict[str, Any]:
    """The arguments of a scan that a clause stands for.

    Parameters
    ----------
    clause : Clause
        Behind the table's name.
    found : Table or SystemTable
        The table.
    session : SqlSession
        Whose time zone a time without one is in.

    Returns
    -------
    dict
        ``snapshot_id``, ``timestamp`` or ``tag``; empty where the clause names no moment.

    Raises
    ------
    InvalidInputError
        It names two.
    """
    if clause.version is not None and clause.timestamp is not None:
        message = "Say VERSION AS OF or TIMESTAMP AS OF, not both."
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
    """The time zone that a session's setting names.

    Raises
    ------
    InvalidInputError
        It is none that this process knows.
    """
    zone = zone_of(name)
    if zone is None:
        message = (
            f"The session's time zone '{name}' is not known here: set '{TIME_ZONE}' to a region"
            " such as 'Asia/Shanghai', or to an offset such as '+08:00'."
        )
        raise InvalidInputError(message, kind="time_zone", option=TIME_ZONE)
    return zone
