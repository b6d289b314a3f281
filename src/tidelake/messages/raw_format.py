"""The format ``raw``: the message is the value of the only column.

Text in a charset, bytes as they are, numbers in a fixed width by ``raw.endianness``, a boolean as
one byte. Source: Flink 2.1's ``raw`` format.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.messages.decoded import Decoded, kept_rows
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_format import refuse_changes
from tidelake.messages.text_parsing import TEXT_ROOTS
from tidelake.options.option import enumeration, text
from tidelake.types import DataField, TypeRoot
from tidelake.types.arrow import to_arrow_type

BIG, LITTLE = "big-endian", "little-endian"
CHARSET = text("raw.charset", "UTF-8", "The charset of a text column.")
ENDIANNESS = enumeration("raw.endianness", BIG, (BIG, LITTLE), "The order of a number's bytes.")
RAW_OPTIONS = (CHARSET, ENDIANNESS)

_WIDTHS = {
    TypeRoot.BOOLEAN: "?",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "i2",
    TypeRoot.INT: "i4",
    TypeRoot.BIGINT: "i8",
    TypeRoot.FLOAT: "f4",
    TypeRoot.DOUBLE: "f8",
}
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})


def _checked(fields: Sequence[DataField]) -> DataField:
    if len(fields) != 1:
        message = f"The format 'raw' takes one column, not {len(fields)}."
        raise InvalidInputError(message, kind="column_count", format="raw")
    (field,) = fields
    if field.type.root not in _WIDTHS and field.type.root not in TEXT_ROOTS | _BYTES:
        message = (
            f"Column '{field.name}' of type {field.type} cannot be in the format 'raw': use text,"
            " bytes, a number or BOOLEAN."
        )
        raise UnsupportedError(message, kind="column_type", column=field.name)
    return field


def _charset(options: GivenOptions) -> str:
    name = options[CHARSET]
    try:
        "".encode(name)
    except LookupError as error:
        message = (
            f"Option 'raw.charset' is '{name}', which is not a known charset: use one such as"
            " UTF-8."
        )
        raise InvalidInputError(message, kind="option_value", option="raw.charset") from error
    return name


def _dtype(field: DataField, options: GivenOptions) -> np.dtype[np.generic] | None:
    width = _WIDTHS.get(field.type.root)
    if width is None:
        return None
    return np.dtype((">" if options[ENDIANNESS] == BIG else "<") + width)


class RawDecoder:
    """Reads messages of the format ``raw``."""

    def __init__(
        self, fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
    ) -> None:
        self._field = _checked(fields)
        self._names = list(columns)
        self._charset = _charset(options)
        self._dtype = _dtype(self._field, options)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages."""
        at = [n for n, value in enumerate(values) if value is not None]
        given = [value for value in values if value is not None]
        column, misfits = self._column(given)
        return kept_rows([column] * len(self._names), self._names, at, (), misfits)

    def _column(self, values: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        target = to_arrow_type(self._field.type)
        if self._dtype is not None:
            width = self._dtype.itemsize
            bad = {
                n: (
                    f"column '{self._field.name}': {len(value)} bytes are not a value of type"
                    f" {self._field.type}"
                )
                for n, value in enumerate(values)
                if len(value) != width
            }
            fit = [bytes(width) if n in bad else v for n, v in enumerate(values)] if bad else values
            numbers = np.frombuffer(b"".join(fit), self._dtype)
            return pa.array(numbers.astype(self._dtype.newbyteorder("=")), target), bad
        if self._field.type.root in _BYTES:
            return pa.array(values, target), {}
        texts: list[str | None] = []
        wrong: dict[int, str] = {}
        for number, value in enumerate(values):
            try:
                texts.append(value.decode(self._charset))
            except UnicodeDecodeError:
                texts.append(None)
                wrong[number] = f"column '{self._field.name}': not text in {self._charset}"
        return pa.array(texts, target), wrong


class RawEncoder:
    """Writes messages of the format ``raw``."""

    def __init__(self, fields: Sequence[DataField], options: GivenOptions) -> None:
        self._field = _checked(fields)
        self._charset = _charset(options)
        self._dtype = _dtype(self._field, options)

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row; refuses a null, which has no bytes.

        Raises
        ------
        InvalidInputError
            A value is null.
        """
        refuse_changes(kinds, what="raw")
        column = rows.column(0)
        if column.null_count:
            message = (
                f"Column '{self._field.name}' is null, and the format 'raw' has no message for it:"
                " leave such rows out."
            )
            raise InvalidInputError(message, kind="null_value", column=self._field.name)
        if self._dtype is not None:
            stored = column.to_numpy(zero_copy_only=False).astype(self._dtype).tobytes()
            width = self._dtype.itemsize
            return [stored[n : n + width] for n in range(0, len(stored), width)]
        values = column.to_pylist()
        if self._field.type.root in _BYTES:
            return list(values)
        return [value.encode(self._charset) for value in values]
