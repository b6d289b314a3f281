"""Any object that holds rows, as a stream of bounded Arrow batches.

Accepted are: Arrow tables, batches, readers and datasets' scanners; everything that exports an
Arrow C stream or array (Polars, DuckDB, ...); pandas data frames; dicts of one row, lists of them,
dicts of columns; and iterables of any of these. Dicts that an iterable yields one by one are
gathered, because converting a batch costs about as much as converting a row.

A dict must have a key for every column that any of them names and that has no default. A missing
value is not a null: a null would overwrite the key's stored value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, TidelakeError, shortened
from tidelake.table.conversion.python_values import changed_value, exact_whole_max, stored_values
from tidelake.types import DataField, RowKind, TypeRoot
from tidelake.types.arrow import to_arrow_type
from tidelake.types.conform import first_misfit, plain_layout, shown_value

ROW_KIND_COLUMN = "_row_kind"

BATCH_ROWS_MAX = 262_144
"""Larger batches are cut, so that a write's memory does not depend on the input's size."""

GATHERED_ROWS_MAX = 16_384
GATHERED_BYTES_MAX = 16 << 20
"""Single dicts form a batch at this count, or at this size of their text and bytes."""

Kinds = np.ndarray


def record_batches(
    data: object, fields: Sequence[DataField], *, table: str, optional: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Give the rows of `data` as record batches of at most ``BATCH_ROWS_MAX`` rows.

    Parameters
    ----------
    fields : sequence of DataField
        The table's columns: the types for rows given as Python objects.
    optional : collection of str
        Columns that some dicts may lack, beside those with a default.

    Raises
    ------
    InvalidInputError
        `data` has an unknown type, a value does not fit its column, or a dict lacks a column
        that others have.
    """
    rows = _DictRows(fields, table=table, optional=optional)
    for batch in _batches(data, rows):
        for start in range(0, batch.num_rows, BATCH_ROWS_MAX):
            yield batch.slice(start, BATCH_ROWS_MAX)


def _batches(data: object, rows: _DictRows) -> Iterator[pa.RecordBatch]:
    fields, table = rows.fields, rows.table
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif _is_pandas(data):
        yield from _from_pandas(data, fields, table=table).to_batches()
    elif _is_lazy_frame(data):
        yield from _batches(data.collect(), rows)  # type: ignore[attr-defined]
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _from_stream(data, table)
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif isinstance(data, Mapping) and _is_row(data):
        yield from rows.batches([data])
    elif isinstance(data, Mapping):
        yield from _from_columns(data, fields, table=table).to_batches()
    elif isinstance(data, Sequence) and data and all(isinstance(r, Mapping) for r in data):
        yield from rows.batches(data)
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        yield from _from_parts(data, rows)
    else:
        raise _not_rows(data, table)


def _from_stream(data: Any, table: str) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        where = shortened(", ".join(_not_for_arrow(data)))
        column = f"Column {where} of the data" if where else "The data"
        message = (
            f"{column} for table '{table}' has a type that Arrow does not know"
            f" ({shortened(str(error)).rstrip('. ')}). Cast it first: 128-bit integers to Int64 or"
            " Decimal(38, 0)."
        )
        raise InvalidInputError(message, kind="column_type", table=table) from error


def _not_for_arrow(data: Any) -> Iterator[str]:
    """The columns of a frame that Arrow refuses one by one, such as Polars' ``Int128``."""
    if not (hasattr(data, "select") and hasattr(data, "columns")):
        return
    for name in data.columns:
        try:
            pa.RecordBatchReader.from_stream(data.select(name))
        except pa.ArrowException:
            yield f"'{name}'"


def _from_parts(parts: Iterable[object], rows: _DictRows) -> Iterator[pa.RecordBatch]:
    """The batches of an iterable, in its order; dicts of one row are gathered."""
    gathered: list[Mapping[str, object]] = []
    gathered_bytes = 0
    for part in parts:
        if part is parts or isinstance(part, (str, bytes)):
            raise _not_rows(part, rows.table)
        if isinstance(part, Mapping) and _is_row(part):
            gathered.append(part)
            gathered_bytes += _content_bytes(part.values())
            if len(gathered) < GATHERED_ROWS_MAX and gathered_bytes < GATHERED_BYTES_MAX:
                continue
            part = ()
        yield from rows.batches(gathered)
        gathered, gathered_bytes = [], 0
        yield from _batches(part, rows)
    yield from rows.batches(gathered)


