"""Change logs in JSON: ``debezium-json``, ``canal-json`` and ``maxwell-json``.

==============  ==============================================================================
format          a message
==============  ==============================================================================
debezium-json   ``before``, ``after``, ``op`` (``c`` and ``r`` insert, ``u`` updates, ``d`` deletes)
canal-json      ``data`` and ``old``, lists of rows; ``type`` INSERT, UPDATE, DELETE or CREATE
maxwell-json    ``data`` and ``old``, a row each; ``type`` insert, update or delete
==============  ==============================================================================

An update is two rows, -U and +U. ``old`` of Canal and Maxwell holds only the changed columns: the
old row takes the others from ``data``.

Source: Flink 2.1's formats of these names. Only ``debezium-json`` is written: -U and -D as ``d``,
+I and +U as ``c``, one message each, as Flink does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError
from tidelake.messages.decoded import BadMessage, Decoded, batch_of
from tidelake.messages.format_options import GivenOptions
from tidelake.messages.json_format import (
    common_options,
    decoded_objects,
    json_rows,
    option_value,
    text_style,
    wanted_fields,
)
from tidelake.messages.json_rows import JsonRows, json_decoder
from tidelake.messages.json_texts import json_objects, object_encoder
from tidelake.messages.json_values import check_json, has_decimals
from tidelake.options.option import boolean, text
from tidelake.types import DataField, RowKind

DEBEZIUM, CANAL, MAXWELL = "debezium-json", "canal-json", "maxwell-json"
DEBEZIUM_OPTIONS = (
    boolean(
        f"{DEBEZIUM}.schema-include",
        False,
        "Whether a message has a schema beside the 'payload'.",
    ),
    *common_options(DEBEZIUM),
)
CANAL_OPTIONS = (
    text(f"{CANAL}.database.include", None, "Regular expression of the databases to read."),
    text(f"{CANAL}.table.include", None, "Regular expression of the tables to read."),
    *common_options(CANAL),
)
MAXWELL_OPTIONS = common_options(MAXWELL)

Change = tuple[RowKind, Any]
INSERT, DELETE = RowKind.INSERT, RowKind.DELETE
BEFORE, AFTER = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER


class _MisfitError(ValueError):
    """A message that is JSON but not a change; the text gives the reason."""


class ChangeLogDecoder:
    """Reads a change log.

    Parameters
    ----------
    changes : callable
        Gives the rows of a message with their kinds; raises :class:`_MisfitError`.
    exact : bool
        Whether numbers keep every digit.
    ignores_errors : bool
        Whether to leave bad messages out without an error.
    """

    def __init__(
        self,
        rows: JsonRows,
        message: type,
        changes: Callable[[Any], list[Change]],
        *,
        exact: bool,
        ignores_errors: bool,
    ) -> None:
        self._rows = rows
        self._changes = changes
        self._ignores = ignores_errors
        self._decode = json_decoder(message, exact=exact).decode

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Read messages."""
        decoded, positions, bad = decoded_objects(self._decode, values)
        rows: list[Any] = []
        kinds: list[RowKind] = []
        at: list[int] = []
        for position, message in zip(positions, decoded, strict=True):
            try:
                changes = self._changes(message)
            except _MisfitError as error:
                bad.append(BadMessage(position, str(error)))
                continue
            for kind, row in changes:
                rows.append(row)
                kinds.append(kind)
                at.append(position)
        columns, misfits = self._rows.columns(rows)
        messages, numbers = np.array(at, np.int64), np.array(kinds, np.int8)
        if misfits:
            # an update with one bad row is bad as a whole
            faults: dict[int, str] = {}
            for row_number, reason in misfits.items():
                faults.setdefault(at[row_number], reason)
            kept = np.flatnonzero(~np.isin(messages, list(faults)))
            columns = [column.take(pa.array(kept)) for column in columns]
            messages, numbers = messages[kept], numbers[kept]
            bad += [BadMessage(position, reason) for position, reason in faults.items()]
        return Decoded(
            batch_of(columns, self._rows.names, len(messages)),
            messages,
            numbers,
            () if self._ignores else tuple(sorted(bad, key=lambda one: one.position)),
        )


def _decoder(
    prefix: str,
    fields: Sequence[DataField],
    columns: Sequence[str],
    options: GivenOptions,
    make: Callable[[JsonRows], tuple[type, Callable[[Any], list[Change]]]],
) -> ChangeLogDecoder:
    wanted = wanted_fields(fields, columns)
    check_json(wanted, what=f"messages of {prefix}")
    rows = json_rows(wanted, options, prefix, fails_on_missing=False)
    message, changes = make(rows)
    return ChangeLogDecoder(
        rows,
        message,
        changes,
        exact=any(has_decimals(f.type) for f in wanted),
        ignores_errors=option_value(options, prefix, "ignore-parse-errors"),
    )


def debezium_decoder(
    fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
) -> ChangeLogDecoder:
    """Make the decoder of ``debezium-json``."""
    with_schema = options[DEBEZIUM_OPTIONS[0]]

    def make(rows: JsonRows) -> tuple[type, Callable[[Any], list[Change]]]:
        row: Any = rows.kind | None
        envelope: Any = msgspec.defstruct(
            "Envelope", [("op", str), ("before", row, None), ("after", row, None)], gc=False
        )
        if not with_schema:
            return envelope, _debezium
        outer = msgspec.defstruct("Message", [("payload", envelope)], gc=False)
        return outer, lambda message: _debezium(message.payload)

    return _decoder(DEBEZIUM, fields, columns, options, make)


