"""The format ``csv``: a message is one line, its values in the order of the columns.

Arrow splits lines without quotes and escapes, a whole block at once; Python's ``csv`` splits the
others. A column of another type than text is null if its value is empty or is the null literal.
Source of options and defaults: Flink 2.1's ``csv`` format.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.messages.columns import ColumnReader
from tidelake.messages.decoded import BadMessage, Decoded, kept_rows
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_format import refuse_changes, wanted_fields
from tidelake.messages.json_texts import short_floats
from tidelake.messages.text_parsing import (
    SQL,
    TEXT_ROOTS,
    text_parser,
    time_texts,
    times_of_texts,
)
from tidelake.options.option import Option, boolean, text
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type

DELIMITER = text("csv.field-delimiter", ",", "The text between values; '\\t' is a tab.")
NO_QUOTES = boolean("csv.disable-quote-character", False, "Whether values have no quote character.")
QUOTE = text("csv.quote-character", '"', "The character around a value that holds a delimiter.")
COMMENTS = boolean(
    "csv.allow-comments", False, ("Whether to leave out a message that begins with #.")
)
IGNORES = boolean(
    "csv.ignore-parse-errors",
    False,
    "Whether to read a value that does not fit as null, and leave out a message with other"
    " columns.",
)
ARRAYS = text("csv.array-element-delimiter", ";", "The text between elements of an array.")
ESCAPE = text(
    "csv.escape-character",
    None,
    ("The escape character, which makes the next character a literal."),
)
NULL = text("csv.null-literal", None, "The text that stands for null.")
SCIENTIFIC = boolean(
    "csv.write-bigdecimal-in-scientific-notation", True, "Whether decimals have an exponent."
)
CSV_OPTIONS: tuple[Option[Any], ...] = (
    DELIMITER, NO_QUOTES, QUOTE, COMMENTS, IGNORES, ARRAYS, ESCAPE, NULL, SCIENTIFIC,
)  # fmt: skip

_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_WITH_TEXTS = _TIMES | {TypeRoot.TIME}


def _checked(fields: Sequence[DataField]) -> None:
    for field in fields:
        kind = field.type
        inside = kind.children[0] if kind.root is TypeRoot.ARRAY else kind
        if inside.is_nested or inside.root is TypeRoot.VARIANT:
            message = (
                f"Column '{field.name}' of type {kind} cannot be in messages of CSV: a line has"
                " values and arrays of values only. Use the format 'json'."
            )
            raise UnsupportedError(message, kind="column_type", column=field.name)


def _character(options: GivenOptions, option: Option[Any]) -> str | None:
    given = options[option]
    if given is None:
        return None
    found = given.encode().decode("unicode_escape") if given.startswith("\\") else given
    if len(found) != 1:
        message = f"Option '{option.key}' is '{given}' but must be one character."
        raise InvalidInputError(message, kind="option_value", option=option.key)
    return str(found)


class _Dialect:
    """The characters of a table's lines."""

    def __init__(self, options: GivenOptions) -> None:
        self.delimiter = _character(options, DELIMITER) or ","
        self.quote = None if options[NO_QUOTES] else _character(options, QUOTE)
        self.escape = _character(options, ESCAPE)

    def arguments(self) -> dict[str, Any]:
        """The arguments of Python's ``csv``."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "escapechar": self.escape,
            "doublequote": True,
            "quoting": quoting,
        }


class CsvDecoder:
    """Reads messages of the format ``csv``."""

    def __init__(
        self, fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
    ) -> None:
        _checked(fields)
        self._count = len(fields)
        places = {f.name: n for n, f in enumerate(fields)}
        self._places = [places[name] for name in columns]
        self._dialect = _Dialect(options)
        self._null = options[NULL]
        self._skips_comments = options[COMMENTS]
        self._ignores = options[IGNORES]
        self._readers = [_reader(f, options[ARRAYS]) for f in wanted_fields(fields, columns)]

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages."""
        texts, at, bad = self._texts(values)
        lines = self._split_by_arrow(texts)
        if lines is None:
            lines, at, faults = self._split_alone(texts, at)
            bad += faults
        columns: list[pa.Array] = []
        misfits: dict[int, str] = {}
        for reader, place in zip(self._readers, self._places, strict=True):
            column, wrong = reader.read(self._with_nulls(lines[place], reader.data_type))
            columns.append(column)
            misfits |= wrong
        if self._ignores:
            bad, misfits = [], {}
        return kept_rows(columns, [r.name for r in self._readers], at, bad, misfits)

    def _texts(
        self, values: Sequence[bytes | None]
    ) -> tuple[list[str], list[int], list[BadMessage]]:
        texts: list[str] = []
        at: list[int] = []
        bad: list[BadMessage] = []
        for position, value in enumerate(values):
            if value is None:
                continue
            try:
                line = value.decode()
            except UnicodeDecodeError:
                bad.append(BadMessage(position, "not text in UTF-8"))
                continue
            if self._skips_comments and line.lstrip().startswith("#"):
                continue
            texts.append(line.rstrip("\r\n"))
            at.append(position)
        return texts, at, bad

    def _split_by_arrow(self, texts: Sequence[str]) -> list[Sequence[str]] | None:
        """Split lines by column with Arrow; None if a line needs Python's ``csv``."""
        block = pa.array(texts, pa.string())
        for special in filter(None, (self._dialect.quote, self._dialect.escape)):
            if pc.any(pc.match_substring(block, special)).as_py():
                return None
        parts = pc.split_pattern(block, self._dialect.delimiter)
        if not pc.all(pc.equal(pc.list_value_length(parts), self._count)).as_py():
            return None
        flat = parts.flatten().to_pylist()
        return [flat[place :: self._count] for place in range(self._count)]

    def _split_alone(
        self, texts: Sequence[str], at: Sequence[int]
    ) -> tuple[list[Sequence[str]], list[int], list[BadMessage]]:
        lines: list[list[str]] = []
        kept: list[int] = []
        bad: list[BadMessage] = []
        arguments = self._dialect.arguments()
        for text_of_line, position in zip(texts, at, strict=True):
            try:
                # a quoted value may hold the end of a line
                (line,) = csv.reader(
                    io.StringIO(text_of_line, newline=""), strict=True, **arguments
                )
            except (csv.Error, ValueError) as error:
                bad.append(BadMessage(position, f"not a line of CSV: {error}"))
                continue
            if len(line) != self._count:
                reason = f"{len(line)} values, but the table has {self._count} columns"
                bad.append(BadMessage(position, reason))
                continue
            lines.append(line)
            kept.append(position)
        return [[line[place] for line in lines] for place in range(self._count)], kept, bad

    def _with_nulls(self, values: Sequence[str], data_type: DataType) -> Sequence[str | None]:
        empty = "" if data_type.root not in TEXT_ROOTS else None
        nulls = {empty, self._null} - {None}
        if not nulls or nulls.isdisjoint(values):
            return values
        return [None if value in nulls else value for value in values]