def _content_bytes(values: Iterable[object]) -> int:
    """The size of the text and bytes among and inside some values."""
    total = 0
    for value in values:
        if isinstance(value, (str, bytes)):
            total += len(value)
        elif isinstance(value, Mapping):
            total += _content_bytes(value.values())
        elif isinstance(value, (list, tuple)):
            total += _content_bytes(value)
    return total


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
    """Convert a data frame; whole numbers that pandas stores as floats beside nulls come back."""
    names = list(frame.columns)  # duplicates are refused below
    nested = [
        f
        for f in fields
        if (f.type.is_nested or f.type.root is TypeRoot.VARIANT)
        and names.count(f.name) == 1
        and (frame[f.name].dtype == object or f.type.root is TypeRoot.VARIANT)
    ]
    plain = frame.drop(columns=[f.name for f in nested])
    try:
        rows = pa.Table.from_pandas(plain, preserve_index=False)
    except _NO_COLUMN as error:
        raise frame_misfit(plain, error, table=table) from error
    for field in fields:
        place = rows.schema.get_field_index(field.name)
        if place < 0 or not pa.types.is_floating(rows.schema.field(place).type):
            continue
        wanted = to_arrow_type(field.type)
        column = rows.column(place)
        if pa.types.is_integer(wanted) and column.null_count:
            _check_whole(column, field, table=table)
            with contextlib.suppress(pa.ArrowInvalid):  # not whole: refused below, with its column
                rows = rows.set_column(place, field.name, column.cast(wanted))
    if not nested:
        return rows
    names, arrays = [*rows.column_names, *(f.name for f in nested)], list(rows.columns)
    for field in nested:
        # Arrow would guess the types of lists and dicts
        column = frame[field.name]
        pairs = zip(column.tolist(), column.isna(), strict=True)
        values = [None if is_null else value for value, is_null in pairs]
        arrays.append(_array(field.name, values, field, table))
    return pa.Table.from_arrays(arrays, names)


def _check_whole(column: pa.Array | pa.ChunkedArray, field: DataField, *, table: str) -> None:
    """Refuse floats that may stand for another integer than was meant."""
    limit = exact_whole_max(column.type.bit_width)
    rounds = pc.and_(pc.is_finite(column), pc.greater_equal(pc.abs(column), limit))
    if not pc.any(rounds).as_py():
        return
    at = pc.index(rounds, True).as_py()
    message = (
        f"Column '{field.name}' of table '{table}' is {field.type}, but row {at} of the data holds"
        f" {shown_value(column[at])}, a float: from {limit:.0f} on it may stand for another"
        " integer, as pandas makes floats of integers beside nulls. Give integers, with pandas'"
        " type 'Int64'."
    )
    raise InvalidInputError(message, kind="value_range", table=table, column=field.name)


def frame_misfit(frame: Any, error: BaseException, *, table: str) -> InvalidInputError:
    """Make the error for a pandas frame that Arrow refuses: the column, the row and the value."""
    reasons = shortened(": ".join(str(reason) for reason in error.args)).rstrip(". ")
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        values = list(column) if column.dtype == object else []
        first = next((i for i, v in enumerate(values) if v is not None and v == v), None)
        if first is None or _is_column(values):
            continue
        at = _other_kind(values, first)
        bad = first if at is None else at
        kinds = f"row {bad} holds {shown_value(values[bad])} ({type(values[bad]).__name__})"
        if at is not None:
            kinds += f", row {first} {shown_value(values[first])} ({type(values[first]).__name__})"
        message = (
            f"Column '{name}' of the data frame for table '{table}' mixes types: {kinds}."
            f" Convert the column to one type first, as with astype(). Arrow says: {reasons}."
        )
        return InvalidInputError(message, kind="bad_value", table=table, column=str(name))
    message = f"Arrow cannot convert the data frame for table '{table}': {reasons}."
    return InvalidInputError(message, kind="bad_value", table=table)


def _other_kind(values: list[object], first: int) -> int | None:
    """The first value that does not form a column together with the one at `first`."""
    return first_misfit(values, lambda part: _is_column([values[first], *part]))


def _is_column(values: Sequence[object]) -> bool:
    try:
        pa.array(values, from_pandas=True)
    except _NO_COLUMN:
        return False
    return True


def _is_row(part: Mapping[object, object]) -> bool:
    """Whether a dict is one row and not a dict of columns."""
    # one value that is not a column is enough: lists beside it are values of ARRAY columns
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


class _DictRows:
    """Makes batches from dicts of one row each, and knows each row's number in the data."""

    def __init__(
        self, fields: Sequence[DataField], *, table: str, optional: Collection[str]
    ) -> None:
        self.fields = fields
        self.table = table
        self._names: dict[str, None] = {}
        self._required = {f.name for f in fields if f.default_value is None}.difference(optional)
        self._rows_count = 0

    def batches(self, rows: Sequence[Mapping[str, object]]) -> Iterator[pa.RecordBatch]:
        """The next rows."""
        if not rows:
            return
        # rows are Python objects already; one pass collects their column names
        self._names.update(dict.fromkeys(name for row in rows for name in row))
        names = list(self._names)
        if any(len(row) < len(names) for row in rows):
            self._check_complete(rows, names)
        columns = {n: [row.get(n) for row in rows] for n in names}
        taken = _from_columns(columns, self.fields, table=self.table, first_row=self._rows_count)
        self._rows_count += len(rows)
        yield from taken.to_batches()

    def _check_complete(self, rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> None:
        """Refuse a row that lacks a column of other rows; the writer reports one that all lack."""
        required = [name for name in names if name in self._required]
        for number, row in enumerate(rows, self._rows_count):
            missing = next((name for name in required if name not in row), None)
            if missing is None:
                continue
            message = (
                f"Row {number} of the data for table '{self.table}' lacks the column '{missing}',"
                " which other rows have. Give it in every row; None writes NULL. To set some"
                " columns only, see upsert(rows, columns=[...])."
            )
            raise InvalidInputError(
                message, kind="column_missing", table=self.table, column=missing, row=number
            )


def _from_columns(
    columns: Mapping[str, object],
    fields: Sequence[DataField],
    *,
    table: str,
    first_row: int = 0,
) -> pa.Table:
    own = {f.name: f for f in fields}
    arrays = [
        _array(name, values, own.get(name), table, first_row) for name, values in columns.items()
    ]
    try:
        return pa.table(dict(zip(columns, arrays, strict=True)))
    except pa.ArrowInvalid as error:
        message = f"The columns given for table '{table}' differ in length: {error}."
        raise InvalidInputError(message, kind="bad_value", table=table) from error


_NO_COLUMN = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)
"""Errors of Arrow and of our own encoders for a value of the wrong type."""


