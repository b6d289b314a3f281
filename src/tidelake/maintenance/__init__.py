"""Procedures: compact, roll back, tag and the like, by name, with checked arguments.

SQL, the CLI and Python call the same ones. The work is done in :mod:`tidelake.table.jobs`; nothing
here touches a file.
"""

from tidelake.maintenance.procedure import Parameter, ParameterType, Procedure, ProcedureRunner
from tidelake.maintenance.procedures import PROCEDURES, REFUSED, call

__all__ = [
    "PROCEDURES",
    "REFUSED",
    "Parameter",
    "ParameterType",
    "Procedure",
    "ProcedureRunner",
    "call",
]
