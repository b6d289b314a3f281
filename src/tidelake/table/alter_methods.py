"""Methods of a table that alter it.

Each publishes the next schema and leaves data and snapshots alone; the table object takes the
new columns and options. Several changes at once, all or none: :meth:`AlterMethods.alter`.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from tidelake.errors import InvalidInputError
from tidelake.table.handle.arguments import check_dict
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

Self = TypeVar("Self", bound="AlterMethods")


class AlterMethods(abc.ABC):
    """The changes of ALTER TABLE. A column inside another is named by a tuple of names."""

    @abc.abstractmethod
    def _alter(self, changes: tuple[SchemaChange, ...]) -> None:
        """Publish the changed schema and use it from now on."""

    def alter(self: Self, *changes: SchemaChange) -> Self:
        """Change the schema: all of the changes, in order, or none.

        Parameters
        ----------
        *changes : SchemaChange
            :class:`tidelake.AddColumn`, :class:`tidelake.RenameColumn`, ...

        Returns
        -------
        The table itself, with the new schema.

        Raises
        ------
        NotFoundError, AlreadyExistsError, InvalidInputError, UnsupportedError
            A change is not allowed; nothing was written.
        OutcomeUnknownError
            The storage failed while the schema was published.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"k": pa.int32(), "v": pa.string()}))
        >>> table.alter(
        ...     tidelake.UpdateColumnType("k", "BIGINT"), tidelake.RenameColumn("v", "name")
        ... ).schema.names
        ['k', 'name']
        """
        if changes:
            self._alter(changes)
        return self

    def add_column(
        self: Self,
        column: ColumnPath,
        type: ColumnType,
        *,
        comment: str | None = None,
        first: bool = False,
        after: str | None = None,
        before: str | None = None,
        default: str | None = None,
        if_exists: Literal["error", "ignore"] = "error",
    ) -> Self:
        """Add a column, by default as the last; existing rows have null in it.

        Parameters
        ----------
        column : str or tuple of str
            Its name; ``("address", "zip")`` adds a field to the row ``address``.
        type : DataType, pyarrow.DataType or str
            Its type: ``pa.int64()``, ``"DECIMAL(10, 2)"``.
        comment : str, optional
            A comment.
        first, after, before
            At most one: where it goes.
        default : str, optional
            The value of later rows that give none: text as in SQL.
        if_exists : {'error', 'ignore'}
            What to do if a column of this name exists, in any case.

        Examples
        --------
        ``table.add_column("note", "STRING", after="id")``
        """
        position = _position(first=first, after=after, before=before)
        return self.alter(AddColumn(column, type, comment, position, default, if_exists))

    def drop_column(
        self: Self, column: ColumnPath, *, if_missing: Literal["error", "ignore"] = "error"
    ) -> Self:
        """Drop a column; a later column of the same name is a different one."""
        return self.alter(DropColumn(column, if_missing))

    def rename_column(self: Self, column: ColumnPath, new_name: str) -> Self:
        """Rename a column; options that name it follow."""
        return self.alter(RenameColumn(column, new_name))

    def retype_column(self: Self, column: ColumnPath, type: ColumnType) -> Self:
        """Change a column's type; reads cast older values, as Paimon does."""
        return self.alter(UpdateColumnType(column, type))

    def move_column(
        self: Self,
        column: str,
        *,
        first: bool = False,
        last: bool = False,
        after: str | None = None,
        before: str | None = None,
    ) -> Self:
        """Move a column: ``first``, ``last``, ``after`` or ``before`` another."""
        position = _position(first=first, last=last, after=after, before=before)
        if position is None:
            message = "Say where the column goes: first=True, last=True, after=... or before=..."
            raise InvalidInputError(message, kind="bad_argument")
        return self.alter(UpdateColumnPosition(column, position))

    def set_nullable(self: Self, column: ColumnPath, *, nullable: bool) -> Self:
        """Allow nulls in a column, or forbid them."""
        return self.alter(UpdateColumnNullability(column, nullable))

    def set_default(self: Self, column: ColumnPath, default: str | None) -> Self:
        """Set the value of later rows that give none; None removes the default."""
        return self.alter(UpdateColumnDefaultValue(column, default))

    def set_comment(self: Self, comment: str | None, *, column: ColumnPath | None = None) -> Self:
        """Set the comment of the table or of a column; None removes it."""
        if column is None:
            return self.alter(UpdateComment(comment))
        return self.alter(UpdateColumnComment(column, comment))

    def set_options(self: Self, options: Mapping[str, object]) -> Self:
        """Set options of the table, for everybody; :meth:`Table.copy` sets them for one use."""
        check_dict(options, "options", table="")
        return self.alter(*(SetOption(str(k), v) for k, v in options.items()))

    def reset_options(self: Self, keys: Iterable[str]) -> Self:
        """Reset options to their defaults."""
        named = [keys] if isinstance(keys, str) else keys
        return self.alter(*(RemoveOption(str(key)) for key in named))


def _position(
    *,
    first: bool = False,
    last: bool = False,
    after: str | None = None,
    before: str | None = None,
) -> Position | None:
    if sum((first, last, after is not None, before is not None)) > 1:
        message = "Give one of first=, last=, after= and before=, not several."
        raise InvalidInputError(message, kind="bad_argument")
    if after is not None:
        return Position.after(after)
    if before is not None:
        return Position.before(before)
    if first or last:
        return Position.first() if first else Position.last()
    return None