def _array(name: str, values: Any, field: DataField | None, table: str, first_row: int = 0) -> Any:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    wanted = None if field is None else to_arrow_type(field.type)

    if wanted is not None and not isinstance(values, (list, tuple)):
        values = _plain(values)

    def made(part: Any) -> pa.Array:
        if field is None or not isinstance(part, (list, tuple)):
            return _typed(part, field, wanted, table)
        part = stored_values(part, field.type)
        changed = changed_value(part, wanted)
        if changed is not None:
            raise ValueError(f"{shown_value(changed)} would be changed")
        return pa.array(part, type=wanted)

    def fits(part: Any) -> bool:
        try:
            made(part)
        except _NO_COLUMN:
            return False
        return True

    try:
        return made(values)
    except _NO_COLUMN as error:
        if isinstance(error, TidelakeError) and error.kind == "value_range":
            raise  # it names the row
        at = first_misfit(values, fits) if isinstance(values, (list, tuple)) else None
        which = "the values given do not fit"
        if at is not None:
            which = f"row {first_row + at} holds {shown_value(values[at])}, which does not fit"
        message = (
            f"Column '{name}' of table '{table}' is {'new' if field is None else field.type};"
            f" {which}: {shortened(str(error)).rstrip('. ')}. Convert it first."
        )
        kind = error.kind if isinstance(error, TidelakeError) else "bad_value"
        raise InvalidInputError(message, kind=kind, table=table, column=name) from error


def _plain(values: Any) -> Any:
    """Python objects as a list, so that each is looked at; typed columns as they are."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        return values  # refused by Arrow
    dtype = getattr(values, "dtype", None)
    if dtype is None:
        is_column = hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
        return values if is_column or isinstance(values, (str, bytes)) else list(values)
    if str(dtype) != "object":
        return values
    objects = values.tolist()
    is_null = values.isna() if hasattr(values, "isna") else [v is None for v in objects]
    return [None if null else v for v, null in zip(objects, is_null, strict=True)]


def _typed(
    values: Any, field: DataField | None, wanted: pa.DataType | None, table: str
) -> pa.Array | pa.ChunkedArray:
    """A column that has a type; what does not fit the table's is found by :func:`conform`."""
    is_stream = hasattr(values, "__arrow_c_stream__")  # Polars: by itself it keeps nanoseconds
    if wanted is None or not (is_stream or _is_scalar(wanted)):
        return pa.array(values, type=wanted)
    column = pa.chunked_array(values) if is_stream else pa.array(values)
    if field is None or not (pa.types.is_floating(column.type) and pa.types.is_integer(wanted)):
        return column
    _check_whole(column, field, table=table)
    return column.cast(wanted) if is_stream else pa.array(values, type=wanted)


def _is_scalar(arrow_type: pa.DataType) -> bool:
    """Whether a column of NumPy's takes its own type first: all but floats, which are rounded."""
    return not (pa.types.is_floating(arrow_type) or pa.types.is_nested(arrow_type))


def with_row_kinds(
    batches: Iterable[pa.RecordBatch], row_kinds: object | None, *, table: str
) -> Iterator[tuple[pa.RecordBatch, Kinds | None]]:
    """Pair each batch with its rows' kinds.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Their column ``_row_kind``, if any, holds the kinds and is removed.
    row_kinds : array-like, optional
        One kind per row over all batches: ``'+I'``, ``'-U'``, ``'+U'``, ``'-D'``, RowKind or its
        byte.

    Yields
    ------
    (RecordBatch, ndarray of int8 or None)
        None where every row is an insert.

    Raises
    ------
    InvalidInputError
        A kind is unknown or null, or the number of kinds is not the number of rows.
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
    array = plain_layout(values)
    if array.null_count:
        message = f"{array.null_count:,} row kinds for table '{table}' are null; use '+I' or '-D'."
        raise InvalidInputError(message, kind="row_kind", table=table)
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
