"""The procedure that lists tables anew in a Hive Metastore or AWS Glue."""

from __future__ import annotations

from tidelake.maintenance.procedure import ParameterType, Procedure, ProcedureCall, Rows, optional
from tidelake.maintenance.result_schemas import DONE


def _repair(call: ProcedureCall) -> Rows:
    call.catalog.repair((call["database_or_table"] or "").strip() or None)
    return [(True,)]


REPAIR = Procedure(
    "repair",
    (
        optional(
            "database_or_table",
            ParameterType.STRING,
            "`db` or `db.t`; by default the whole warehouse.",
        ),
    ),
    DONE,
    "Makes the entries of a Hive Metastore or AWS Glue say what the files say: tables that are not"
    " listed are listed, and entries get the columns, options and partitions of their tables.",
    _repair,
    "repair(database_or_table => 'db')",
)
