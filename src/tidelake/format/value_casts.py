"""Reads files that are older than a column's type: with the old type, then cast.

1. A wanted column is found by its id in the schema that the file was written with. Fields of inner
   rows are found by id, too; elements, keys and values by position.
2. A column that has another type there is read with that type, and cast as Paimon casts it
   (:mod:`tidelake.types.cast`). A column that the schema lacks was added later and is null.
3. A condition on such a column does not apply to the values in the file, whose statistics have the
   old type. So the file's reader does not get it.
4. If a column became NOT NULL later, a null in an older file is refused.

Source: Paimon's ``SchemaEvolutionUtil`` and ``FormatReaderMapping`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.cast import can_cast, cast_values
from tidelake.types.nested import (
    ListParts,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)
from tidelake.types.predicate import Predicate, columns_of, conjoin, conjuncts


@dataclass(frozen=True, slots=True)
class Retyping:
    """The conversion of one file's columns to the wanted ones.

    Parameters
    ----------
    asked : tuple of DataField
        The same columns with the types for the file's reader.
    """

    path: str
    wanted: tuple[DataField, ...]
    asked: tuple[DataField, ...]
    zone: str | None
    table: str = ""

    @classmethod
    def of(
        cls,
        path: str,
        wanted: tuple[DataField, ...],
        file_fields: Sequence[DataField],
        *,
        zone: str | None,
        table: str = "",
    ) -> Retyping | None:
        """Compare the columns with those of the file's schema; None if no cast is needed.

        Raises
        ------
        UnsupportedError
            A column's type in the file cannot be cast to the wanted one.
        """
        if not file_fields:
            return None
        written = {f.id: f for f in file_fields}
        asked = tuple(_asked(field, written.get(field.id), path) for field in wanted)
        return None if asked == wanted else cls(path, wanted, asked, zone, table)

    def pushed(self, predicate: Predicate | None) -> Predicate | None:
        """Select the conditions on columns that need no cast."""
        changed = {w.name for w, a in zip(self.wanted, self.asked, strict=True) if w != a}
        return conjoin([c for c in conjuncts(predicate) if not columns_of(c) & changed])

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cast the columns read to the wanted ones.

        Raises
        ------
        InvalidInputError
            A value cannot be cast, or is null in a column that is NOT NULL now.
        """
        columns = []
        for field, asked, values in zip(self.wanted, self.asked, batch.columns, strict=True):
            if asked == field:
                columns.append(values)
                continue
            try:
                cast = _cast(values, asked.type, field.type, self.zone)
            except (InvalidInputError, UnsupportedError) as error:
                message = (
                    f"Column '{field.name}' of file {self.path}: {error.message.rstrip('.')}."
                    " Change the column's type to one that holds its old values, or read a"
                    " snapshot from before the change."
                )
                raise type(error)(
                    message, kind=error.kind, path=self.path, column=field.name
                ) from error
            if cast.null_count and not field.type.nullable:
                raise self._null_error(field.name)
            columns.append(cast)
        return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(self.wanted))

    def _null_error(self, column: str) -> InvalidInputError:
        of_table = f" of table {self.table}" if self.table else ""
        file = self.path.removeprefix(f"{self.table}/") if self.table else self.path
        message = (
            f"Column '{column}'{of_table} is NOT NULL, but its older file {file} holds nulls: let"
            f" it have them again by ALTER TABLE ... ALTER COLUMN {column} DROP NOT"
            " NULL, and replace them by UPDATE before you set NOT NULL."
        )
        context = {"table": self.table} if self.table else {}
        return InvalidInputError(
            message, kind="null_value", path=self.path, column=column, **context
        )


def _asked(field: DataField, written: DataField | None, path: str) -> DataField:
    """Choose the type of a wanted column for the file's reader."""
    if written is None:
        return field if field.type.nullable else replace(field, type=field.type.as_nullable())
    asked = _asked_type(field.type, written.type)
    if asked is None:
        message = (
            f"Column '{field.name}' is {written.type} in file {path} and cannot be read as"
            f" {field.type}: read a snapshot from before the type was changed."
        )
        raise UnsupportedError(message, kind="type_change", path=path, column=field.name)
    if written.type.nullable and not asked.nullable:
        asked = asked.as_nullable()
    return field if asked == field.type else replace(field, type=asked)


def _asked_type(wanted: DataType, written: DataType) -> DataType | None:
    """Make the wanted type with the file's leaf types; None if there is no cast."""
    if wanted.root is TypeRoot.ROW and written.root is TypeRoot.ROW:
        old = {i: t for (i, _), t in zip(written.child_fields, written.children, strict=True)}
        children = [
            _asked_type(child, old[i]) if i in old else child
            for (i, _), child in zip(wanted.child_fields, wanted.children, strict=True)
        ]
    elif wanted.is_nested and wanted.root is written.root:
        pairs = zip(wanted.children, written.children, strict=True)
        children = [_asked_type(new, old_type) for new, old_type in pairs]
    elif wanted.as_nullable() == written.as_nullable():
        return wanted
    else:
        return written.as_nullable() if can_cast(written, wanted, explicit=True) else None
    found = tuple(child for child in children if child is not None)
    return replace(wanted, children=found) if len(found) == len(children) else None


def _cast(values: pa.Array, asked: DataType, wanted: DataType, zone: str | None) -> pa.Array:
    if asked == wanted:
        return values
    if not wanted.is_nested:
        return cast_values(values, asked, wanted, zone=zone)
    arrow_type = to_arrow_type(wanted)
    pairs = list(zip(asked.children, wanted.children, strict=True))
    if wanted.root is TypeRoot.ROW:
        inside = zip(struct_children(values), pairs, strict=True)
        return struct_of([_cast(v, a, w, zone) for v, (a, w) in inside], arrow_type, values)
    parts = list_parts(values)
    if wanted.root is TypeRoot.MULTISET:  # the counts are not a child of the type
        pairs.append((DataType(TypeRoot.INT), DataType(TypeRoot.INT)))
    flat = [_cast(v, a, w, zone) for v, (a, w) in zip(parts.children, pairs, strict=True)]
    parts = ListParts(parts.offsets, parts.nulls, tuple(flat))
    return (
        list_of(parts, arrow_type) if wanted.root is TypeRoot.ARRAY else map_of(parts, arrow_type)
    )
