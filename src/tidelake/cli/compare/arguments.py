"""Arguments of the commands that compare versions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.cli.command_line.usage_error import UsageError

VERSIONS_COUNT_MAX = 2


@dataclass(frozen=True, slots=True)
class DiffArguments:
    """Arguments of ``tidelake diff``.

    Parameters
    ----------
    before, after : str
        Versions; the newest snapshot by default.
    counts : bool
        Print how many rows differ, and not the rows.
    as_json : bool
        Print JSON objects.
    """

    warehouse: str
    table: str
    before: str
    after: str | None = None
    counts: bool = False
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class BlameArguments:
    """Arguments of ``tidelake blame``."""

    warehouse: str
    table: str
    key: str
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class BisectArguments:
    """Arguments of ``tidelake bisect``.

    Parameters
    ----------
    where : str
        The condition that no row may contradict.
    good, bad : str, optional
        The ends of the range.
    """

    warehouse: str
    table: str
    where: str
    good: str | None = None
    bad: str | None = None
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


CompareArguments = DiffArguments | BlameArguments | BisectArguments


def diff_arguments(given: Mapping[str, Any], warehouse: str) -> DiffArguments:
    """Read the arguments of ``tidelake diff``."""
    versions = given["versions"]
    if len(versions) > VERSIONS_COUNT_MAX:
        message = f"diff compares two versions, and {len(versions)} are given"
        raise UsageError(message)
    return DiffArguments(
        warehouse,
        qualified(given),
        versions[0],
        versions[1] if len(versions) == VERSIONS_COUNT_MAX else None,
        counts=given["counts"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def blame_arguments(given: Mapping[str, Any], warehouse: str) -> BlameArguments:
    """Read the arguments of ``tidelake blame``."""
    return BlameArguments(
        warehouse,
        qualified(given),
        given["key"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def bisect_arguments(given: Mapping[str, Any], warehouse: str) -> BisectArguments:
    """Read the arguments of ``tidelake bisect``."""
    if not given["where"]:
        message = "bisect needs --where CONDITION, which no row may contradict"
        raise UsageError(message)
    return BisectArguments(
        warehouse,
        qualified(given),
        given["where"],
        good=given["good"],
        bad=given["bad"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


def qualified(given: Mapping[str, Any]) -> str:
    """The name of the table with its database."""
    table: str = given["table"]
    return table if "." in table else f"{given['database'] or 'default'}.{table}"
