"""The request for a stream: a table with options, the frame's columns, the use of row kinds.

Spark fixes the columns of a frame when the frame is made. It opens the source when a query starts,
with keys of options in lower case. The column ``_row_kind`` of a primary-key table says what each
row does to its key. A frame without that column cannot show a delete: option ``read.changelog`` =
``false`` leaves deletes and old rows out; where it is not set, a delete stops the stream.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.engine.streams import ChangeFilter, StreamPlan, UpdateFilter, difference
from tidelake.engine.tables import SystemTable, Table, TableHandle
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.options import Options, declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.spark.streams.read.alignment import AlignmentRule
from tidelake.types import TableSchema
from tidelake.types.predicate import Predicate


class Kinds(enum.Enum):
    """What a stream does with the kinds of its rows."""

    SHOWN = "shown"
    """Show them in a column."""
    INSERTS = "inserts"
    """The table has no kinds: every row is an insert."""
    UPSERTS = "upserts"
    """Leave out deletes and old rows."""
    CHECKED = "checked"
    """Leave out old rows; stop at a delete."""

    @classmethod
    def of(cls, options: Options, schema: TableSchema, names: Sequence[str]) -> Kinds:
        """Decide from the options, the table and the columns of a frame."""
        if ROW_KIND_COLUMN in names:
            return cls.SHOWN
        if not schema.primary_keys:
            return cls.INSERTS
        return cls.UPSERTS if options.get(declared.READ_CHANGELOG) is False else cls.CHECKED


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream that a query reads.

    Parameters
    ----------
    names : tuple of str
        The columns of the frame, perhaps with ``_row_kind``.
    leaving : ChangeFilter or UpdateFilter, optional
        The filter of a stream with kinds, where rows may leave it.
    """

    plan: StreamPlan
    names: tuple[str, ...]
    kinds: Kinds
    leaving: ChangeFilter | UpdateFilter | None = None

    @classmethod
    def of(
        cls,
        table: Table,
        schema_id: int,
        names: Sequence[str],
        *,
        predicate: Predicate | None = None,
    ) -> StreamRequest:
        """Open a stream.

        Parameters
        ----------
        predicate : Predicate, optional
            Bound: a filter that the source applies by itself, where a plain filter would lose the
            rows that leave it (:mod:`tidelake.table.changelog.change_filter`).

        Raises
        ------
        UnsupportedError
            A column of the frame was renamed, dropped or given another type since then.
        """
        handle = table.handle
        if handle.schema.id != schema_id:
            _check_frame(handle, schema_id)
        kinds = Kinds.of(handle.options, handle.schema, names)
        AlignmentRule.of(handle.options, table=handle.identifier)  # a wrong one is refused now
        plan = StreamPlan.of(handle)
        leaving = plan.change_filter(predicate, names) if kinds is Kinds.SHOWN else None
        return cls(plan, tuple(names), kinds, leaving)


def delete_error(table: str) -> str:
    """Make the error of a stream without kinds at a delete."""
    return (
        f"A row of table '{table}' was deleted, which a stream without row kinds cannot show: read"
        f" it with the option '{declared.READ_CHANGELOG.key}' = 'true' (a column"
        f" '{ROW_KIND_COLUMN}'), or 'false' to leave deletes out."
    )


def keeps_order(handle: TableHandle) -> bool:
    """Whether the order of a bucket's rows matters."""
    return bool(handle.schema.primary_keys) or handle.bucket_mode is BucketMode.FIXED


def stream_table(found: Table | SystemTable, name: str) -> Table:
    """Check that streams can be read from a table, and return it.

    Raises
    ------
    InvalidInputError
        It is a system table.
    """
    if isinstance(found, Table):
        return found
    message = (
        f"'{name}' is a system table, which is read in batches: tl.table('{name}'). A stream of"
        " the table itself shows row kinds with the option 'read.changelog' = 'true'."
    )
    raise InvalidInputError(message, kind="system_table", table=name)


def _check_frame(handle: TableHandle, schema_id: int) -> None:
    """Refuse a frame whose columns the table no longer has."""
    try:
        old = handle.schemas.load(schema_id)
    except NotFoundError:
        changed = ["it has other schemas"]
    else:
        _, changed = difference(old, handle.schema)
    if changed:
        message = (
            f"Table '{handle.identifier}' was altered since this DataFrame was made:"
            f" {', '.join(changed)}. Make the DataFrame again."
        )
        raise UnsupportedError(message, kind="stream_schema_changed", table=handle.identifier)
