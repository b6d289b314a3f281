"""A copy into a table that exists: only one that was never written to, and is laid out alike.

The files come along as they are. So the columns, the keys and all options that say how files are
laid out and merged, and the constraints, must be those of the source; other options may differ.
Source: ``checkCompatible`` of Paimon's ``CopySchemaOperator`` (Spark, 2.1), which compares less,
and then replaces the partitions that the source has.
"""

from __future__ import annotations

from tidelake.catalog.copies.new_table import taken
from tidelake.catalog.identifier import Identifier
from tidelake.merge import MergeSpec
from tidelake.options import CONSTRAINT_PREFIX, Options, declared, file_order_columns
from tidelake.options.check import MERGE_SETTINGS
from tidelake.table.handle.handle import TableHandle
from tidelake.types import TableSchema


def check_is_empty(target: TableHandle, *, with_history: bool) -> None:
    """Refuse a table that has snapshots, or that is to get those of another.

    Raises
    ------
    AlreadyExistsError
        It is one.
    """
    name = Identifier.of(target.identifier)
    if with_history:
        raise taken(name, "a copy with its history is a new table")
    if target.snapshots.latest_id() is not None:
        raise taken(name, "has snapshots, while files are brought only into an empty table")


def check_is_alike(target: TableHandle, source: TableSchema) -> None:
    """Refuse a table in which files of the source would be read otherwise.

    Raises
    ------
    AlreadyExistsError
        It is one; the message names what differs.
    """
    name, own = Identifier.of(target.identifier), target.schema
    for what, mine, theirs in (
        ("columns, or ids of columns", _columns(own), _columns(source)),
        ("partition columns", own.partition_keys, source.partition_keys),
        ("primary key", own.primary_keys, source.primary_keys),
    ):
        if mine != theirs:
            raise taken(name, f"has other {what} than the source")
    different = _different_options(own, target.options, source)
    if different:
        shown = ", ".join(f"'{key}'" for key in different)
        raise taken(name, f"has other values than the source of {shown}")


def _columns(schema: TableSchema) -> list[tuple[int, str, object]]:
    return [(field.id, field.name, field.type) for field in schema.fields]


def _different_options(schema: TableSchema, own: Options, source: TableSchema) -> list[str]:
    theirs = Options.parse(source.options, table=own.table)
    fixed = [o for o in declared.BY_KEY.values() if not o.mutable or o is declared.BUCKET]
    found = {option.key for option in fixed if own.get(option) != theirs.get(option)}
    for key in {*own.raw, *theirs.raw}:
        is_fixed = key.startswith(CONSTRAINT_PREFIX) or key.endswith(MERGE_SETTINGS)
        if is_fixed and own.raw.get(key) != theirs.raw.get(key):
            found.add(key)
    if file_order_columns(own) != file_order_columns(theirs):
        found.add(declared.CLUSTERING_COLUMNS.key)
    is_keyed = bool(schema.primary_keys)
    if is_keyed and not found and MergeSpec.of(schema, own) != MergeSpec.of(source, theirs):
        found.add(declared.CHANGELOG_PRODUCER.key)  # all else that it depends on is fixed
    return sorted(found)
