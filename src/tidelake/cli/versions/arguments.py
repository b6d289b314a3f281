"""Arguments of the commands that look at tables, and that keep and leave versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.compare.arguments import qualified
from tidelake.cli.declaration import BRANCH, LS, ROLLBACK, TAG
from tidelake.errors import near_names

_FLAGS = ("snapshot", "tag", "at", "time-retained", "dry-run")
_FLAGS_OF = {
    (TAG.name, "create"): ("--snapshot", "--at", "--time-retained"),
    (BRANCH.name, "create"): ("--snapshot", "--tag"),
    (BRANCH.name, "fast-forward"): ("--dry-run",),
}
"""What each verb takes besides names."""


@dataclass(frozen=True, slots=True)
class LookArguments:
    """Arguments of ``tidelake ls``, ``show``, ``files``, ``snapshots`` and ``history``.

    Parameters
    ----------
    command : str
        Which of them.
    name : str, optional
        A database of ``ls``, else ``"database.table"``.
    what : str, optional
        Of ``show``: a system table.
    """

    warehouse: str
    command: str
    name: str | None
    what: str | None = None
    format: str = "table"
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class VersionArguments:
    """Arguments of ``tidelake tag``, ``branch`` and ``rollback``.

    Parameters
    ----------
    command : str
        Which of them.
    verb : str
        What to do; empty for a rollback.
    name, new_name : str, optional
        Of the tag or branch.
    snapshot_id, tag, at : optional
        A version; ``at`` is a time with its zone.
    """

    warehouse: str
    command: str
    table: str
    verb: str = ""
    name: str | None = None
    new_name: str | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    at: str | None = None
    time_retained: str | None = None
    dry_run: bool = False
    format: str = "table"
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def look_arguments(given: Mapping[str, Any], warehouse: str) -> LookArguments:
    """Read the arguments of a command that only looks."""
    command = given["command_name"]
    return LookArguments(
        warehouse=warehouse,
        command=command,
        name=given["name"] if command == LS.name else qualified(given),
        what=given.get("what"),
        format=given["format"] or "table",
        catalog_options=given["catalog_options"],
    )


def version_arguments(given: Mapping[str, Any], warehouse: str) -> VersionArguments:
    """Read the arguments of ``tidelake tag``, ``branch`` and ``rollback``."""
    command, verb = given["command_name"], given.get("verb") or ""
    flags = {f"--{name}": given.get(name.replace("-", "_")) for name in _FLAGS}
    if command == ROLLBACK.name:
        if sum(flags[one] is not None for one in ("--snapshot", "--tag", "--at")) != 1:
            message = "say where to roll back to by one of --snapshot, --tag and --at"
            raise UsageError(message)
    else:
        known = {TAG.name: TAG, BRANCH.name: BRANCH}[command].flags[0].choices
        if verb not in known:
            message = (
                f"'{verb}' is nothing that {command} does: give {', '.join(known)}."
                f"{near_names(verb, known)}"
            )
            raise UsageError(message)
        wanted = {"list": 0, "rename": 2}.get(verb, 1)
        names = [one for one in (given["name"], given["new_name"]) if one is not None]
        if len(names) != wanted:
            takes = ("no name", "a name", "a name and a new name")[wanted]
            message = f"{command} {verb} takes {takes} behind the table"
            raise UsageError(message)
        allowed = _FLAGS_OF.get((command, verb), ())
        for flag, value in flags.items():
            if value not in (None, False) and flag not in allowed:
                message = f"{flag} is not of {command} {verb}"
                raise UsageError(message)
        if sum(flags[one] is not None for one in ("--snapshot", "--tag", "--at")) > 1:
            message = "--snapshot, --tag and --at each name a version: give one of them"
            raise UsageError(message)
    return VersionArguments(
        warehouse=warehouse,
        command=command,
        table=qualified(given),
        verb=verb,
        name=given.get("name"),
        new_name=given.get("new_name"),
        snapshot_id=_snapshot_id(given["snapshot"]),
        tag=given.get("tag"),
        at=given.get("at"),
        time_retained=given.get("time_retained"),
        dry_run=bool(given.get("dry_run")),
        format="json" if given.get("json") else given.get("format") or "table",
        catalog_options=given["catalog_options"],
    )


def _snapshot_id(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        message = f"--snapshot takes the id of a snapshot, a whole number from 1 on, not '{text}'"
        raise UsageError(message)
    return int(text)