def _debezium(message: Any) -> list[Change]:
    match message.op:
        case "c" | "r":
            return [(INSERT, _there(message.after, "after", message.op))]
        case "u":
            before = _there(message.before, "before", message.op)
            return [(BEFORE, before), (AFTER, _there(message.after, "after", message.op))]
        case "d":
            return [(DELETE, _there(message.before, "before", message.op))]
    raise _MisfitError(f"op '{message.op}' is not one of c, r, u, d")


def _there(row: Any, member: str, op: str) -> Any:
    if row is None:
        hint = (
            "; set REPLICA IDENTITY FULL on the table in PostgreSQL" if member == "before" else ""
        )
        raise _MisfitError(f"'{member}' is null in a message with op '{op}'{hint}")
    return row


def canal_decoder(
    fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
) -> ChangeLogDecoder:
    """Make the decoder of ``canal-json``."""
    wanted = [_pattern(options[option], option.key) for option in CANAL_OPTIONS[:2]]

    def make(rows: JsonRows) -> tuple[type, Callable[[Any], list[Change]]]:
        many: Any = list[rows.kind] | None  # type: ignore[name-defined]
        message = msgspec.defstruct(
            "Message",
            [
                ("type", str),
                ("data", many, None),
                ("old", many, None),
                ("database", str | None, None),
                ("table", str | None, None),
            ],
            gc=False,
        )

        def changes(one: Any) -> list[Change]:
            names = (one.database, one.table)
            if any(p and not p.fullmatch(n or "") for p, n in zip(wanted, names, strict=True)):
                return []
            return _canal(one, rows)

        return message, changes

    return _decoder(CANAL, fields, columns, options, make)


def _pattern(given: str | None, key: str) -> re.Pattern[str] | None:
    try:
        return None if given is None else re.compile(given)
    except re.error as error:
        message = f"Option '{key}' = '{given}' is not a regular expression: {error}."
        raise InvalidInputError(message, kind="option_value", option=key) from error


def _canal(message: Any, rows: JsonRows) -> list[Change]:
    if message.type == "CREATE":
        return []
    if message.data is None:
        raise _MisfitError(f"'data' is null in a message of type '{message.type}'")
    match message.type:
        case "INSERT":
            return [(INSERT, row) for row in message.data]
        case "DELETE":
            return [(DELETE, row) for row in message.data]
        case "UPDATE":
            if message.old is None or len(message.old) != len(message.data):
                raise _MisfitError("'old' of an UPDATE has not as many rows as 'data'")
            return [
                change
                for after, old in zip(message.data, message.old, strict=True)
                for change in ((BEFORE, rows.updated(after, old)), (AFTER, after))
            ]
    raise _MisfitError(f"type '{message.type}' is not one of INSERT, UPDATE, DELETE, CREATE")


def maxwell_decoder(
    fields: Sequence[DataField], columns: Sequence[str], options: GivenOptions
) -> ChangeLogDecoder:
    """Make the decoder of ``maxwell-json``."""

    def make(rows: JsonRows) -> tuple[type, Callable[[Any], list[Change]]]:
        row: Any = rows.kind | None
        message = msgspec.defstruct(
            "Message", [("type", str), ("data", row, None), ("old", row, None)], gc=False
        )
        return message, lambda one: _maxwell(one, rows)

    return _decoder(MAXWELL, fields, columns, options, make)


def _maxwell(message: Any, rows: JsonRows) -> list[Change]:
    if message.data is None:
        raise _MisfitError(f"'data' is null in a message of type '{message.type}'")
    match message.type:
        case "insert":
            return [(INSERT, message.data)]
        case "delete":
            return [(DELETE, message.data)]
        case "update":
            if message.old is None:
                raise _MisfitError("'old' is null in a message of type 'update'")
            return [(BEFORE, rows.updated(message.data, message.old)), (AFTER, message.data)]
    raise _MisfitError(f"type '{message.type}' is not one of insert, update, delete")


class DebeziumEncoder:
    """Writes ``debezium-json``: an update is a delete and an insert, as Flink writes it."""

    def __init__(self, fields: Sequence[DataField], options: GivenOptions) -> None:
        check_json(fields, what=f"messages of {DEBEZIUM}")
        if options[DEBEZIUM_OPTIONS[0]]:
            message = (
                f"Messages of '{DEBEZIUM}' are written without a schema: leave out"
                f" '{DEBEZIUM}.schema-include' of a table to write."
            )
            raise InvalidInputError(message, kind="option_value", option="schema-include")
        self._fields = tuple(fields)
        self._style = text_style(options, DEBEZIUM)
        self._encode = object_encoder()

    def encode(self, rows: pa.RecordBatch, kinds: NDArray[np.int8] | None) -> list[bytes]:
        """Write one message per row."""
        objects = json_objects(rows, self._fields, self._style)
        numbers = np.zeros(len(objects), np.int8) if kinds is None else kinds
        is_gone = np.isin(numbers, (int(BEFORE), int(DELETE))).tolist()
        return [
            self._encode(
                {"before": row, "after": None, "op": "d"}
                if gone
                else {"before": None, "after": row, "op": "c"}
            )
            for row, gone in zip(objects, is_gone, strict=True)
        ]
