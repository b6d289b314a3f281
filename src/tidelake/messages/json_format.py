"""The format ``json``: a message is an object with a member for each column.

Source of options, defaults and texts: Flink 2.1's ``json`` format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import UnsupportedError
from tidelake.messages.decoded import BadMessage, Decoded, kept_rows
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_rows import JsonRows, json_decoder
from tidelake.messages.json_texts import TextStyle, json_objects, object_encoder
from tidelake.messages.json_values import check_json, has_decimals
from tidelake.messages.text_parsing import ISO, SQL
from tidelake.options.option import Option, boolean, enumeration, text
from tidelake.types import DataField, RowKind


def common_options(prefix: str) -> tuple[Option[Any], ...]:
    """Declare the options of all formats in JSON."""
    return (
        boolean(
            f"{prefix}.ignore-parse-errors",
            False,
            "Whether to read a value that does not fit as null, and leave out a message that is"
            " not JSON.",
        ),
        enumeration(
            f"{prefix}.timestamp-format.standard",
            SQL,
            (SQL, ISO),
            "The text form of timestamps: '2026-11-24 06:00:00.123', or with T between.",
        ),
        enumeration(
            f"{prefix}.map-null-key.mode",
            "FAIL",
            ("FAIL", "DROP", "LITERAL"),
            "What to do with a null key of a map; no effect, since no map here has one.",
        ),
        text(f"{prefix}.map-null-key.literal", "null", "The key to write for a null key."),
        boolean(
            f"{prefix}.encode.decimal-as-plain-number",
            False,
            "Whether to write 2.7E-8 as 0.000000027.",
        ),
        boolean(
            f"{prefix}.encode.ignore-null-fields",
            False,
            "Whether to leave null columns out of the message.",
        ),
    )


JSON_OPTIONS = (
    boolean("json.fail-on-missing-field", False, "Whether a message must have all columns."),
    boolean("json.decode.json-parser.enabled", True, "Which of Flink's parsers; no effect here."),
    *common_options("json"),
)


def option_value(options: GivenOptions, prefix: str, name: str) -> Any:
    """Return the value of a common option under a format's prefix."""
    wanted = f"{prefix}.{name}"
    return options[next(o for o in common_options(prefix) if o.key == wanted)]


def wanted_fields(fields: Sequence[DataField], columns: Sequence[str]) -> list[DataField]:
    """Select the columns wanted, in their order."""
    named = {f.name: f for f in fields}
    return [named[name] for name in columns]


def json_rows(
    fields: Sequence[DataField], options: GivenOptions, prefix: str, *, fails_on_missing: bool
) -> JsonRows:
    """Make the reader of the columns wanted, with a format's options."""
    return JsonRows(
        fields,
        standard=option_value(options, prefix, "timestamp-format.standard"),
        fails_on_missing=fails_on_missing,
        ignores_errors=option_value(options, prefix, "ignore-parse-errors"),
    )


def decoded_objects(
    decode: Any, values: Sequence[bytes | None]
) -> tuple[list[Any], list[int], list[BadMessage]]:
    """Decode messages to objects, the positions of their messages, and those that are not JSON."""
    try:
        return list(map(decode, values)), list(range(len(values))), []
    except (msgspec.DecodeError, TypeError, UnicodeDecodeError):
        pass  # one of them is bad or null: find it
    rows: list[Any] = []
    at: list[int] = []
    bad: list[BadMessage] = []
    for position, value in enumerate(values):
        if value is None:
            continue
        try:
            rows.append(decode(value))
            at.append(position)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            bad.append(BadMessage(position, f"not JSON of this format: {error}"))
    return rows, at, bad


class JsonDecoder:
    """Reads messages of the format ``json``."""

    def __init__(
        self, fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
    ) -> None:
        wanted = wanted_fields(fields, columns)
        check_json(wanted, what="messages of JSON")
        self._ignores = option_value(options, "json", "ignore-parse-errors")
        self._rows = json_rows(wanted, options, "json", fails_on_missing=options[JSON_OPTIONS[0]])
        exact = any(has_decimals(f.type) for f in wanted)
        self._decode = json_decoder(self._rows.kind, exact=exact).decode

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages."""
        rows, at, bad = decoded_objects(self._decode, values)
        columns, misfits = self._rows.columns(rows)
        return kept_rows(columns, self._rows.names, at, () if self._ignores else bad, misfits)


def text_style(options: GivenOptions, prefix: str) -> TextStyle:
    """Make the text style of a format from its options."""
    return TextStyle(
        standard=option_value(options, prefix, "timestamp-format.standard"),
        plain_decimals=option_value(options, prefix, "encode.decimal-as-plain-number"),
        omits_nulls=option_value(options, prefix, "encode.ignore-null-fields"),
    )


def refuse_changes(kinds: NDArray[np.int8] | None, *, what: str) -> None:
    """Refuse rows that are not inserts.

    Raises
    ------
    UnsupportedError
        The format has no message for another kind of row.
    """
    if kinds is not None and np.any(kinds != int(RowKind.INSERT)):
        message = (
            f"The format '{what}' has messages for inserts only: write updates and deletes as"
            " 'debezium-json', or into a table of the connector 'upsert-kafka'."
        )
        raise UnsupportedError(message, kind="row_kind", format=what)


class JsonEncoder:
    """Writes messages of the format ``json``."""

    def __init__(self, fields: Sequence[DataField], options: GivenOptions) -> None:
        check_json(fields, what="messages of JSON")
        self._fields = tuple(fields)
        self._style = text_style(options, "json")
        self._encode = object_encoder()

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row."""
        refuse_changes(kinds, what="json")
        return list(map(self._encode, json_objects(rows, self._fields, self._style)))
