"""Partitions as users name them: ``{"dt": "2024-01-01"}``, some or all partition columns.

A value is a Python value of the column's type; None names the rows whose partition value is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.table.handle.arguments import check_dict
from tidelake.types import TableSchema
from tidelake.types.predicate import Compare, IsNull, Or, Predicate, conjoin
from tidelake.types.values import to_storage


def partition_predicate(
    schema: TableSchema, partition: Mapping[str, object], *, table: str
) -> Predicate:
    """The bound predicate on partition columns of ``partition={...}``.

    Raises
    ------
    InvalidInputError
        A name is not a partition column, or none is given.
    """
    keys = schema.partition_keys
    check_dict(partition, "partition", table=table)
    if not partition:
        message = (
            "partition= is empty: name at least one partition column, or leave it out to overwrite"
            " the partitions that the rows belong to."
        )
        raise InvalidInputError(message, kind="bad_partition", table=table)
    parts: list[Predicate] = []
    for name, value in partition.items():
        if name not in keys:
            known = f"its partition columns are {', '.join(keys)}" if keys else "it has none"
            message = (
                f"'{name}' is not a partition column of table '{table}': {known}."
                f"{near_names(name, keys)}"
            )
            raise InvalidInputError(message, kind="bad_partition", table=table, column=name)
        stored = to_storage(value, schema.field(name).type)
        parts.append(_equals(name, stored))
    return _all(parts)


def exact_partition(schema: TableSchema, values: Sequence[object]) -> Predicate:
    """One partition, by the storage values of all its columns."""
    return _all([_equals(k, v) for k, v in zip(schema.partition_keys, values, strict=True)])


def _equals(name: str, stored: object) -> Predicate:
    return IsNull(name) if stored is None else Compare("==", name, stored)


def _all(parts: Sequence[Predicate]) -> Predicate:
    predicate = conjoin(parts)
    assert predicate is not None, "at least one column is named"
    return predicate


def partitions_predicate(schema: TableSchema, partitions: object, *, table: str) -> Predicate:
    """The predicate of ``[{...}, {...}]``: rows of any of the partitions.

    Raises
    ------
    InvalidInputError
        It is not a list, or empty, or one of its items is malformed.
    """
    if isinstance(partitions, Mapping):
        return partition_predicate(schema, partitions, table=table)
    if not isinstance(partitions, Sequence) or isinstance(partitions, str) or not partitions:
        message = (
            f"{shortened(repr(partitions))} names no partitions of table '{table}': give a list of"
            " dicts, as in [{'dt': '2024-01-01'}]."
        )
        raise InvalidInputError(message, kind="bad_partition", table=table)
    parts = tuple(partition_predicate(schema, part, table=table) for part in partitions)
    return parts[0] if len(parts) == 1 else Or(parts)
