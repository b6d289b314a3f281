"""Arguments of the commands that look after the health of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.cli.command_line.usage_error import UsageError


@dataclass(frozen=True, slots=True)
class TableDoctorArguments:
    """Arguments of ``tidelake doctor table``.

    Parameters
    ----------
    orphans : bool
        Look for orphan files too.
    parallelism : int, optional
        Tasks that write the table at once.
    as_json : bool
        Print one JSON object.
    """

    warehouse: str
    table: str
    orphans: bool = False
    parallelism: int | None = None
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def table_doctor_arguments(given: Mapping[str, Any], warehouse: str) -> TableDoctorArguments:
    """Read the arguments of ``tidelake doctor table``."""
    name, tasks = given["name"], given["parallelism"]
    if name is None:
        message = "doctor table needs the table: tidelake doctor table db.t"
        raise UsageError(message)
    if tasks is not None and not (tasks.isascii() and tasks.isdecimal() and int(tasks)):
        message = f"--parallelism takes a whole number from 1 on, not '{tasks}'"
        raise UsageError(message)
    return TableDoctorArguments(
        warehouse,
        name if "." in name else f"{given['database'] or 'default'}.{name}",
        orphans=given["orphans"],
        parallelism=None if tasks is None else int(tasks),
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


@dataclass(frozen=True, slots=True)
class FilesArguments:
    """Arguments of ``tidelake fsck`` and ``tidelake repair``.

    Parameters
    ----------
    data : bool
        Read all rows and indexes too.
    plans : bool
        Print what would mend the table, and not only what is wrong.
    as_json : bool
        Print one JSON object.
    """

    warehouse: str
    table: str
    data: bool = False
    plans: bool = False
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def files_arguments(given: Mapping[str, Any], warehouse: str) -> FilesArguments:
    """Read the arguments of ``tidelake fsck`` and ``tidelake repair``.

    Raises
    ------
    UsageError
        ``repair`` without ``--plan``: it changes nothing by itself.
    """
    plans = given["command_name"] == "repair"
    if plans and not given["plan"]:
        message = "repair changes nothing by itself: give --plan, and run its steps"
        raise UsageError(message)
    table = given["table"]
    return FilesArguments(
        warehouse,
        table if "." in table else f"{given['database'] or 'default'}.{table}",
        data=given["data"],
        plans=plans,
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )
