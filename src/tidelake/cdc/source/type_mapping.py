"""Switches of the mapping from a source's types to ours: Paimon's ``--type_mapping``.

Source: org.apache.paimon.flink.action.cdc.TypeMapping, whose spellings have dashes. Two of them are
printed with underscores in Paimon's pages, so both are taken. ``unknown-to-string`` is our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tidelake.errors import InvalidInputError, near_names


class Switch(StrEnum):
    """One switch."""

    TINYINT1_NOT_BOOL = "tinyint1-not-bool"
    TO_NULLABLE = "to-nullable"
    TO_STRING = "to-string"
    CHAR_TO_STRING = "char-to-string"
    LONGTEXT_TO_BYTES = "longtext-to-bytes"
    DECIMAL_NO_CHANGE = "decimal-no-change"
    BIGINT_UNSIGNED_TO_BIGINT = "bigint-unsigned-to-bigint"
    ALLOW_NON_STRING_TO_STRING = "allow-non-string-to-string"
    UNKNOWN_TO_STRING = "unknown-to-string"


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """The switches that are on.

    Examples
    --------
    >>> mapping = TypeMapping.of(["to-nullable", "char-to-string"])
    >>> Switch.TO_STRING in mapping
    False
    """

    switches: frozenset[Switch] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> TypeMapping:
        """Read the switches' names.

        Raises
        ------
        InvalidInputError
            There is no such switch; the message has near names.
        """
        known = {str(switch): switch for switch in Switch}
        found = set()
        for name in names:
            switch = known.get(name.strip().lower().replace("_", "-"))
            if switch is None:
                hint = near_names(name, known)
                message = (
                    f"There is no type mapping '{name}'.{hint or ' Known: ' + ', '.join(known)}"
                )
                raise InvalidInputError(message, kind="option_value", option="type_mapping")
            found.add(switch)
        return cls(frozenset(found))

    def __contains__(self, switch: Switch) -> bool:
        return switch in self.switches
