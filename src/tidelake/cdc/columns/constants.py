"""``cast(literal, type)`` and ``now()``: values that depend on no column."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import pyarrow as pa

from tidelake.cdc.columns.expression import STRING, TEXTS, DefinitionError, Evaluated, Moment
from tidelake.errors import TidelakeError
from tidelake.types import DataType, TypeRoot, parse_type
from tidelake.types.cast import cast_values
from tidelake.types.data_type import STRING_LENGTH_MAX

_NOW = parse_type("TIMESTAMP(3)")
_INSTANT = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value in each row."""

    type: DataType
    value: pa.Scalar

    @classmethod
    def of(cls, text: str, data_type: DataType, *, zone: str) -> Constant:
        """Read a literal.

        Raises
        ------
        DefinitionError
            It is no value of the type.
        """
        value = _value(text, data_type, zone)
        length = data_type.length or STRING_LENGTH_MAX
        if not value.is_valid or (data_type.root in TEXTS and len(text) > length):
            raise DefinitionError(f"'{text}' is no {data_type.as_nullable()}: give one")
        return cls(data_type, value)

    @property
    def reference(self) -> None:
        """None."""
        return

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:  # noqa: ARG002
        """Repeat the value."""
        return Evaluated(pa.repeat(self.value, len(values)))


def _value(text: str, data_type: DataType, zone: str) -> pa.Scalar:
    if data_type.is_nested or data_type.root is TypeRoot.VARIANT:
        raise DefinitionError(f"there are no literals of type {data_type}: take a plain type")
    if data_type.root is TypeRoot.BINARY:
        try:
            return pa.scalar(base64.b64decode(text, validate=True), pa.binary())
        except binascii.Error as error:
            raise DefinitionError(f"'{text}' is not Base64, the form of a BINARY") from error
    try:
        return cast_values(pa.array([text], pa.string()), STRING, data_type, zone=zone)[0]
    except TidelakeError as error:
        raise DefinitionError(error.message.removesuffix(".")) from error


@dataclass(frozen=True, slots=True)
class Now:
    """The local time at which a batch is computed."""

    @property
    def reference(self) -> None:
        """None."""
        return

    @property
    def type(self) -> DataType:
        """TIMESTAMP(3), as Paimon's."""
        return _NOW

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:
        """Repeat the time."""
        instant = pa.array([moment.now_ms]).cast(pa.timestamp("ms", "UTC"))
        local = cast_values(instant, _INSTANT, _NOW, zone=moment.zone)
        return Evaluated(pa.repeat(local[0], len(values)))
