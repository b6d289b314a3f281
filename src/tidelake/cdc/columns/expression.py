"""What a computed column's expression is: a reference to one column, a type, values for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from tidelake.types import DataType, TypeRoot, parse_type
from tidelake.types.cast import cast_values

STRING = parse_type("STRING")
INT = parse_type("INT")
TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_WITHOUT_TEXT = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.VARIANT})


class DefinitionError(ValueError):
    """A definition that has no meaning; the text is a clause, ends with what to do."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When and where values are computed.

    Parameters
    ----------
    now_ms : int
        Milliseconds since 1970 in UTC.
    zone : str
        The job's time zone by its IANA name: where instants are read as local times.
    """

    now_ms: int
    zone: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Values of an expression.

    Parameters
    ----------
    values : pyarrow.Array
        A value for each row; null where a fault is.
    faults : mapping of int to str
        For rows whose value cannot be computed a clause that says why.
    """

    values: pa.Array
    faults: Mapping[int, str] = field(default_factory=dict)


class Expression(Protocol):
    """A function with its arguments."""

    @property
    def reference(self) -> str | None:
        """The column that it reads; None for a constant."""
        ...

    @property
    def type(self) -> DataType:
        """Type of its values."""
        ...

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:
        """Compute a value for each row.

        Parameters
        ----------
        values : pyarrow.Array
            The column of the reference; of a constant any array with a place for each row. A null
            gives null.
        """
        ...


def has_text(data_type: DataType) -> bool:
    """Whether values of a type have a text form."""
    return not data_type.is_nested and data_type.root not in _WITHOUT_TEXT


def texts_of(values: pa.Array, data_type: DataType, *, zone: str) -> pa.Array:
    """Write values as texts, as a cast to STRING does; texts stay as they are."""
    return values if data_type.root in TEXTS else cast_values(values, data_type, STRING, zone=zone)
