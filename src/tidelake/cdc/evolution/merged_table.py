"""What one or several tables of a source are together: the schema of their target.

A column of several tables takes the type into which all convert. One that not all have, or of which
one allows nulls, allows nulls, where Paimon refuses or keeps NOT NULL. The key is that of the
tables if all have the same. Source: Paimon's ``JdbcSchemaUtils.mergeSchema``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidelake.cdc.evolution.type_change import TypeChange, type_change
from tidelake.cdc.source.source_table import OldRows, SourceTable
from tidelake.errors import InvalidInputError
from tidelake.types import DataField

_WHOLE = (OldRows.ALL, OldRows.SOME)


@dataclass(frozen=True, slots=True)
class MergedTable:
    """Columns and key of one or several tables.

    Parameters
    ----------
    name : str
        The tables' names, for messages.
    keys : tuple of str
        Empty if the tables have none, or different ones.
    sent : frozenset of str
        Columns whose old values come with a delete.
    sends_whole_rows : bool
        Whether a change has all values of its row.
    """

    name: str
    fields: tuple[DataField, ...]
    keys: tuple[str, ...]
    comment: str | None = None
    sent: frozenset[str] = frozenset()
    sends_whole_rows: bool = True


def fields_in_case(table: SourceTable, *, case_sensitive: bool) -> tuple[DataField, ...]:
    """The columns of a table as they are named in its target.

    Raises
    ------
    InvalidInputError
        A column has no type in the lake, or two differ only in case.
    """
    lacking = [f"'{c.name}' ({c.native_type})" for c in table.columns if c.type is None]
    if lacking:
        message = (
            f"Table '{table.name}' has columns whose types have no counterpart:"
            f" {', '.join(lacking)}. Take them as texts with --type_mapping unknown-to-string, or"
            " leave the table out."
        )
        raise InvalidInputError(message, kind="cdc_type", table=str(table.name))
    if case_sensitive:
        return table.fields
    fields = tuple(replace(f, name=f.name.lower()) for f in table.fields)
    names = [f.name for f in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = (
            f"Table '{table.name}' has several columns '{twice}' where case does not count: rename"
            " one, or take a catalog that is case-sensitive."
        )
        raise InvalidInputError(message, kind="cdc_column_twice", table=str(table.name))
    return fields


def merged_table(tables: Sequence[SourceTable], *, case_sensitive: bool = True) -> MergedTable:
    """Merge tables.

    Parameters
    ----------
    tables : sequence of SourceTable
        At least one.

    Raises
    ------
    InvalidInputError
        A column has types of which neither converts: kind ``cdc_merge``; both tables are named.
    """
    assert tables, "a target has a source"
    fields: dict[str, DataField] = {}
    owners: dict[str, SourceTable] = {}
    for place, table in enumerate(tables):
        added = {f.name: f for f in fields_in_case(table, case_sensitive=case_sensitive)}
        for name, field in fields.items():
            if name not in added:
                fields[name] = replace(field, type=field.type.as_nullable())
        for name, field in added.items():
            known = fields.get(name)
            if known is None:
                fields[name] = replace(field, type=field.type.as_nullable()) if place else field
            else:
                fields[name] = _merged(known, owners[name], field, table)
            if known is None or fields[name].type.as_nullable() != known.type.as_nullable():
                owners[name] = table
    keys = {_keys(table, case_sensitive=case_sensitive) for table in tables}
    return MergedTable(
        ", ".join(str(table.name) for table in tables),
        tuple(replace(field, id=i) for i, field in enumerate(fields.values())),
        keys.pop() if len(keys) == 1 else (),
        tables[0].comment,
        frozenset.intersection(*(_sent(table, case_sensitive=case_sensitive) for table in tables)),
        all(table.old_rows in _WHOLE for table in tables),
    )


def _sent(table: SourceTable, *, case_sensitive: bool) -> frozenset[str]:
    names = [column.name for column in table.columns]
    sent = names if table.old_rows in _WHOLE else table.keys
    return frozenset(name if case_sensitive else name.lower() for name in sent)


def _keys(table: SourceTable, *, case_sensitive: bool) -> tuple[str, ...]:
    return tuple(name if case_sensitive else name.lower() for name in table.keys)


def _merged(
    field: DataField, owner: SourceTable, other: DataField, table: SourceTable
) -> DataField:
    nullable = field.type.nullable or other.type.nullable
    match type_change(field.type.as_nullable(), other.type.as_nullable()):
        case TypeChange.CONVERT:
            return replace(other, type=replace(other.type, nullable=nullable))
        case TypeChange.IGNORE:
            return replace(field, type=replace(field.type, nullable=nullable))
        case _:
            message = (
                f"Column '{field.name}' is {field.type} in table '{owner.name}' and {other.type} in"
                f" '{table.name}', and neither converts into the other: give the tables different"
                " targets, by table_mapping or merge_shards=false."
            )
            raise InvalidInputError(message, kind="cdc_merge", column=field.name)
