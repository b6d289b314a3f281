"""Anything that holds rows, as a stream of Arrow batches in bounded pieces.

Taken are: Arrow tables, batches, readers and datasets' scanners; everything that exports an Arrow C
stream or array (Polars, DuckDB, ...); pandas data frames; dicts of one row, lists of them, dicts of
columns; and iterables of any of these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, TidelakeError, shortened
from tidelake.table.python_values import changed_value, stored_values
from tidelake.types import DataField, DataType, RowKind, TypeRoot
from tidelake.types.arrow import to_arrow_type

__all__ = ["ROW_KIND_COLUMN", "record_batches", "row_kind_names", "with_row_kinds"]

ROW_KIND_COLUMN = "_row_kind"

BATCH_ROWS_MAX = 262_144
"""Larger batches are cut, so that a write's memory follows the batch and not the input."""

Kinds = np.ndarray


def record_batches(
    data: object, fields: Sequence[DataField], *, table: str
) -> Iterator[pa.RecordBatch]:
    """Give the rows of `data` as record batches of at most ``BATCH_ROWS_MAX`` rows.

    Parameters
    ----------
    data : object
        See the module.
    fields : sequence of DataField
        The table's columns: the types for rows given as Python objects.
    table : str
        The table, for messages.

    Raises
    ------
    InvalidInputError
        `data` is none of the kinds taken.
    """
    for batch in _batches(data, fields, table=table):
        for start in range(0, batch.num_rows, BATCH_ROWS_MAX):
            yield batch.slice(start, BATCH_ROWS_MAX)


def _batches(data: object, fields: Sequence[DataField], *, table: str) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif _is_pandas(data):
        yield from _from_pandas(data, fields, table=table).to_batches()
    elif _is_lazy_frame(data):
        yield from _batches(data.collect(), fields, table=table)  # type: ignore[attr-defined]
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif isinstance(data, Mapping) and _is_row(data):
        yield from _from_rows([data], fields, table=table).to_batches()
    elif isinstance(data, Mapping):
        yield from _from_columns(data, fields, table=table).to_batches()
    elif isinstance(data, Sequence) and data and all(isinstance(r, Mapping) for r in data):
        yield from _from_rows(data, fields, table=table).to_batches()
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        for part in data:
            if part is data or isinstance(part, (str, bytes)):
                raise _not_rows(part, table)
            yield from _batches(part, fields, table=table)
    else:
        raise _not_rows(data, table)


def is_replayable(data: object) -> bool:
    """Whether rows can be taken from an object a second time.

    Examples
    --------
    >>> is_replayable([{"k": 1}]), is_replayable({"k": [1]}), is_replayable(iter([{"k": 1}]))
    (True, True, False)
    """
    if isinstance(data, (pa.Table, pa.RecordBatch, Mapping)) or _is_pandas(data):
        return True
    if type(data).__module__.partition(".")[0] == "polars":
        return True
    if isinstance(data, Sequence):  # of rows, 0.1 us each, or of batches
        return all(isinstance(p, (Mapping, pa.Table, pa.RecordBatch)) for p in data)
    return False


