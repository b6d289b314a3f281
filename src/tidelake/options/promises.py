"""Options that promise work which nobody does here: a warning names what does not happen.

Such an option (:attr:`~tidelake.options.option.Support.NOT_DONE`) is kept with the table, because
Java Paimon may do the work beside us. Who sets ``tag.callbacks`` relies on it: a call that was not
made is found missing late. So the logger ``tidelake`` gets a warning:

1. when a table is created or altered with the option;
2. at the first write of each process to a table that has it.

The same table, options and process are warned of once. Values that promise nothing (the default)
are passed over, and so are nonsense values, which :func:`check_promises` refuses before.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.options.declared import BY_KEY
from tidelake.options.option import Option, Support
from tidelake.options.table_options import Options
from tidelake.telemetry import PerProcess

LOGGER = "tidelake"
WARNED_MAX = 10_000
"""Tables and their options that a process remembers to have warned of."""

_LOG = logging.getLogger(LOGGER)
_WARNED: PerProcess[dict[tuple[str, str], None]] = PerProcess(dict)

_STRATEGIES = ("auto", "zorder", "hilbert", "order")


def promises_not_kept(options: Options) -> dict[str, list[str]]:
    """The keys that promise what is not done here, by what does not happen.

    Examples
    --------
    >>> promises_not_kept(Options.parse({"snapshot.clean-empty-directories": "true"}))
    {'...': ['snapshot.clean-empty-directories']}
    """
    found: dict[str, list[str]] = {}
    for key, value in options.values.items():
        option = BY_KEY[key]
        if option.support is Support.NOT_DONE and value != option.default:
            found.setdefault(option.reason, []).append(option.key)
    return found


def warn_of_promises(options: Options, *, table: str) -> None:
    """Warn, once for a table and process, of options whose work is not done here."""
    for reason, keys in promises_not_kept(options).items():
        named = ", ".join(f"'{key}'" for key in keys)
        verb = "promises" if len(keys) == 1 else "promise"
        warn_once(table, f"{named} {verb} what Tidelake does not do: {reason}.")


def warn_once(table: str, text: str) -> None:
    """Log a warning of a table, unless this process did so before."""
    warned = _WARNED.value
    if (table, text) in warned:
        return
    if len(warned) >= WARNED_MAX:
        warned.clear()
    warned[table, text] = None
    _LOG.warning("Table %s: %s", table, text)


def check_promises(mapping: Mapping[str, str], *, table: str) -> None:
    """Refuse values that no reader of the option could follow.

    Parameters
    ----------
    mapping : mapping of str to str
        Options as a user gives them, under their keys.

    Raises
    ------
    InvalidInputError
        A strategy is unknown.

    Examples
    --------
    >>> check_promises({"clustering.strategy": "zorder"}, table="db.t")
    >>> check_promises({"clustering.strategy": "zodrer"}, table="db.t")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Table db.t: option 'clustering.strategy' is 'zodrer' but ...
    """
    for key, value in mapping.items():
        option = BY_KEY.get(key)
        if option is None:
            continue
        if key == "clustering.strategy" and value.lower() not in _STRATEGIES:
            near = near_names(value, _STRATEGIES)
            raise _wrong(option, value, table, f"one of {', '.join(_STRATEGIES)}", near=near)


def _wrong(
    option: Option[object], value: str, table: str, wanted: str, *, near: str = ""
) -> InvalidInputError:
    message = (
        f"Table {table}: option '{option.key}' is '{shortened(value)}' but must be {wanted}.{near}"
    )
    return InvalidInputError(message, kind="option_value", option=option.key, table=table)
