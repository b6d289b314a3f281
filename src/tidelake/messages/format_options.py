"""Parses options given as text by their declarations; refuses misspelt ones.

The declarations are values of :class:`tidelake.options.option.Option`, as those of tables are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.options.option import Option
from tidelake.options.text_value import parse_value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """Options of one format or connector. Picklable.

    Parameters
    ----------
    values : mapping
        Parsed values by key, only of the given options.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, given: Mapping[str, str], declared: Iterable[Option[Any]], *, table: str
    ) -> GivenOptions:
        """Parse options.

        Raises
        ------
        InvalidInputError
            A key is unknown, or a value has the wrong type.

        Examples
        --------
        >>> from tidelake.options.option import boolean
        >>> option = boolean("json.ignore-parse-errors", False, "...")
        >>> GivenOptions.parse({"json.ignore-parse-errors": "true"}, [option], table="t")[option]
        True
        """
        known = {option.key: option for option in declared}
        values: dict[str, Any] = {}
        for key, text in given.items():
            option = known.get(key)
            if option is None:
                message = (
                    f"Table '{table}' has the unknown option '{shortened(key)}'."
                    f"{near_names(key, known)} Its options are: {', '.join(sorted(known))}."
                )
                raise InvalidInputError(message, kind="unknown_option", option=key, table=table)
            try:
                values[key] = parse_value(option, text)
            except ValueError as error:
                message = (
                    f"Option '{key}' of table '{table}' is '{shortened(text)}' but must be {error}."
                )
                raise InvalidInputError(
                    message, kind="option_value", option=key, table=table
                ) from error
        return cls(values)

    def __getitem__(self, option: Option[T]) -> T:
        """Return the value of an option, or its default."""
        found: T = self.values.get(option.key, option.default)
        return found

    def has(self, option: Option[Any]) -> bool:
        """Whether an option was given."""
        return option.key in self.values
