"""Answers of executors as what the caller wants: dicts, or one Arrow table in the keys' order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelake.engine.codec import take_rows
from tidelake.errors import InvalidInputError, StorageError
from tidelake.service.client.lookup import Answer
from tidelake.service.protocol.packed_columns import bits_set, rows_of_arrow_body, unpack
from tidelake.service.protocol.packed_values import python_columns
from tidelake.types.arrow import to_arrow_schema

Row = dict[str, object]


def rows_as_dicts(answers: Sequence[Answer], count: int) -> list[Row | None]:
    """Give the row of each key; None where there is none.

    Raises
    ------
    StorageError
        An executor answered what is no answer.
    """
    rows: list[Row | None] = [None] * count
    for answer in answers:
        try:
            _fill(rows, answer)
        except InvalidInputError as error:
            raise _no_answer(error) from error
    return rows


def _fill(rows: list[Row | None], answer: Answer) -> None:
    positions = answer.part.positions
    found: bytes = answer.reply.found
    if len(positions) == 1 and len(found) == 1:
        at = [int(positions[0])] if found[0] & 1 else []
    else:
        flags = bits_set(found, len(positions), what="The flags of the answer")
        at = positions[flags].tolist()
    if not at:
        return
    names = [field.name for field in answer.fields]
    if answer.reply.arrow:
        table = _arrow_rows(answer)
        columns = [column.to_pylist() for column in table.columns]
    else:
        columns = python_columns(answer.reply.rows, answer.fields)
    if any(len(column) != len(at) for column in columns):
        raise InvalidInputError("The answer has other rows than keys found.", kind="packed_rows")
    for position, values in zip(at, zip(*columns, strict=True), strict=True):
        rows[position] = dict(zip(names, values, strict=True))


def rows_as_table(answers: Sequence[Answer], count: int) -> pa.Table:
    """Give the rows in the keys' order, with nulls in all columns where a key has none.

    Returns
    -------
    pyarrow.Table [count]
        All columns are nullable.

    Raises
    ------
    StorageError
        An executor answered what is no answer.
    """
    if len(answers) == 1 and not answers[0].reply.arrow:
        return _one_table(answers[0], count)
    index = np.full(count, -1, np.int64)
    batches: list[pa.RecordBatch] = []
    rows_count = 0
    for answer in answers:
        try:
            flags = bits_set(
                answer.reply.found, len(answer.part.positions), what="The flags of the answer"
            )
            rows = _rows(answer)
        except InvalidInputError as error:
            raise _no_answer(error) from error
        at = answer.part.positions[flags]
        if len(at) != rows.num_rows:
            said = f"{rows.num_rows} rows for {len(at)} keys found"
            raise _no_answer(InvalidInputError(said, kind="packed_rows"))
        index[at] = np.arange(rows_count, rows_count + len(at))
        rows_count += len(at)
        batches += rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    schema = pa.schema([f.with_nullable(True) for f in to_arrow_schema(answers[0].fields)])
    nullable = [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches]
    table = pa.Table.from_batches(nullable, schema=schema)
    if np.array_equal(index, np.arange(count)):
        return table
    return table.combine_chunks().take(pa.array(index, mask=index < 0))


def _one_table(answer: Answer, count: int) -> pa.Table:
    """The rows of one answer, which has all keys."""
    positions = answer.part.positions
    try:
        flags = bits_set(answer.reply.found, len(positions), what="The flags of the answer")
        at = positions[flags]
        if len(at) != answer.reply.rows.count:
            said = f"{answer.reply.rows.count} rows for {len(at)} keys found"
            raise InvalidInputError(said, kind="packed_rows")
        columns = unpack(answer.reply.rows, answer.fields, what="The rows of the answer").columns
    except InvalidInputError as error:
        raise _no_answer(error) from error
    index = np.full(count, -1, np.int64)
    index[at] = np.arange(len(at))
    if len(at) < count or not np.array_equal(index, np.arange(count)):
        columns = [take_rows(column, index, or_null=True) for column in columns]
    fields = [field.with_nullable(True) for field in to_arrow_schema(answer.fields)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _rows(answer: Answer) -> pa.RecordBatch | pa.Table:
    if answer.reply.arrow:
        return _arrow_rows(answer)
    return unpack(answer.reply.rows, answer.fields, what="The rows of the answer")


def _arrow_rows(answer: Answer) -> pa.Table:
    table = rows_of_arrow_body(answer.reply.arrow, what="The rows of the answer")
    names = [field.name for field in answer.fields]
    if table.schema.names != names:
        message = f"The answer has the columns {table.schema.names} and not {names}."
        raise InvalidInputError(message, kind="packed_rows")
    return table


def _no_answer(error: InvalidInputError) -> StorageError:
    message = f"An executor of the query service sent no valid answer: {error.message}"
    return StorageError(message, kind="service_failed")
