"""Parameters of several procedures."""

from __future__ import annotations

from tidelake.maintenance.procedure import ParameterType, optional, required

TABLE = required("table", ParameterType.TABLE, "The table.")
DRY_RUN = optional(
    "dry_run", ParameterType.BOOLEAN, "Report what would be done, and change nothing.", is_ours=True
)
AT_TIME = required(
    "timestamp",
    ParameterType.TIME,
    "Milliseconds since the epoch, or a timestamp, in the session's zone if it names none.",
)
OPTIONS = optional(
    "options", ParameterType.STRING, "Options of the table for this call: `a=1,b=2`."
)
PARTITIONS = optional(
    "partitions",
    ParameterType.STRING,
    "Partitions: `dt=2024-01-01,hh=8;dt=2024-01-02`; a comma is AND, a semicolon OR. All by"
    " default.",
)
