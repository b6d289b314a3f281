"""Reads a table of options: a line of cells for each one, split by tabs.

A line that begins with ``#`` is the title of a theme, and the lines below it are its options. The
cells:

1. ``keys``: the key, and behind commas the older ones.
2. ``type``: the text of a :class:`~tidelake.options.option.Kind`.
3. ``default``: as a user writes it, or ``unset``.
4. ``values``: of an Enum its words, of a String the regular expression of its whole text, of a
   number its bounds as ``1..22``, where either may be left out.
5. ``fixed``: this word if ALTER TABLE may not change the option on a table that has data.
6. ``support``: ``supported``, or with a reason ``no effect: why``, ``not done: why``,
   ``refused on read: why`` (``on create and write``, or on every use without ``on``) or
   ``only a|b, refused: why``.
7. ``what it does``: a sentence or more, with the effect of a larger or smaller value.

A mistake in the table is an error when it is read, and so of ``import tidelake``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, cast

from tidelake.options.option import (
    EVERY_ACTION,
    INT_MAX,
    LONG_MAX,
    Action,
    Coverage,
    Kind,
    Option,
    Support,
)
from tidelake.options.text_value import parse_value

HEAD = "keys\ttype\tdefault\tvalues\tfixed\tsupport\twhat it does"
UNSET = "unset"

_BOUNDS: dict[Kind, tuple[int, int | None]] = {
    Kind.INTEGER: (-INT_MAX - 1, INT_MAX),
    Kind.LONG: (-LONG_MAX - 1, LONG_MAX),
    Kind.FLOAT: (0, 1),
    Kind.DOUBLE: (0, 1),
    Kind.MEMORY_SIZE: (0, LONG_MAX),
    Kind.DURATION: (0, None),
}


def themes_of(text: str) -> Mapping[str, tuple[Option[Any], ...]]:
    r"""Read a table of options, by the titles of its themes.

    Raises
    ------
    ValueError
        A line is wrong or declares a key that another one has; the message names the line.

    Examples
    --------
    >>> row = "retries, tries\tInteger\t3\t1..9\t\tno effect: nothing fails\tTries at most."
    >>> themes = themes_of(f"{HEAD}\n# Patience\n{row}\n")
    >>> [(option.key, option.default, option.maximum) for option in themes["Patience"]]
    [('retries', 3, 9)]
    """
    head, *lines = text.splitlines()
    if head != HEAD:
        message = f"Line 1: the head of a table of options is {HEAD!r}."
        raise ValueError(message)
    themes: dict[str, list[Option[Any]]] = {}
    theme: list[Option[Any]] | None = None
    seen: set[str] = set()
    for number, line in enumerate(lines, 2):
        try:
            if line.startswith("# "):
                theme = themes.setdefault(line[2:], [])
                continue
            if theme is None:
                message = "it has no theme above it"
                raise ValueError(message)
            option = _option(line)
            _add_keys(seen, option)
            theme.append(option)
        except ValueError as error:
            message = f"Line {number} of the options: {error}."
            raise ValueError(message) from error
    return MappingProxyType({title: tuple(options) for title, options in themes.items()})


def constants(options: Iterable[Option[Any]]) -> dict[str, Option[Any]]:
    """The constants of the options that act here, by name.

    An option without effect, or whose work is not done, has none: nothing reads it.
    """
    idle = (Support.NO_EFFECT, Support.NOT_DONE)
    return {option.constant: option for option in options if option.support not in idle}


def _add_keys(seen: set[str], option: Option[Any]) -> None:
    for key in (option.key, *option.fallback_keys):
        if key in seen:
            message = f"'{key}' is declared twice"
            raise ValueError(message)
        seen.add(key)


def _option(line: str) -> Option[Any]:
    cells = line.split("\t")
    if len(cells) != HEAD.count("\t") + 1:
        message = f"it has {len(cells)} cells"
        raise ValueError(message)
    keys, kind_name, default, values, fixed, support, description = cells
    key, *older = keys.split(", ")
    kind = Kind(kind_name)
    if fixed not in ("", "fixed"):
        message = f"'{fixed}' is not 'fixed'"
        raise ValueError(message)
    minimum, maximum = _bounds(kind, values)
    declared: partial[Option[Any]] = partial(
        Option,
        key,
        kind,
        description=description,
        coverage=_coverage(support),
        choices=tuple(values.split("|")) if kind is Kind.ENUM else (),
        minimum=minimum,
        maximum=maximum,
        pattern=values if kind is Kind.STRING else "",
        fallback_keys=tuple(older),
        mutable=not fixed,
    )
    option = declared(default=None)
    return option if default == UNSET else declared(default=_default(option, default))


def _default(option: Option[Any], text: str) -> object:
    try:
        return parse_value(option, text)
    except ValueError as error:
        message = f"the default of '{option.key}' must be {error}"
        raise ValueError(message) from error


def _bounds(kind: Kind, values: str) -> tuple[int | None, int | None]:
    if kind in (Kind.ENUM, Kind.STRING):
        return None, None
    if kind not in _BOUNDS:
        if values:
            message = f"type {kind.value} has no values to list"
            raise ValueError(message)
        return None, None
    least, most = _BOUNDS[kind]
    lower, dots, upper = values.partition("..")
    if values and not dots:
        message = f"bounds are written '1..9', not '{values}'"
        raise ValueError(message)
    return int(lower or least), int(upper) if upper else most


@cache
def _coverage(text: str) -> Coverage:
    head, _, reason = text.partition(": ")
    word, on, given = head.partition(" on ")
    accepted = word.removeprefix("only ").removesuffix(", refused") if "only" in word else ""
    support = Support.PARTLY if accepted else _SUPPORT_OF_WORD.get(word)
    actions = frozenset(given.split(" and ")) if on else EVERY_ACTION
    if (
        support is None
        or (reason == "") != (support is Support.SUPPORTED)
        or not actions <= EVERY_ACTION
    ):
        message = f"'{text}' is no support with its reason"
        raise ValueError(message)
    values = tuple(accepted.split("|")) if accepted else ()
    return Coverage(support, reason, values, cast("frozenset[Action]", actions))


_SUPPORT_OF_WORD = {
    "supported": Support.SUPPORTED,
    "no effect": Support.NO_EFFECT,
    "not done": Support.NOT_DONE,
    "refused": Support.REFUSED,
}