def _from_pandas(frame: Any, fields: Sequence[DataField], *, table: str) -> pa.Table:
    """Take a data frame; whole numbers that pandas made floats for the sake of nulls come back."""
    names = list(frame.columns)  # one that is there twice is refused with the rest below
    nested = [
        f
        for f in fields
        if (f.type.is_nested or f.type.root is TypeRoot.VARIANT)
        and names.count(f.name) == 1
        and frame[f.name].dtype == object
    ]
    plain = frame.drop(columns=[f.name for f in nested])
    try:
        rows = pa.Table.from_pandas(plain, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reasons = ": ".join(str(reason) for reason in error.args)
        message = f"The data frame for table '{table}' cannot be taken: {reasons}."
        raise InvalidInputError(message, kind="bad_value", table=table) from error
    for field in fields:
        place = rows.schema.get_field_index(field.name)
        if place < 0 or not pa.types.is_floating(rows.schema.field(place).type):
            continue
        wanted = to_arrow_type(field.type)
        column = rows.column(place)
        if pa.types.is_integer(wanted) and column.null_count:
            with contextlib.suppress(pa.ArrowInvalid):  # not whole: refused with its column's name
                rows = rows.set_column(place, field.name, column.cast(wanted))
    for field in nested:
        # Arrow would guess at what the lists and dicts are
        values = [None if isinstance(v, float) and v != v else v for v in frame[field.name]]
        rows = rows.append_column(field.name, [_array(field.name, values, field.type, table)])
    return rows


def _is_row(part: Mapping[object, object]) -> bool:
    """Whether a dict is one row and not a dict of columns."""
    # one value that is no column is enough: the lists beside it are values of ARRAY columns
    scalars = (str, bytes, bytearray, memoryview, Mapping)
    return any(isinstance(v, scalars) or not isinstance(v, Iterable) for v in part.values())


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _is_lazy_frame(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "polars" and hasattr(data, "collect")


def _not_rows(data: object, table: str) -> InvalidInputError:
    message = (
        f"An object of type {type(data).__module__}.{type(data).__qualname__} does not hold rows"
        f" for table '{table}': give an Arrow table, batches or reader, a pandas or Polars frame,"
        " or a list of dicts."
    )
    return InvalidInputError(message, kind="not_rows", table=table)


def _from_rows(
    rows: Sequence[Mapping[str, object]], fields: Sequence[DataField], *, table: str
) -> pa.Table:
    # rows are Python objects already; one pass collects their column names
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _from_columns({n: [row.get(n) for row in rows] for n in names}, fields, table=table)


def _from_columns(
    columns: Mapping[str, object], fields: Sequence[DataField], *, table: str
) -> pa.Table:
    types = {f.name: f.type for f in fields}
    arrays = [_array(name, values, types.get(name), table) for name, values in columns.items()]
    try:
        return pa.table(dict(zip(columns, arrays, strict=True)))
    except pa.ArrowInvalid as error:
        message = f"The columns given for table '{table}' differ in length: {error}."
        raise InvalidInputError(message, kind="bad_value", table=table) from error


def _array(name: str, values: Any, data_type: DataType | None, table: str) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    wanted = None if data_type is None else to_arrow_type(data_type)
    try:
        if data_type is not None and isinstance(values, (list, tuple)):
            values = stored_values(values, data_type)
            changed = changed_value(values, wanted)
            if changed is not None:
                raise _misfit(name, wanted, f"{shortened(repr(changed))} would be changed", table)
        return pa.array(values, type=wanted)
    except TidelakeError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _misfit(name, wanted, shortened(str(error)), table) from error


def _misfit(name: str, wanted: pa.DataType | None, reason: str, table: str) -> InvalidInputError:
    message = (
        f"Column '{name}' of table '{table}' has type {wanted}; a value given does not fit:"
        f" {reason}. Convert it first."
    )
    return InvalidInputError(message, kind="bad_value", table=table, column=name)


def with_row_kinds(
    batches: Iterable[pa.RecordBatch], row_kinds: object | None, *, table: str
) -> Iterator[tuple[pa.RecordBatch, Kinds | None]]:
    """Pair each batch with its rows' kinds.

    Parameters
    ----------
    batches : iterable of RecordBatch
        A column ``_row_kind`` in them holds the kinds and is taken off.
    row_kinds : array-like, optional
        One kind per row over all batches: ``'+I'``, ``'-U'``, ``'+U'``, ``'-D'``, RowKind or its
        byte.
    table : str
        The table, for messages.

    Yields
    ------
    (RecordBatch, ndarray of int8 or None)
        None where every row is an insert.

    Raises
    ------
    InvalidInputError
        A kind is unknown or null, or there is not one per row.
    """
    given = None if row_kinds is None else _kind_bytes(_as_array(row_kinds), table)
    position = 0
    for batch in batches:
        rows = batch
        kinds: Kinds | None = None
        if ROW_KIND_COLUMN in batch.schema.names:
            if given is not None:
                message = (
                    f"The rows for table '{table}' have a column '{ROW_KIND_COLUMN}' and row_kinds="
                    " was given too: give one of them."
                )
                raise InvalidInputError(message, kind="row_kind", table=table)
            kinds = _kind_bytes(batch.column(ROW_KIND_COLUMN), table)
            rows = batch.drop_columns([ROW_KIND_COLUMN])
        elif given is not None:
            kinds = given[position : position + batch.num_rows]
            if len(kinds) < batch.num_rows:
                raise _kinds_count(len(given), table)
        position += batch.num_rows
        yield rows, kinds
    if given is not None and position != len(given):
        raise _kinds_count(len(given), table)


def row_kind_names(kinds: pa.Array) -> pa.Array:
    """The bytes of row kinds as text: ``'+I'``, ``'-U'``, ``'+U'``, ``'-D'``."""
    names = pa.array([str(k) for k in RowKind])
    return names.take(kinds.cast(pa.int8()))


def _kinds_count(count: int, table: str) -> InvalidInputError:
    message = (
        f"row_kinds holds {count:,} kinds, which is not the number of rows for table '{table}':"
        " give one for each row."
    )
    return InvalidInputError(message, kind="row_kind", table=table)


def _as_array(values: object) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, (pa.Array, np.ndarray)):
        return values if isinstance(values, pa.Array) else pa.array(values)
    if hasattr(values, "to_arrow"):
        return _as_array(values.to_arrow())
    if hasattr(values, "to_numpy"):
        return pa.array(values.to_numpy())
    return pa.array([str(v) if isinstance(v, RowKind) else v for v in values])  # type: ignore[attr-defined]


def _kind_bytes(values: pa.Array, table: str) -> Kinds:
    if values.null_count:
        message = f"{values.null_count:,} row kinds for table '{table}' are null; use '+I' or '-D'."
        raise InvalidInputError(message, kind="row_kind", table=table)
    array = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if pa.types.is_integer(array.type):
        numbers = array.to_numpy(zero_copy_only=False)
        if len(numbers) and (numbers.min() < 0 or numbers.max() > max(RowKind)):
            message = f"Row kinds for table '{table}' must be 0 (+I), 1 (-U), 2 (+U) or 3 (-D)."
            raise InvalidInputError(message, kind="row_kind", table=table)
        return numbers.astype(np.int8)
    if len(array) == 0:
        return np.zeros(0, dtype=np.int8)
    found = pc.index_in(array.cast(pa.string()), pa.array([str(k) for k in RowKind]))
    if found.null_count:
        unknown = array.filter(pc.is_null(found))[0].as_py()
        return np.array([RowKind.parse(str(unknown))])  # raises: it is none of the four
    return found.to_numpy(zero_copy_only=False).astype(np.int8)
