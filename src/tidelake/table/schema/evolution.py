"""Applies changes to a schema: which are allowed, and what follows from each.

1. Changes apply in order, each to the result of those before it.
2. A new column takes the next unused id, and so do the fields inside it; no other id changes. It is
   nullable, because existing rows lack it.
3. A renamed column is renamed in the primary key and in the options that name it.
4. Partition columns cannot be renamed, retyped or dropped; those of the primary key cannot be
   retyped, dropped or made nullable; the last column stays.
5. A type may change if values can be cast (:mod:`tidelake.types.cast`); with the option
   ``disable-explicit-type-casting`` only if none is lost. A column becomes NOT NULL only with
   ``alter-column-null-to-not-null.disabled = false``.
6. Once the table has a snapshot, options that define how files are laid out or merged are fixed.
7. A column that the watermark names cannot be renamed or dropped.
8. The result obeys :mod:`tidelake.table.schema.validation`, as a new table does.

Source: Paimon's ``SchemaManager.generateTableSchema`` and ``SchemaValidation`` (1.3.1). Three rules
go further: a name may change twice in one call, an option may be set to its current value, and
columns of the watermark stay, because without them Flink cannot open the table. Nothing is read or
written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tidelake.commit.iceberg import check_iceberg
from tidelake.commit.partition_expiry import check_partition_expiry
from tidelake.commit.tags import check_automatic_tags
from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    TidelakeError,
    UnsupportedError,
    shortened,
)
from tidelake.fileio.name import validate_name
from tidelake.format import check_file_formats, check_timestamps
from tidelake.options import (
    Options,
    check_new_table,
    check_supported,
    declared,
    warn_of_promises,
)
from tidelake.options.column_options import renamed_in_options
from tidelake.options.user_options import option_text
from tidelake.table.handle.time_travel import option_moment
from tidelake.table.schema.clustering_options import check_clustering
from tidelake.table.schema.constraints import check_constraint_columns
from tidelake.table.schema.merge_options import check_engine_options, check_function_settings
from tidelake.table.schema.option_change import check_lookup_kept, check_option_change
from tidelake.table.schema.partition_done_options import check_partition_done
from tidelake.table.schema.validation import check_columns, check_layout, check_types
from tidelake.table.schema.watermark import check_watermark
from tidelake.types import DataField, DataType, TableSchema
from tidelake.types.arrow import type_of_column
from tidelake.types.cast import can_cast
from tidelake.types.column_tree import UNNAMED_ID, edited, no_column, path_text
from tidelake.types.default_value import default_scalar
from tidelake.types.field_ids import with_new_type_ids
from tidelake.types.schema_change import (
    AddColumn,
    ColumnPath,
    ColumnType,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)

Fields = tuple[DataField, ...]


def evolved_schema(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    table: str,
    has_snapshots: bool,
    time_ms: int,
) -> TableSchema:
    """Give the next schema of a table.

    Parameters
    ----------
    schema : TableSchema
        The newest schema.
    changes : sequence of SchemaChange
        The changes, in order.
    has_snapshots : bool
        Whether the table has snapshots: some options are fixed then.

    Returns
    -------
    TableSchema
        With the next id.

    Raises
    ------
    NotFoundError
        A column does not exist.
    AlreadyExistsError
        A name is taken.
    InvalidInputError, UnsupportedError
        A change is not allowed; the message names it and the reason.
    """
    check_watermark(schema.options, changes, table=table)
    draft = _Draft(schema, table, has_snapshots=has_snapshots)
    for change in changes:
        _check_change(change, table)
        draft.apply(change)
    new = replace(
        schema,
        id=schema.id + 1,
        fields=draft.fields,
        highest_field_id=draft.highest_id,
        primary_keys=draft.primary_keys,
        options=MappingProxyType(draft.options),
        comment=draft.comment,
        time_ms=time_ms,
    )
    try:
        _check(schema, new, table)
        if has_snapshots:
            check_lookup_kept(schema.options, new.options, table=table)
    except InvalidInputError as refusal:
        named_by = refusal.context.get("named_by")
        name = str(refusal.context.get("column"))
        if named_by is None or name not in {f.name for f in schema.fields}:
            raise
        message = (
            f"Column '{shortened(name)}' of table '{table}' cannot be dropped: its {named_by} names"
            " it. Change that first."
        )
        raise InvalidInputError(message, kind="bad_schema", table=table, column=name) from refusal
    return new


def _check_change(change: object, table: str) -> None:
    if not isinstance(change, SchemaChange):
        message = (
            f"{shortened(repr(change))} is not a change of table '{table}': give"
            " tidelake.AddColumn(...), tidelake.RenameColumn(...) or another of these classes."
        )
        raise InvalidInputError(message, kind="bad_argument", table=table)


def _check_text(text: object, what: str, table: str) -> None:
    if text is not None and not isinstance(text, str):
        message = f"{what} of table '{table}' must be a text, not {shortened(repr(text))}."
        raise InvalidInputError(message, kind="bad_argument", table=table)


def _check(old: TableSchema, new: TableSchema, table: str) -> None:
    check_columns(
        new.fields,
        primary_keys=new.primary_keys,
        partition_keys=new.partition_keys,
        table=table,
        before=old.fields,
    )
    before = set(old.fields)
    check_types([f for f in new.fields if f not in before], table=table)
    check_new_table({k: v for k, v in new.options.items() if old.options.get(k) != v}, table=table)
    parsed = Options.parse(new.options, table=table)
    known_options = Options.parse(old.options, table=table)
    option_moment(parsed, table=table)  # refuses moments that contradict each other
    refusal = _unsupported(parsed, new, table)
    if refusal is not None:
        known = _unsupported(known_options, old, table)
        if known is None or known.message != refusal.message:
            raise refusal
    check_engine_options(
        parsed, has_primary_key=bool(new.primary_keys), table=table, before=known_options
    )
    check_layout(new, parsed, table=table)
    check_clustering(new, parsed, table=table, before=(old, known_options))
    check_partition_expiry(new, parsed, table=table, before=known_options)
    check_partition_done(new, parsed, table=table, before=known_options)
    check_automatic_tags(parsed, table=table, before=known_options)
    check_iceberg(new, parsed, table=table, before=old.fields)
    check_function_settings(new, parsed, table=table, before=old)
    if new.options != old.options:
        warn_of_promises(parsed, table=table)


def _unsupported(parsed: Options, schema: TableSchema, table: str) -> TidelakeError | None:
    """Why a table with these options could not be created; an older one may be altered."""
    try:
        check_supported(
            parsed, table=table, has_primary_key=bool(schema.primary_keys), action="create"
        )
        check_file_formats(parsed, schema.fields, what=f"Table '{table}'")
        check_timestamps(schema.fields, what=f"Table '{table}'")
    except (UnsupportedError, InvalidInputError) as refusal:
        return refusal
    return None


@dataclass
class _Draft:
    """A schema in progress."""

    schema: TableSchema
    table: str
    has_snapshots: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        schema = self.schema
        parsed = Options.parse(schema.options, table=self.table)
        self.fields: Fields = schema.fields
        self.highest_id = schema.highest_field_id
        self.primary_keys = schema.primary_keys
        self.options = dict(schema.options)
        self.comment = schema.comment
        self.explicit_casts = not parsed.get(declared.DISABLE_EXPLICIT_TYPE_CASTING)
        self.not_null_fixed = parsed.get(declared.ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED)

    def apply(self, change: SchemaChange) -> None:
        """Apply one change."""
        match change:
            case AddColumn():
                self._add(change)
            case DropColumn():
                self._drop(change)
            case RenameColumn():
                self._rename(_path(change.column, self.table), change.new_name)
            case UpdateColumnType():
                self._retype(change)
            case UpdateColumnNullability():
                self._set_nullable(_path(change.column, self.table), nullable=change.nullable)
            case UpdateColumnComment():
                self._describe(change.column, "comment", description=change.comment)
            case UpdateColumnDefaultValue():
                self._set_default(change)
            case UpdateColumnPosition():
                self._move(change)
            case SetOption() | RemoveOption():
                self._set_option(change)
            case UpdateComment():
                _check_text(change.comment, "The comment", self.table)
                self.comment = change.comment

    # ---- columns

    def _edit(self, path: tuple[str, ...], change: Callable[[DataField], DataField]) -> None:
        """Replace a column that must exist."""

        def edit(fields: Fields, name: str) -> Fields:
            at = self._index(fields, name, path)
            return (*fields[:at], change(fields[at]), *fields[at + 1 :])

        self.fields = edited(self.fields, path, edit, table=self.table)

    def _index(self, fields: Fields, name: str, path: tuple[str, ...]) -> int:
        names = [f.name for f in fields]
        if name not in names:
            raise no_column((*path[:-1], name), names, self.table)
        return names.index(name)

    def _add(self, change: AddColumn) -> None:
        path = _path(change.column, self.table)
        given = _type(change.type, path, self.table)
        _check_text(change.comment, f"The comment of column '{path_text(path)}'", self.table)
        if change.if_exists == "ignore" and self._is_there(path):
            return
        if not given.nullable:
            message = (
                f"Column '{path_text(path)}' cannot be added to table '{self.table}' as NOT NULL:"
                " existing rows have no value for it. Add it without NOT NULL."
            )
            raise InvalidInputError(message, kind="not_null", table=self.table)
        new_id = self.highest_id + 1
        data_type, self.highest_id = with_new_type_ids(given, after=new_id)

        def edit(fields: Fields, name: str) -> Fields:
            self._check_new_name(fields, name, path)
            column = DataField(new_id, name, data_type, change.comment)
            at = self._insert_index(fields, change.position or Position.last(), path)
            return (*fields[:at], column, *fields[at:])

        self.fields = edited(self.fields, path, edit, table=self.table)
        if change.default is not None:
            self._set_default(UpdateColumnDefaultValue(path, change.default))

    def _is_there(self, path: tuple[str, ...]) -> bool:
        """Whether a column has this name, in any case; its parent must exist."""
        found = False

        def look(fields: Fields, name: str) -> Fields:
            nonlocal found
            found = any(f.name.casefold() == name.casefold() for f in fields)
            return fields

        edited(self.fields, path, look, table=self.table)
        return found

    def _check_new_name(
        self, fields: Fields, name: str, path: tuple[str, ...], *, old: str | None = None
    ) -> None:
        """Refuse a name that a column has, in any case; `old` is the column being renamed."""
        if any(f.id == UNNAMED_ID for f in fields):
            self._refuse_unnamed(path)
        validate_name(name, "column")
        known = next(
            (f.name for f in fields if f.name != old and f.name.casefold() == name.casefold()),
            name if name == old else None,
        )
        if known is not None:
            shown = path_text((*path[:-1], known))
            message = f"Table '{self.table}' has a column '{shown}' already"
            if known != name:
                message += f", and '{name}' differs from it only in case"
            message += ": choose another name."
            raise AlreadyExistsError(message, kind="column_exists", table=self.table, column=shown)

    def _refuse_unnamed(self, path: tuple[str, ...]) -> None:
        message = (
            f"'{path_text(path)}' of table '{self.table}' is an element or a value and has no"
            " name: only its type can change."
        )
        raise InvalidInputError(message, kind="bad_argument", table=self.table)

    def _insert_index(self, fields: Fields, position: Position, path: tuple[str, ...]) -> int:
        if position.where == "first":
            return 0
        if position.where == "last":
            return len(fields)
        at = self._index(fields, position.reference or "", path)
        return at + (position.where == "after")

    def _drop(self, change: DropColumn) -> None:
        path = _path(change.column, self.table)
        if change.if_missing == "ignore" and not self._is_there(path):
            return
        self._check_no_key(path, "dropped", also_primary=True)
        self._check_no_constraint(path, "dropped")

        def edit(fields: Fields, name: str) -> Fields:
            at = self._index(fields, name, path)
            if fields[at].id == UNNAMED_ID:
                self._refuse_unnamed(path)
            if len(fields) == 1:
                message = (
                    f"Column '{path_text(path)}' of table '{self.table}' is its last column and"
                    " cannot be dropped: add another first, or drop the table."
                )
                raise InvalidInputError(message, kind="last_column", table=self.table)
            return (*fields[:at], *fields[at + 1 :])

        self.fields = edited(self.fields, path, edit, table=self.table)

    def _check_no_key(self, path: tuple[str, ...], verb: str, *, also_primary: bool) -> None:
        """Refuse to change a key column; inside a column there is no key."""
        if len(path) > 1:
            return
        name = path[0]
        key = "partition" if name in self.schema.partition_keys else "primary"
        if key == "partition" or (also_primary and name in self.primary_keys):
            message = (
                f"Column '{shortened(name)}' is part of the {key} key of table '{self.table}' and"
                f" cannot be {verb}: write the rows into a new table."
            )
            raise UnsupportedError(message, kind="key_column", table=self.table, column=name)

    def _check_no_constraint(self, path: tuple[str, ...], verb: str) -> None:
        """Refuse to change a column that a constraint has in its text."""
        if len(path) == 1:
            check_constraint_columns(self.options, self.fields, path[0], verb, table=self.table)

    def _rename(self, path: tuple[str, ...], new_name: str) -> None:
        self._check_no_key(path, "renamed", also_primary=False)
        self._check_no_constraint(path, "renamed")

        def edit(fields: Fields, name: str) -> Fields:
            at = self._index(fields, name, path)
            self._check_new_name(fields, new_name, path, old=name)
            return (*fields[:at], replace(fields[at], name=new_name), *fields[at + 1 :])

        self.fields = edited(self.fields, path, edit, table=self.table)
        if len(path) == 1:
            old = path[0]
            self.primary_keys = tuple(new_name if k == old else k for k in self.primary_keys)
            self.options = renamed_in_options(self.options, old, new_name)

    def _retype(self, change: UpdateColumnType) -> None:
        path = _path(change.column, self.table)
        self._check_no_key(path, "given another type", also_primary=True)
        given = _type(change.type, path, self.table)

        def edit(column: DataField) -> DataField:
            old, new = column.type, given
            if change.keep_nullability:
                new = replace(new, nullable=old.nullable)
            else:
                self._check_nullability(old, path, nullable=new.nullable)
            if not can_cast(old, new, explicit=self.explicit_casts):
                raise self._no_cast(old, new, path)
            if not can_cast(old, new, explicit=False):  # rows of before could violate it then
                self._check_no_constraint(path, "given a type that may change its values")
            if new.is_nested:  # equal except for ids, which the user guessed
                new = replace(old, nullable=new.nullable)
            return replace(column, type=new)

        self._edit(path, edit)

    def _no_cast(self, old: DataType, new: DataType, path: tuple[str, ...]) -> InvalidInputError:
        if old.is_nested and old.root is new.root:
            why = "name what is to change inside it, as in ('column', 'field')"
        elif not self.explicit_casts and can_cast(old, new, explicit=True):
            why = (
                "values could be lost, and the table's option 'disable-explicit-type-casting'"
                " forbids that"
            )
        else:
            why = "its values cannot be cast; add a new column instead"
        message = (
            f"Column '{path_text(path)}' of table '{self.table}' cannot change from"
            f" {old.as_nullable()} to {new.as_nullable()}: {why}."
        )
        return InvalidInputError(message, kind="type_change", table=self.table)

    def _check_nullability(self, old: DataType, path: tuple[str, ...], *, nullable: bool) -> None:
        if old.nullable and not nullable and self.not_null_fixed:
            message = (
                f"Column '{path_text(path)}' of table '{self.table}' may hold nulls and cannot"
                " become NOT NULL. If it holds none, first set the table's option"
                " 'alter-column-null-to-not-null.disabled' to 'false'."
            )
            raise InvalidInputError(message, kind="not_null", table=self.table)

    def _set_nullable(self, path: tuple[str, ...], *, nullable: bool) -> None:
        if nullable:
            primary = len(path) == 1 and path[0] in self.primary_keys
            if primary:
                self._check_no_key(path, "made nullable", also_primary=True)

        def edit(column: DataField) -> DataField:
            self._check_nullability(column.type, path, nullable=nullable)
            return replace(column, type=replace(column.type, nullable=nullable))

        self._edit(path, edit)

    def _describe(self, column: ColumnPath, what: str, **new: Any) -> None:
        path = _path(column, self.table)
        for text in new.values():
            _check_text(text, f"The {what} of column '{path_text(path)}'", self.table)

        def edit(found: DataField) -> DataField:
            if found.id == UNNAMED_ID:
                message = f"'{path_text(path)}' of table '{self.table}' cannot have a {what}."
                raise InvalidInputError(message, kind="bad_argument", table=self.table)
            return replace(found, **new)

        self._edit(path, edit)

    def _set_default(self, change: UpdateColumnDefaultValue) -> None:
        path, text = _path(change.column, self.table), change.default
        _check_text(text, f"The default of column '{path_text(path)}'", self.table)

        def check(found: DataField) -> DataField:
            if text is None:
                return found
            default_scalar(text, found.type, zone="UTC")  # refuses an invalid default
            return found

        self._edit(path, check)
        self._describe(change.column, "default", default_value=text)

    def _move(self, change: UpdateColumnPosition) -> None:
        path = _path(change.column, self.table)
        if len(path) > 1:
            message = f"Only columns of the table itself can be moved, not '{path_text(path)}'."
            raise UnsupportedError(message, kind="nested_move", table=self.table)
        at = self._index(self.fields, path[0], path)
        moved = self.fields[at]
        others = (*self.fields[:at], *self.fields[at + 1 :])
        if change.position.reference == moved.name:
            message = f"Column '{shortened(moved.name)}' cannot be moved next to itself."
            raise InvalidInputError(message, kind="bad_argument", table=self.table)
        to = self._insert_index(others, change.position, path)
        self.fields = (*others[:to], moved, *others[to:])

    # ---- options

    def _set_option(self, change: SetOption | RemoveOption) -> None:
        value = option_text(change.value) if isinstance(change, SetOption) else None
        if self.has_snapshots:
            check_option_change(change.key, self.options.get(change.key), value, table=self.table)
        if value is None:
            self.options.pop(change.key, None)
        else:
            self.options[change.key] = value


def _path(column: ColumnPath, table: str) -> tuple[str, ...]:
    path = (column,) if isinstance(column, str) else tuple(column)
    if not path or not all(isinstance(name, str) and name for name in path):
        message = (
            f"{shortened(repr(column))} is not a column of table '{table}': give its name, or a"
            " tuple of the names that lead to it."
        )
        raise InvalidInputError(message, kind="bad_argument", table=table)
    return path


def _type(given: ColumnType, path: tuple[str, ...], table: str) -> DataType:
    try:
        if isinstance(given, (DataType, pa.DataType, str)):
            return type_of_column(given, path[-1])
    except TidelakeError as error:
        message = f"Column '{path_text(path)}' of table '{table}': {error.message}"
        raise InvalidInputError(message, kind="bad_schema", table=table) from error
    message = (
        f"{shortened(repr(given))} is not a type for column '{path_text(path)}' of table '{table}':"
        " give an Arrow type, such as pyarrow.int64(), or a text such as 'DECIMAL(10, 2)' or"
        " 'MAP<STRING, INT>'."
    )
    raise InvalidInputError(message, kind="bad_schema", table=table)
