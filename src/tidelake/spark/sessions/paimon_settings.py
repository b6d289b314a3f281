"""Paimon's session settings ``spark.paimon.<option>``.

1. ``spark.paimon.<option>`` applies to every table.
2. ``spark.paimon.<catalog>.<database>.<table>.<option>`` applies to some and wins; each part may be
   ``*``. The catalog must be ``*``: a table does not know its catalog's name.
3. Of several for a table, the one with fewer ``*`` wins.

Other settings are ignored, for Paimon's own connector may be in the session too. Only ``SET`` of
such a setting in a statement is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.options import is_option
from tidelake.options.declared import BY_KEY

PAIMON_PREFIX = "spark.paimon."
ANY = "*"
_PARTS = 4  # catalog, database, table, and the option behind them


def paimon_options(conf: Mapping[str, str], *, table: str) -> dict[str, str]:
    """Return the options that a session's ``spark.paimon.`` settings set for a table.

    Returns
    -------
    dict of str to str
        By the option's key.

    Raises
    ------
    InvalidInputError
        A setting for this table names a catalog.

    Examples
    --------
    >>> conf = {
    ...     "spark.paimon.write-only": "true",
    ...     "spark.paimon.*.*.t.scan.snapshot-id": "1",
    ...     "spark.paimon.*.db.t.scan.snapshot-id": "2",
    ... }
    >>> paimon_options(conf, table="db.t")
    {'write-only': 'true', 'scan.snapshot-id': '2'}
    """
    found: dict[str, tuple[int, str]] = {}
    for setting, value in conf.items():
        if not setting.startswith(PAIMON_PREFIX):
            continue
        split = _split(setting)
        if split is None or not _fits(split[0], table):
            continue
        scope, key = split
        if scope and scope[0] != ANY:
            message = (
                f"Setting '{shortened(setting)}' names the catalog '{scope[0]}': write"
                f" '{PAIMON_PREFIX}*.{table}.{key}'."
            )
            raise InvalidInputError(message, kind="session_setting", option=setting)
        named = sum(part != ANY for part in scope) + bool(scope)
        if key not in found or named >= found[key][0]:
            found[key] = (named, value)
    return {key: value for key, (_, value) in found.items()}


def check_paimon_setting(setting: str) -> None:
    """Refuse a setting that is no table option.

    Raises
    ------
    InvalidInputError
        The option is unknown.
    """
    if not setting.startswith(PAIMON_PREFIX) or _split(setting) is not None:
        return
    name = setting.removeprefix(PAIMON_PREFIX)
    message = (
        f"Setting '{shortened(setting)}' is no table option."
        f"{near_names(name, BY_KEY)} Write '{PAIMON_PREFIX}<option>', or"
        f" '{PAIMON_PREFIX}*.<database>.<table>.<option>' for one table."
    )
    raise InvalidInputError(message, kind="unknown_option", option=setting)


def _split(setting: str) -> tuple[tuple[str, ...], str] | None:
    """Split into scope, empty for all tables, and option; None for another setting."""
    name = setting.removeprefix(PAIMON_PREFIX)
    if is_option(name):
        return (), name
    parts = name.split(".", _PARTS - 1)
    if len(parts) == _PARTS and is_option(parts[-1]):
        return tuple(parts[:-1]), parts[-1]
    return None


def _fits(scope: tuple[str, ...], table: str) -> bool:
    database, _, name = table.partition(".")
    return not scope or (scope[1] in {ANY, database} and scope[2] in {ANY, name})
