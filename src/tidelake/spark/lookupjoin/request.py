"""What a lookup join is asked to do, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql import types as st

from tidelake.engine.tables import Table, known_columns
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError, near_names
from tidelake.spark.expression.expression import quoted
from tidelake.spark.lookupjoin.key_type import key_expression
from tidelake.types import DataField

How: TypeAlias = Literal["left", "inner"]
Via: TypeAlias = Literal["auto", "local", "service"]
HOW = ("left", "inner")
VIA = ("auto", "local", "service")
ATTEMPTS_MAX = 100
DELAY_MS_MAX = 60_000
ADVICE = (
    "Join other columns by frame.join(tl.table(...)), which reads the whole table; or in SQL by"
    " FOR SYSTEM_TIME AS OF PROCTIME(), which broadcasts it."
)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a key that is missing is asked for again, at the newest snapshot.

    Parameters
    ----------
    attempts_max : int
        Tries after the first one, 1 to :data:`ATTEMPTS_MAX`.
    delay_ms : int
        Wait before each, at most :data:`DELAY_MS_MAX`.
    """

    attempts_max: int
    delay_ms: int

    def __post_init__(self) -> None:
        _check_bound("retry_attempts", self.attempts_max, 1, ATTEMPTS_MAX)
        _check_bound("retry_delay_ms", self.delay_ms, 0, DELAY_MS_MAX)


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """A lookup join of a frame with a table.

    Parameters
    ----------
    keys : tuple of str
        Per column of the primary key, in its order, the key in SQL over the frame's columns.
    is_outer : bool
        Whether rows without a match stay.
    """

    keys: tuple[str, ...]
    columns: tuple[DataField, ...]
    names: tuple[str, ...]
    is_outer: bool

    @classmethod
    def of(
        cls,
        schema: st.StructType,
        table: Table,
        on: str | Sequence[str] | Mapping[str, str],
        *,
        how: str,
        columns: str | Sequence[str] | Mapping[str, str] | None,
        case_sensitive: bool = False,
    ) -> LookupRequest:
        """Check the arguments of :meth:`tidelake.spark.Lake.lookup_join`.

        Parameters
        ----------
        on, how, columns
            As of that method.
        case_sensitive : bool
            Whether names that differ by case alone are different in the session.

        Raises
        ------
        InvalidInputError
            The condition is not the whole primary key, a type differs, or a name is there twice.
        NotFoundError
            A column is missing; near names are offered.
        UnsupportedError
            The table has no primary key.
        """
        check_choice("how", how, HOW, table.identifier)
        pairs = _pairs(on, table)
        keys = tuple(_key(schema, pairs[field.name], field, table) for field in key_fields(table))
        fields, names = _columns(columns, pairs, table)
        taken = {_folded(name, case_sensitive) for name in schema.names}
        for name in names:
            if _folded(name, case_sensitive) in taken:
                message = (
                    f"Column '{name}' is in the frame already: leave it out of columns=, or give"
                    f" that of table '{table.identifier}' another name by columns={{'{name}':"
                    f" '{name}_2'}}."
                )
                raise InvalidInputError(message, kind="lookup_join_name", column=name)
            taken.add(_folded(name, case_sensitive))
        return cls(keys, fields, names, how == "left")


def check_choice(argument: str, given: object, choices: Sequence[str], table: str) -> None:
    """Refuse a value that is not one of a few words."""
    if given not in choices:
        shown = " or ".join(f"'{c}'" for c in choices)
        message = f"{argument}={given!r} must be {shown}.{near_names(str(given), choices)}"
        raise InvalidInputError(message, kind="bad_argument", table=table)


def key_fields(table: Table) -> tuple[DataField, ...]:
    """Columns of the primary key, in its order.

    Raises
    ------
    UnsupportedError
        The table has none.
    """
    if not table.primary_keys:
        message = (
            f"Table '{table.identifier}' has no primary key, so no row can be looked up in it:"
            " use frame.join(tl.table(...))."
        )
        raise UnsupportedError(message, kind="lookup_join", table=table.identifier)
    by_name = {f.name: f for f in table.table_schema.fields}
    return tuple(by_name[name] for name in table.primary_keys)


def _pairs(on: str | Sequence[str] | Mapping[str, str], table: Table) -> dict[str, str]:
    """Columns of the frame by columns of the key."""
    given = [on] if isinstance(on, str) else on
    turned = [(k, f) for f, k in given.items()] if isinstance(given, Mapping) else None
    items = turned if turned is not None else [(str(name), str(name)) for name in given]
    known, wanted = table.table_schema.field_names, [f.name for f in key_fields(table)]
    for key, _ in items:
        if key not in known:
            near = near_names(key, known)
            message = f"Table '{table.identifier}' has no column '{key}'.{near}"
            raise NotFoundError(message, kind="column_not_found", column=key)
    pairs = dict(items)
    if len(items) != len(pairs) or set(pairs) != set(wanted):
        message = (
            f"on= must name the primary key of table '{table.identifier}', ({', '.join(wanted)}),"
            f" once and nothing else; it names ({', '.join(k for k, _ in items)}). {ADVICE}"
        )
        raise InvalidInputError(message, kind="lookup_join_on", table=table.identifier)
    return pairs


def _key(schema: st.StructType, column: str, field: DataField, table: Table) -> str:
    """A column of the frame as a column of the key."""
    found = [f for f in schema.fields if f.name == column]
    found = found or [f for f in schema.fields if f.name.casefold() == column.casefold()]
    if len(found) != 1:
        many = "several columns" if found else "no column"
        near = "" if found else near_names(column, schema.names)
        message = f"The frame has {many} '{column}', which on= names.{near}"
        raise NotFoundError(message, kind="column_not_found", column=column)
    key = key_expression(quoted(found[0].name), found[0].dataType, field)
    if key is None:
        message = (
            f"Column '{column}' of type {found[0].dataType.simpleString()} cannot be looked up in"
            f" column '{field.name}' of type {field.type} of table '{table.identifier}': cast it"
            f" to that type. {ADVICE}"
        )
        raise InvalidInputError(message, kind="lookup_join_type", column=column)
    return key


def _columns(
    columns: str | Sequence[str] | Mapping[str, str] | None,
    pairs: Mapping[str, str],
    table: Table,
) -> tuple[tuple[DataField, ...], tuple[str, ...]]:
    """The table's columns that rows get, and their names."""
    fields = {f.name: f for f in table.table_schema.fields}
    wanted = list(columns) if isinstance(columns, Mapping) else columns
    rest = [name for name in fields if name not in pairs]
    if columns is None:
        wanted = rest
    found = known_columns(wanted, list(fields), table=table.identifier)
    if not found and columns is not None:
        message = (
            f"columns=[] selects nothing of table '{table.identifier}': name at least one column."
        )
        raise InvalidInputError(message, kind="no_columns", table=table.identifier)
    # of a table that is nothing but its key, the key shows which rows have a match
    found = found or tuple(pairs)
    names = [columns[n] if isinstance(columns, Mapping) else n for n in found]
    return tuple(fields[n] for n in found), tuple(str(n) for n in names)


def _folded(name: str, case_sensitive: bool) -> str:  # noqa: FBT001
    return name if case_sensitive else name.casefold()


def _check_bound(name: str, given: object, lowest: int, highest: int) -> None:
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if not is_number or not lowest <= given <= highest:  # type: ignore[operator]
        message = f"{name}={given!r} must be a number from {lowest} to {highest}."
        raise InvalidInputError(message, kind="bad_argument")
