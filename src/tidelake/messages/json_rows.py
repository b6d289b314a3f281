"""Decodes JSON objects to the columns wanted, and no others.

msgspec decodes an object to a class with a slot for each column wanted, and skips other members
without a Python value. The slots take any JSON value. :mod:`tidelake.messages.json_values` checks
types column by column, so that one wrong value is one bad message.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from tidelake.messages.json_values import column_reader
from tidelake.types import DataField

Place = tuple[int, Any]


def json_decoder(kind: type, *, exact: bool) -> msgspec.json.Decoder[Any]:
    """Make a decoder for a class; `exact` keeps every digit of numbers."""
    # numbers stay text here, and become floats later where that is their type
    return msgspec.json.Decoder(kind, float_hook=_digits if exact else None)


class _Digits(float):
    """A float that keeps its text."""

    __slots__ = ("text",)
    text: str

    def __str__(self) -> str:
        return self.text


def _digits(text: str) -> float:
    made = _Digits(text)
    made.text = text
    return made


class JsonRows:
    """Decodes the columns of objects.

    Parameters
    ----------
    fails_on_missing : bool
        Whether an object must have all columns wanted.
    ignores_errors : bool
        Whether a value that does not fit is null, and not a bad message.
    """

    def __init__(
        self,
        fields: Sequence[DataField],
        *,
        standard: str,
        fails_on_missing: bool = False,
        ignores_errors: bool = False,
    ) -> None:
        self.names = [f.name for f in fields]
        self._slots = [f"f{number}" for number in range(len(fields))]
        self.kind: type = msgspec.defstruct(
            "Row",
            [(slot, Any, msgspec.UNSET) for slot in self._slots],
            rename=dict(zip(self._slots, self.names, strict=True)),
            gc=False,
        )
        self._readers = [column_reader(f, standard) for f in fields]
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors

    def columns(self, rows: Sequence[Any]) -> tuple[list[pa.Array], dict[int, str]]:
        """Make the columns of decoded objects; return the reason for each bad object, too."""
        columns: list[pa.Array] = []
        bad: dict[int, str] = {}
        for slot, reader in zip(self._slots, self._readers, strict=True):
            values = list(map(attrgetter(slot), rows))
            if msgspec.UNSET in values:
                values = self._without_missing(values, reader.name, bad)
            column, misfits = reader.read(values)
            if not self._ignores_errors:
                bad = {**misfits, **bad}
            columns.append(column)
        return columns, bad

    def _without_missing(self, values: list[Any], name: str, bad: dict[int, str]) -> list[Any]:
        if self._fails_on_missing:
            for position, value in enumerate(values):
                if value is msgspec.UNSET:
                    bad.setdefault(position, f"column '{name}' is missing")
        return [None if value is msgspec.UNSET else value for value in values]

    def updated(self, after: Any, old: Any) -> Any:
        """Make the old row of an update: its old values, else the new ones."""
        values = (getattr(old, slot) for slot in self._slots)
        return self.kind(
            *(
                getattr(after, slot) if value is msgspec.UNSET else value
                for slot, value in zip(self._slots, values, strict=True)
            )
        )
