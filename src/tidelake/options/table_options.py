"""A table's options, parsed once: :class:`Options`.

1. The constructor parses the texts of all known keys. So a bad text is reported before a read or
   write, and ``get`` is a look-up.
2. A key's older names are read if the key itself is absent.
3. Unknown keys are kept unchanged: a table of a later Paimon loses none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast

from tidelake.errors import InvalidInputError, shortened
from tidelake.options.declared import BY_KEY
from tidelake.options.option import Kind, Option
from tidelake.options.text_value import parse_value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one table; frozen and picklable.

    Made by :meth:`parse`. ``raw`` holds the texts as stored.

    Examples
    --------
    >>> from tidelake.options import declared
    >>> options = Options.parse({"bucket": "4", "write-buffer-size": "64 mb"})
    >>> options.get(declared.BUCKET), options.get(declared.WRITE_BUFFER_SIZE)
    (4, 67108864)
    >>> options.get(declared.MERGE_ENGINE), options.is_set(declared.MERGE_ENGINE)
    ('deduplicate', False)
    """

    raw: Mapping[str, str]
    table: str = ""
    _values: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def parse(cls, mapping: Mapping[str, str], *, table: str = "") -> Options:
        """Parse a table's options.

        Parameters
        ----------
        mapping : mapping of str to str
            The options as stored.
        table : str
            The table's name, for messages.

        Returns
        -------
        Options
            The parsed options; unknown keys stay in ``raw``.

        Raises
        ------
        InvalidInputError
            A known key has a wrong value.
        """
        raw = {str(key): str(value) for key, value in mapping.items()}
        values: dict[str, object] = {}
        for option in _named(raw):
            stored = _stored(option, raw)
            if stored is None:
                continue
            stored_key, given = stored
            try:
                values[option.key] = parse_value(option, given)
            except ValueError as error:
                shown = shortened(given)
                message = f"{_of(table)}ption '{stored_key}' is '{shown}' but must be {error}."
                raise InvalidInputError(
                    message, kind="option_value", option=stored_key, table=table
                ) from error
        return cls(MappingProxyType(raw), table, MappingProxyType(values))

    def get(self, option: Option[T]) -> T:
        """Return the value of an option, or its default if it is unset.

        Memory sizes are bytes, durations milliseconds.
        """
        return cast("T", self._values.get(option.key, option.default))

    def is_set(self, option: Option[Any]) -> bool:
        """Whether the table sets the option, under this key or an older one."""
        return option.key in self._values

    @property
    def values(self) -> Mapping[str, object]:
        """Values of the options that the table sets, by key, in the order of the declarations."""
        return self._values

    def updated(self, mapping: Mapping[str, str]) -> Options:
        """Return these options with some other texts.

        Raises
        ------
        InvalidInputError
            A known key has a wrong value.
        """
        return Options.parse({**self.raw, **mapping}, table=self.table)

    def __reduce__(self) -> tuple[object, ...]:
        # mapping proxies do not pickle, and options travel to Spark executors
        return (_parse_raw, (dict(self.raw), self.table))

    def __hash__(self) -> int:
        return hash((frozenset(self.raw.items()), self.table))


def _parse_raw(raw: dict[str, str], table: str) -> Options:
    return Options.parse(raw, table=table)


_DECLARED: tuple[Option[Any], ...] = tuple(BY_KEY.values())
_BY_NAME: dict[str, list[int]] = {}
"""Places in ``_DECLARED`` of the options that a key sets, by the key or an older one."""
for _place, _option in enumerate(_DECLARED):
    for _name in (_option.key, *_option.fallback_keys):
        _BY_NAME.setdefault(_name, []).append(_place)
_MAPS = tuple(place for place, option in enumerate(_DECLARED) if option.kind is Kind.MAP)


def _named(raw: Mapping[str, str]) -> list[Option[Any]]:
    """The options that may be set, as declared: a table sets few of some hundreds."""
    places = {place for key in raw for place in _BY_NAME.get(key, ())}
    return [_DECLARED[place] for place in sorted(places.union(_MAPS))]


def _stored(option: Option[Any], raw: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the stored key and text of an option."""
    for key in (option.key, *option.fallback_keys):
        if key in raw:
            return key, raw[key]
    if option.kind is Kind.MAP:
        prefix = option.key + "."
        pairs = [f"{k.removeprefix(prefix)}:{v}" for k, v in raw.items() if k.startswith(prefix)]
        if pairs:
            return option.key, ",".join(pairs)
    return None


def _of(table: str) -> str:
    return f"Table {table}: o" if table else "O"
