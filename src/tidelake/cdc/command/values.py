"""Arguments as values: of a file, or of a call in Python. They become texts as a command line's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelake.cdc.command.argument import Argument, Shape
from tidelake.cdc.command.given import Given, checked, known_argument, wrong

_PLAIN = (str, int, float, bool)


def given_of(command: str, values: Mapping[str, object]) -> Given:
    """Read values by the arguments' names.

    Parameters
    ----------
    values : mapping
        Pairs are mappings, which may have mappings inside: ``{"slot": {"name": "s"}}`` is
        ``slot.name``. Names may be lists. None leaves an argument out.

    Raises
    ------
    InvalidInputError
        A name is unknown, or a value is of the wrong form; the message has near names.

    Examples
    --------
    >>> given_of("mysql_sync_table", {"primary_keys": ["a", "b"], "once": True, "max-rows": 7})
    {'primary_keys': ('a', 'b'), 'once': (), 'max_rows': ('7',)}
    """
    given: dict[str, tuple[str, ...]] = {}
    for key, value in values.items():
        argument = known_argument(command, key.replace("-", "_"), shown=key)
        if argument.name in given:
            raise wrong(argument.name, f"'{argument.name}' is given more than once: give it once.")
        texts = None if value is None else _texts(argument, value)
        if texts is not None:
            given[argument.name] = texts
    return checked(command, given)


def _texts(argument: Argument, value: object) -> tuple[str, ...] | None:
    """The texts of a value; None for a flag that is off."""
    name = argument.name
    if argument.shape is Shape.FLAG:
        if not isinstance(value, bool):
            raise wrong(name, f"'{name}' is true or false.")
        return () if value else None
    if argument.shape in {Shape.PAIRS, Shape.LISTS}:
        if not isinstance(value, Mapping):
            raise wrong(name, f"'{name}' is a table: write [{name}], then key = value.")
        return tuple(f"{key}={_joined(name, key, part)}" for key, part in _flat(value))
    if argument.shape in {Shape.NAMES, Shape.TEXTS} and isinstance(value, (list, tuple)):
        return tuple(_plain(name, part) for part in value)
    return (_plain(name, value),)


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """The keys of a table with those of tables inside it: ``a.b = 1`` is a table in a table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _joined(name: str, key: str, value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(_plain(f"{name}.{key}", part) for part in value)
    return _plain(f"{name}.{key}", value)


def _plain(name: str, value: object) -> str:
    if not isinstance(value, _PLAIN):
        raise wrong(name, f"'{name}' is a text, a number, true or false.")
    return str(value).lower() if isinstance(value, bool) else str(value)
