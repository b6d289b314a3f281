"""Updates nested fields of a column.

``SET address.city = 'Bonn'`` builds a new struct ``address`` with the new field and the other old
ones. If the struct was null, its other fields become null, as in Paimon on Spark. Several fields of
one column are updated together, and every expression sees the old row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.spark.expression.store_assignment import assigned_values
from tidelake.spark.expression.types import to_spark_type
from tidelake.types import DataField, DataType, TypeRoot

FieldColumn = tuple[tuple[str, ...], Column]
"""Names of the nested fields below a column, and the new value."""


def with_fields(
    rows: DataFrame, old: Column, field: DataField, given: Sequence[FieldColumn], *, table: str
) -> Column:
    """Return a column with new values of some nested fields.

    Parameters
    ----------
    rows : DataFrame
        Rows with the values' types, perhaps none.
    given : sequence of FieldColumn
        The new values; none contains another.

    Returns
    -------
    Column
        Of the column's own type.

    Raises
    ------
    InvalidInputError, UnsupportedError
        There is no such field, or a value does not fit.
    """
    columns: dict[tuple[str, ...], Column] = {}
    targets: dict[tuple[str, ...], DataField] = {}
    for path, value in given:
        names, kind = _resolved(field, path, table)
        columns[names] = value
        targets[names] = replace(field, name=".".join((field.name, *names)), type=kind)
    try:
        values = assigned_values(rows, columns, targets, table=table)
    except InvalidInputError as error:
        context = {**error.context, "column": field.name}
        raise InvalidInputError(error.message, kind=error.kind, **context) from error
    made = _made(old, field.type, values)
    return made.cast(to_spark_type(field.type, column=field.name, table=table))


def _resolved(
    field: DataField, path: Sequence[str], table: str
) -> tuple[tuple[str, ...], DataType]:
    """Resolve a nested field case-insensitively: its names and type."""
    names: list[str] = []
    found = field.type
    for part in path:
        above = ".".join((field.name, *names))
        if found.root is not TypeRoot.ROW:
            message = (
                f"'{above}' of table '{table}' is {found}, which has no fields: set the whole"
                " column."
            )
            raise UnsupportedError(message, kind="column_field", table=table, column=field.name)
        own = [name for _, name in found.child_fields]
        alike = [n for n in own if n == part] or [n for n in own if n.lower() == part.lower()]
        if len(alike) != 1:
            message = (
                f"'{above}' of table '{table}' has no field '{part}'.{near_names(part, own)}"
                f" Its fields are: {', '.join(own)}."
            )
            raise InvalidInputError(message, kind="column_field", table=table, column=field.name)
        names.append(alike[0])
        found = found.children[own.index(alike[0])]
    return tuple(names), found


def _made(old: Column, kind: DataType, values: Mapping[tuple[str, ...], Column]) -> Column:
    below: dict[str, dict[tuple[str, ...], Column]] = {}
    for path, value in values.items():
        below.setdefault(path[0], {})[path[1:]] = value
    columns = []
    for (_, name), child in zip(kind.child_fields, kind.children, strict=True):
        own, before = below.get(name), old.getField(name)
        if own is None:
            new = before
        elif () in own:
            new = own[()]
        else:
            new = _made(before, child, own)
        columns.append(new.alias(name))
    return F.struct(*columns)
