"""Expires old rows: ``record-level.expire-time`` and ``record-level.time-field``.

1. A column holds the time of a row: INT seconds, BIGINT seconds or, from :data:`MILLIS_FROM` on,
   milliseconds, or a timestamp (one without a zone counts as UTC). A row without a time stays.
2. A row is expired when its time, in whole seconds, is more than ``expire-time`` before now.
3. A compaction that includes the bucket's oldest rows drops expired rows before it merges; expired
   rows that it looks up beneath count as missing. Reads leave nothing out.
4. A file with expired rows by its statistics is rewritten instead of kept or lifted.

Source: Paimon's ``RecordLevelExpire`` (1.3.1). Paimon drops expired rows in every compaction. Here
no compaction exposes an older row of the key beneath, and under ``deduplicate`` an expired ``-D``
still hides the row that it deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.binary_row import decode_row
from tidelake.errors import InvalidInputError, near_names
from tidelake.format import KIND_FIELD
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.data_file import DataFileMeta
from tidelake.options import Options
from tidelake.options.declared import (
    MERGE_ENGINE,
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
)
from tidelake.store.context import StoreContext
from tidelake.types import DataField, TableSchema, TypeRoot
from tidelake.types.arrow import to_arrow_type

MILLIS_FROM = 1_000_000_000_000
"""A BIGINT from here on is milliseconds: as seconds it would be the year 33658."""

_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_ROOTS = (TypeRoot.INT, TypeRoot.BIGINT, *_TIMESTAMPS)
_NANOS_PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The expiry rule of a table's rows.

    Parameters
    ----------
    age_s : int
        Seconds after which a row expires.
    keeps_retracts : bool
        Whether rows that retract never expire.
    """

    field: DataField
    age_s: int
    keeps_retracts: bool

    @classmethod
    def of(cls, schema: TableSchema, options: Options, *, table: str) -> RecordExpiry | None:
        """Read and check a table's options; None if rows do not expire.

        Raises
        ------
        InvalidInputError
            The column is missing, not named, or of another type.
        """
        name = options.get(RECORD_LEVEL_TIME_FIELD)
        age_ms = options.get(RECORD_LEVEL_EXPIRE_TIME)
        if name is None:
            if age_ms is None or not schema.primary_keys:
                return None
            message = (
                f"Table '{table}' has '{RECORD_LEVEL_EXPIRE_TIME.key}' but no column with the time"
                f" of a row: name one in '{RECORD_LEVEL_TIME_FIELD.key}'."
            )
            raise _invalid(message, table)
        if name not in schema.field_names:
            message = (
                f"Table '{table}' has no column '{name}', which option"
                f" '{RECORD_LEVEL_TIME_FIELD.key}' names.{near_names(name, schema.field_names)}"
                f" Its columns are {', '.join(schema.field_names)}: name one of them."
            )
            raise _invalid(message, table)
        field = schema.field(name)
        if field.type.root not in _ROOTS:
            message = (
                f"Table '{table}': column '{name}' of type {field.type} cannot hold the time of a"
                f" row ('{RECORD_LEVEL_TIME_FIELD.key}'): use a column of type INT (seconds),"
                " BIGINT (seconds or milliseconds), TIMESTAMP or TIMESTAMP_LTZ."
            )
            raise _invalid(message, table)
        if age_ms is None or not schema.primary_keys:
            return None
        return cls(field, age_ms // 1000, options.get(MERGE_ENGINE) == DEDUPLICATE)

    def at(self, now_ms: int) -> ExpiredRows:
        """The rows expired at an instant."""
        return ExpiredRows(self.field, now_ms // 1000 - self.age_s, self.keeps_retracts)


@dataclass(frozen=True, slots=True)
class ExpiredRows:
    """The rows expired at one instant.

    Parameters
    ----------
    keeps_retracts : bool
        Whether rows that retract never expire.
    """

    field: DataField
    before_s: int
    keeps_retracts: bool

    def left(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not expired.

        Parameters
        ----------
        batch : RecordBatch
            Rows as inside the store: the table's columns and the kind.
        """
        column = batch.column(self.field.name)
        stays = self._seconds(column) >= self.before_s
        if column.null_count:
            stays |= column.is_null().to_numpy(zero_copy_only=False)
        if self.keeps_retracts:
            kinds = batch.column(KIND_FIELD.name).to_numpy(zero_copy_only=False)
            stays |= (kinds & 1) != 0
        return batch if stays.all() else batch.filter(pa.array(stays))

    def are_in(self, file: DataFileMeta, context: StoreContext) -> bool | None:
        """Whether a file has such rows; None if its statistics do not show it."""
        fields = context.file_fields(file)
        if file.value_stats_cols is not None:
            by_name = {field.name: field for field in fields}
            fields = tuple(by_name[name] for name in file.value_stats_cols if name in by_name)
        own = [number for number, field in enumerate(fields) if field.id == self.field.id]
        stats = file.value_stats
        if not own or len(stats.null_counts) != len(fields):
            return None
        (number,) = own
        if fields[number].type.root is not self.field.type.root:
            return None
        if stats.null_counts[number] == file.row_count:
            return False
        lows = decode_row(stats.min_values, [field.type.as_nullable() for field in fields])
        low = lows[number]
        if not isinstance(low, int):
            return None
        if self.field.type.root in _TIMESTAMPS:
            return bool(_from_nanos(np.array([low]))[0] < self.before_s)
        return bool(_from_number(np.array([low], np.int64))[0] < self.before_s)

    def _seconds(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """The time of each row; undefined for a null."""
        arrow_type = to_arrow_type(self.field.type)
        numbers = column.cast(arrow_type).cast(pa.int64()).fill_null(0)
        values: npt.NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False)
        if self.field.type.root not in _TIMESTAMPS:
            return _from_number(values)
        unit = _NANOS_PER_UNIT[arrow_type.unit]
        millis = values * (unit // 10**6) if unit >= 10**6 else values // (10**6 // unit)
        return _from_millis(millis)


def _from_number(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(values >= MILLIS_FROM, values // 1000, values)


def _from_nanos(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return _from_millis(values // 10**6)


def _from_millis(millis: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Whole seconds; truncated towards zero, also before 1970."""
    return np.where(millis < 0, -(-millis // 1000), millis // 1000)


def _invalid(message: str, table: str) -> InvalidInputError:
    option = RECORD_LEVEL_TIME_FIELD.key
    return InvalidInputError(message, kind="record_expiry", table=table, option=option)
