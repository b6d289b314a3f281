"""The formats by name: their options, decoders and encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.messages.avro_format import AVRO_OPTIONS, AvroDecoder, AvroEncoder
from tidelake.messages.change_logs import (
    CANAL_OPTIONS,
    DEBEZIUM_OPTIONS,
    MAXWELL_OPTIONS,
    DebeziumEncoder,
    canal_decoder,
    debezium_decoder,
    maxwell_decoder,
)
from tidelake.messages.csv_format import CSV_OPTIONS, CsvDecoder, CsvEncoder
from tidelake.messages.decoded import Decoder, Encoder
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_format import JSON_OPTIONS, JsonDecoder, JsonEncoder
from tidelake.messages.raw_format import RAW_OPTIONS, RawDecoder, RawEncoder
from tidelake.options.option import Option
from tidelake.types import DataField


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """One format.

    Parameters
    ----------
    name : str
        The value of ``format``.
    decoder : callable
        Makes a decoder from all columns, the names of those wanted, and the options.
    encoder : callable, optional
        Makes an encoder from all columns and the options; None for a read-only format.
    has_changes : bool
        Whether messages give the kind of each row.
    """

    name: str
    options: tuple[Option[Any], ...]
    decoder: Callable[[Sequence[DataField], Sequence[str], GivenOptions], Decoder]
    encoder: Callable[[Sequence[DataField], GivenOptions], Encoder] | None
    has_changes: bool = False

    def writer(self, fields: Sequence[DataField], options: GivenOptions) -> Encoder:
        """Return the function that makes the encoder.

        Raises
        ------
        UnsupportedError
            The format is read-only.
        """
        if self.encoder is None:
            written = ", ".join(f"'{n}'" for n, f in FORMATS.items() if f.encoder is not None)
            message = f"The format '{self.name}' is read-only: write one of {written}."
            raise UnsupportedError(message, kind="format", format=self.name)
        return self.encoder(fields, options)


FORMATS: Mapping[str, MessageFormat] = MappingProxyType(
    {
        one.name: one
        for one in (
            MessageFormat("json", JSON_OPTIONS, JsonDecoder, JsonEncoder),
            MessageFormat("avro", AVRO_OPTIONS, AvroDecoder, AvroEncoder),
            MessageFormat("csv", CSV_OPTIONS, CsvDecoder, CsvEncoder),
            MessageFormat("raw", RAW_OPTIONS, RawDecoder, RawEncoder),
            MessageFormat(
                "debezium-json",
                DEBEZIUM_OPTIONS,
                debezium_decoder,
                DebeziumEncoder,
                has_changes=True,
            ),
            MessageFormat("canal-json", CANAL_OPTIONS, canal_decoder, None, has_changes=True),
            MessageFormat("maxwell-json", MAXWELL_OPTIONS, maxwell_decoder, None, has_changes=True),
        )
    }
)
"""All formats by name."""


def format_named(name: str, *, option: str, table: str) -> MessageFormat:
    """Find a format by name.

    Raises
    ------
    InvalidInputError
        There is no such format.
    """
    found = FORMATS.get(name)
    if found is None:
        message = (
            f"Option '{option}' of table '{table}' is '{name}', which is not a format of"
            f" messages.{near_names(name, FORMATS)} Formats are: {', '.join(FORMATS)}."
        )
        raise InvalidInputError(message, kind="format", option=option, table=table)
    return found
