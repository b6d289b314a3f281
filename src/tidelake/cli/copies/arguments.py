"""Arguments of the commands that make tables of files that exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.copies.declaration import CLONE, MIGRATE

KINDS = ("parquet", "hive", "delta", "iceberg")


@dataclass(frozen=True, slots=True)
class CloneArguments:
    """Arguments of ``tidelake clone``.

    Parameters
    ----------
    source, target : str
        ``"database.table"``.
    to : str, optional
        The warehouse of the target.
    to_options : mapping
        Options of the target's catalog.
    as_json : bool
        Print one JSON object.
    """

    warehouse: str
    source: str
    target: str
    to: str | None = None
    to_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    snapshot: int | None = None
    tag: str | None = None
    where: str | None = None
    history: bool = False
    dry_run: bool = False
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class MigrateArguments:
    """Arguments of ``tidelake migrate``.

    Parameters
    ----------
    kind : str
        ``"parquet"``, ``"hive"``, ``"delta"`` or ``"iceberg"``.
    source : str
        A path or a URI.
    target : str
        ``"database.table"``.
    as_json : bool
        Print one JSON object.
    """

    warehouse: str
    kind: str
    source: str
    target: str
    options: Mapping[str, str] = field(default_factory=dict)
    partition_types: Mapping[str, str] = field(default_factory=dict)
    delete_origin: bool = False
    dry_run: bool = False
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def migrate_arguments(given: Mapping[str, Any], warehouse: str) -> MigrateArguments:
    """Read the arguments of ``tidelake migrate``.

    Raises
    ------
    UsageError
        An option is not ``KEY=VALUE``, or the kind is unknown.
    """
    if given["kind"] not in KINDS:
        message = f"there is no kind '{given['kind']}': give {', '.join(KINDS)}"
        raise UsageError(message)
    return MigrateArguments(
        warehouse,
        given["kind"],
        given["source"],
        _qualified(given["target"], given),
        options=_pairs(given["option"], "--option"),
        partition_types=_pairs(given["partition_type"], "--partition-type"),
        delete_origin=given["delete_origin"],
        dry_run=given["dry_run"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def _pairs(given: Sequence[str] | None, flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            message = f"{flag} takes KEY=VALUE, not '{text}'"
            raise UsageError(message)
        found[key] = value
    return found


def clone_arguments(given: Mapping[str, Any], warehouse: str) -> CloneArguments:
    """Read the arguments of ``tidelake clone``.

    Raises
    ------
    UsageError
        The snapshot is no number.
    """
    snapshot = given["snapshot"]
    if snapshot is not None and not (snapshot.isascii() and snapshot.isdecimal()):
        message = f"--snapshot takes the id of a snapshot, not '{snapshot}'"
        raise UsageError(message)
    if given["to_option"] and given["to"] is None:
        message = "--to-option is of the other warehouse: give --to too"
        raise UsageError(message)
    return CloneArguments(
        warehouse,
        _qualified(given["source"], given),
        _qualified(given["target"], given),
        to=given["to"],
        to_options=_pairs(given["to_option"], "--to-option"),
        snapshot=None if snapshot is None else int(snapshot),
        tag=given["tag"],
        where=given["where"],
        history=given["history"],
        dry_run=given["dry_run"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def _qualified(table: str, given: Mapping[str, Any]) -> str:
    return table if "." in table else f"{given['database'] or 'default'}.{table}"


CopyArguments: TypeAlias = CloneArguments | MigrateArguments
COPY_READERS: Mapping[str, Callable[[Mapping[str, Any], str], CopyArguments]] = {
    CLONE.name: clone_arguments,
    MIGRATE.name: migrate_arguments,
}