def _reader(field: DataField, array_delimiter: str) -> ColumnReader:
    target = to_arrow_type(field.type)
    if field.type.root is TypeRoot.ARRAY:
        element = text_parser(field.type.children[0], SQL)
        return ColumnReader(
            field.name,
            field.type,
            None,
            lambda value: [element(part) for part in value.split(array_delimiter)],
        )

    def fast(values: Sequence[Any]) -> pa.Array | None:
        texts = pa.array(values, pa.string())
        if field.type.root in TEXT_ROOTS:
            return texts
        if field.type.root in _TIMES:
            return times_of_texts(texts, field.type, SQL)
        if pa.types.is_integer(target) or pa.types.is_floating(target):
            return texts.cast(target)
        return None

    return ColumnReader(field.name, field.type, fast, text_parser(field.type, SQL))


class CsvEncoder:
    """Writes messages of the format ``csv``."""

    def __init__(self, fields: Sequence[DataField], options: GivenOptions) -> None:
        _checked(fields)
        self._fields = tuple(fields)
        self._options = options
        self._dialect = _Dialect(options)

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row, without an end of the line."""
        refuse_changes(kinds, what="csv")
        columns = [
            self._texts(column, field.type)
            for column, field in zip(rows.columns, self._fields, strict=True)
        ]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="", **self._dialect.arguments())
        lines = []
        for row in zip(*columns, strict=True):
            stream.seek(0)
            stream.truncate()
            try:
                writer.writerow(row)
            except csv.Error as error:
                message = (
                    f"A row cannot be written as CSV: {error}. Set 'csv.escape-character', or leave"
                    " 'csv.disable-quote-character' at 'false'."
                )
                raise InvalidInputError(message, kind="csv_value") from error
            lines.append(stream.getvalue().encode())
        return lines

    def _texts(self, column: pa.Array, data_type: DataType) -> list[str]:
        null = self._options[NULL] or ""
        if data_type.root is TypeRoot.ARRAY:
            separator = self._options[ARRAYS]
            inside = data_type.children[0]
            return [
                null if part is None else separator.join(self._texts(part, inside))
                for part in _elements(column)
            ]
        return [null if value is None else value for value in _value_texts(column, data_type, self)]

    @property
    def is_scientific(self) -> bool:
        """Whether decimals may have an exponent."""
        return self._options[SCIENTIFIC]


def _elements(column: pa.Array) -> list[pa.Array | None]:
    return [scalar.values if scalar.is_valid else None for scalar in column]


def _value_texts(column: pa.Array, data_type: DataType, encoder: CsvEncoder) -> list[str | None]:
    root = data_type.root
    if root in _WITH_TEXTS:
        texts: list[str | None] = time_texts(column, data_type, SQL).to_pylist()
        return texts
    values = column.to_pylist()
    if root is TypeRoot.BOOLEAN:
        return [None if v is None else str(v).lower() for v in values]
    if root in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return [None if v is None else base64.b64encode(v).decode() for v in values]
    if root is TypeRoot.DECIMAL:
        # Java writes small numbers with an exponent
        return [
            None if v is None else (str(v) if encoder.is_scientific else f"{v:f}") for v in values
        ]
    if pa.types.is_floating(column.type):
        values = short_floats(column)
    return [None if v is None else str(v) for v in values]
