"""The target of an overwrite: some partitions, the partitions of its rows, or the whole table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan.pruning.prune import matching_partitions
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.partition_spec import partition_predicate
from tidelake.types.predicate import Predicate
from tidelake.types.values import storage_to_arrow, to_storage

DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The rows that a commit replaces.

    Parameters
    ----------
    static : Predicate, optional
        On partition columns: these partitions are replaced, with or without new rows.
    is_dynamic : bool
        Whether to replace the partitions of the rows. Without `static` and this, all are.
    values : mapping
        Values of partition columns that the rows may leave out.
    read_snapshot : Snapshot, optional
        The rows are the partitions' content in this snapshot. If the content differs at the
        commit, that is a conflict.
    """

    static: Predicate | None = None
    is_dynamic: bool = False
    values: Mapping[str, object] = field(default_factory=dict)
    read_snapshot: Snapshot | None = None

    @classmethod
    def of_rows(cls, handle: TableHandle) -> Overwrite:
        """The target of rows without `partition=`, by option ``dynamic-partition-overwrite``."""
        is_dynamic = bool(handle.schema.partition_keys) and bool(
            handle.options.get(declared.DYNAMIC_PARTITION_OVERWRITE)
        )
        return cls(is_dynamic=is_dynamic)

    @property
    def partitions(self) -> Predicate | str | None:
        """What is replaced, as :meth:`tidelake.commit.Committer.overwrite` takes it."""
        return DYNAMIC if self.is_dynamic else self.static

    @property
    def is_partial(self) -> bool:
        """Whether some partitions may stay as they are."""
        return self.partitions is not None

    def with_columns(self, handle: TableHandle, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the partition columns that they omit."""
        for name, value in self.values.items():
            if name not in rows.schema.names:
                data_type = handle.schema.field(name).type
                constant = storage_to_arrow([to_storage(value, data_type)], data_type)[0]
                rows = rows.append_column(name, pa.repeat(constant, rows.num_rows))
        return rows


def write_target(
    handle: TableHandle, mode: str, partition: Mapping[str, object] | None
) -> Overwrite | None:
    """Find the rows that a write of this mode replaces; None if it adds rows.

    Raises
    ------
    InvalidInputError
        The mode is unknown, or `partition` does not go with it or names other columns.
    """
    if mode not in {"append", "overwrite"}:
        message = (
            f"mode='{mode}' is not known: use 'append' (an upsert on a primary key) or 'overwrite'."
        )
        raise InvalidInputError(message, kind="write_mode", table=handle.identifier)
    if mode == "append":
        if partition is not None:
            message = "partition= names what to overwrite: pass mode='overwrite' with it."
            raise InvalidInputError(message, kind="write_mode", table=handle.identifier)
        return None
    if partition is None:
        return Overwrite.of_rows(handle)
    static = partition_predicate(handle.schema, partition, table=handle.identifier)
    return Overwrite(static, values=partition)


def partial_overwrite_error(table: str) -> UnsupportedError:
    """The error for overwriting single partitions if keys of the rows may be in others."""
    message = (
        f"Keys of table '{table}' may change partition: an overwrite of"
        " single partitions would have to delete keys in the others. Delete the partitions"
        " and upsert the rows, or set 'dynamic-partition-overwrite' = 'false' and replace"
        " the whole table."
    )
    return UnsupportedError(message, kind="cross_partition", table=table)


class PartitionCheck:
    """Refuses rows of partitions that are not overwritten."""

    def __init__(self, handle: TableHandle, static: Predicate) -> None:
        self._handle = handle
        self._static = static
        self._fields = [handle.schema.field(name) for name in handle.schema.partition_keys]

    def __call__(self, partition: bytes) -> None:
        """Check one partition.

        Raises
        ------
        InvalidInputError
            It is not overwritten.
        """
        handle = self._handle
        values = handle.paths.partition_values(partition)
        if not matching_partitions([values], self._fields, self._static)[0]:
            message = (
                f"Rows of partition {handle.paths.partition_path(partition)} were given while"
                f" overwriting another partition of table '{handle.identifier}': filter them out,"
                " or leave partition= out."
            )
            raise InvalidInputError(message, kind="outside_partition", table=handle.identifier)
