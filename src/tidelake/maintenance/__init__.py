"""Jobs on tables, as procedures by name: compact, roll back, tag and the like."""

from tidelake.maintenance.procedure import Parameter, ParameterType, Procedure, Runner
from tidelake.maintenance.procedures import PROCEDURES, REFUSED, call

__all__ = [
    "PROCEDURES",
    "REFUSED",
    "Parameter",
    "ParameterType",
    "Procedure",
    "Runner",
    "call",
]
