"""The merge rules of each column by a table's options (partial-update, aggregation).

1. ``fields.<g1,g2>.sequence-group = a,b``: the columns a and b, and g1 and g2 themselves, change
   together, by rows whose (g1, g2) is not below the largest so far.
2. ``fields.<column>.aggregate-function``, or ``fields.default-aggregate-function``: the function of
   a column. Under partial-update it needs a sequence group, except for ``last_non_null_value``.
3. Without either: the last value that is not null. In a sequence group: the newest value, even
   null. For a column of ``sequence.field`` under aggregation: the newest value.

Source: Paimon's ``AggregateMergeFunction``, ``PartialUpdateMergeFunction`` and
``SchemaValidation`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.merge.functions import NEWEST, ColumnFunction, check_function
from tidelake.options import Options
from tidelake.options.declared import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    IGNORE_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
)
from tidelake.types import DataField, DataType, TableSchema

PREFIX = "fields."
GROUP_SUFFIX = ".sequence-group"
LAST_VALUE = "last_value"
LAST_NON_NULL = "last_non_null_value"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that are updated together. Picklable.

    Parameters
    ----------
    columns : tuple of str
        The sequence: rows compare by these, null smallest.
    removes : bool
        Whether a -D removes the whole row if its sequence is not below the largest so far.
    """

    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    members: tuple[str, ...]
    removes: bool = False

    @property
    def columns_and_members(self) -> frozenset[str]:
        """All columns of the group."""
        return frozenset((*self.columns, *self.members))


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """How the columns of a table are merged.

    Parameters
    ----------
    functions : tuple of ColumnFunction
        One per column that is part neither of the primary key nor of the partition.
    """

    functions: tuple[ColumnFunction, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()


def column_rules(schema: TableSchema, options: Options, *, partial: bool) -> ColumnRules:
    """Read and check the rules.

    Parameters
    ----------
    partial : bool
        Whether the engine is partial-update; otherwise it is aggregation.

    Raises
    ------
    InvalidInputError
        The options do not fit the columns or each other; the message says what to do.
    UnsupportedError
        A function that this version does not cover.
    """
    return _Reader(schema, options, partial=partial).rules()


class _Reader:
    def __init__(self, schema: TableSchema, options: Options, *, partial: bool) -> None:
        self._schema = schema
        self._options = options
        self._fields = {f.name: f for f in schema.fields}
        self._is_partial = partial

    def rules(self) -> ColumnRules:
        groups = self._groups() if self._is_partial else ()
        self._check_removal(groups)
        # all rows of a merge are in one partition, whether or not its columns are in the key
        constant = (*self._schema.primary_keys, *self._schema.partition_keys)
        others = [f for f in self._schema.fields if f.name not in constant]
        return ColumnRules(tuple(self._function(f, groups) for f in others), groups)

    def _function(self, field: DataField, groups: tuple[SequenceGroup, ...]) -> ColumnFunction:
        key = f"{PREFIX}{field.name}.aggregate-function"
        own = self._options.raw.get(key)
        default = self._options.get(FIELDS_DEFAULT_AGGREGATE_FUNCTION)
        if any(field.name in group.columns for group in groups):
            if own is not None:
                raise self._invalid(
                    f"column '{field.name}' is the sequence of a group and has the option '{key}'",
                    "unset it",
                )
            return ColumnFunction(field.name, NEWEST, field.type)
        if not self._is_partial and field.name in listed(self._options.get(SEQUENCE_FIELD)):
            if own is not None:
                raise self._invalid(
                    f"column '{field.name}' is a 'sequence.field' and has the option '{key}'",
                    "unset it",
                )
            ignores = self._ignores_retract(field)
            return ColumnFunction(field.name, LAST_VALUE, field.type, ignore_retract=ignores)
        grouped = any(field.name in group.members for group in groups)
        name = own or default
        if name is None and self._is_partial:  # settings need a function
            return ColumnFunction(field.name, NEWEST if grouped else LAST_NON_NULL, field.type)
        if name is None:
            ignores = self._ignores_retract(field)
            return ColumnFunction(field.name, LAST_NON_NULL, field.type, ignore_retract=ignores)
        if self._is_partial and not grouped and name != LAST_NON_NULL:
            raise self._invalid(
                f"column '{field.name}' is aggregated by '{name}' but is not in a sequence group",
                "add it to one with 'fields.<sequence>.sequence-group', or unset"
                f" '{key if own else FIELDS_DEFAULT_AGGREGATE_FUNCTION.key}'",
            )
        return self._checked(field, name)

    def _checked(self, field: DataField, name: str) -> ColumnFunction:
        def setting(what: str) -> str | None:
            return self._options.raw.get(f"{PREFIX}{field.name}.{what}")

        nested_key = listed(setting("nested-key"))
        fault = check_function(name, field.type, nested_key=nested_key)
        if fault is not None:
            kind = UnsupportedError if "not covered" in fault else InvalidInputError
            other = "nested-key" if fault.startswith("its rows") else "aggregate-function"
            message = (
                f"Table {self._options.table}: column '{field.name}' cannot be aggregated: {fault}."
                f" Set another 'fields.{field.name}.{other}'."
            )
            raise kind(message, kind="aggregate_function", column=field.name)
        return ColumnFunction(
            field.name,
            name,
            field.type,
            ignore_retract=self._ignores_retract(field),
            delimiter=self._options.raw.get(f"{PREFIX}{field.name}.list-agg-delimiter", ","),
            distinct=self._flag(field, "distinct"),
            nested_key=nested_key,
            count_limit=self._count(field, "count-limit"),
            table=self._options.table,
        )

    def _ignores_retract(self, field: DataField) -> bool:
        ignores = self._flag(field, "ignore-retract")
        removal = AGGREGATION_REMOVE_RECORD_ON_DELETE
        if ignores and self._options.get(removal):
            raise self._invalid(
                f"'fields.{field.name}.ignore-retract' and '{removal.key}' contradict each other",
                "unset one",
            )
        return ignores

    def _flag(self, field: DataField, what: str) -> bool:
        key = f"{PREFIX}{field.name}.{what}"
        given = self._options.raw.get(key, "false")
        if given.lower() not in ("true", "false"):
            raise self._invalid(f"option '{key}' is '{shortened(given)}'", "use 'true' or 'false'")
        return given.lower() == "true"

    def _count(self, field: DataField, what: str) -> int | None:
        key = f"{PREFIX}{field.name}.{what}"
        given = self._options.raw.get(key)
        if given is None:
            return None
        if not given.isdecimal():
            raise self._invalid(f"option '{key}' is '{shortened(given)}'", "give a number of rows")
        return int(given)

    def _groups(self) -> tuple[SequenceGroup, ...]:
        removing = listed(self._options.get(PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP))
        groups: list[SequenceGroup] = []
        of_column: dict[str, str] = {}
        for key, text in sorted(self._options.raw.items()):
            if not (key.startswith(PREFIX) and key.endswith(GROUP_SUFFIX)):
                continue
            columns = listed(key.removeprefix(PREFIX).removesuffix(GROUP_SUFFIX))
            members = tuple(name for name in listed(text) if name not in columns)
            for name in (*columns, *members):
                self._check_column(name, key)
                if name in of_column:
                    raise self._invalid(
                        f"column '{name}' is in the groups '{of_column[name]}' and '{key}'",
                        "name it in one",
                    )
                of_column[name] = key
            types = tuple(self._fields[name].type for name in columns)
            groups.append(
                SequenceGroup(
                    columns, types, members, removes=not set(columns).isdisjoint(removing)
                )
            )
        for name in removing:
            if not any(name in group.columns for group in groups):
                option = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key
                raise self._invalid(
                    f"'{option}' names '{shortened(name)}', which is not the sequence of a group",
                    "name columns before '.sequence-group'",
                )
        return tuple(groups)

    def _check_column(self, name: str, key: str) -> None:
        if name not in self._fields:
            raise self._invalid(
                f"option '{key}' names the column '{shortened(name)}', which does not exist"
                f"{near_names(name, self._fields).rstrip('.')}",
                f"use one of {', '.join(self._fields)}",
            )
        if name in self._schema.primary_keys:
            raise self._invalid(
                f"option '{key}' names '{name}', a column of the primary key", "leave it out"
            )

    def _check_removal(self, groups: tuple[SequenceGroup, ...]) -> None:
        if not self._is_partial:
            return
        ignores = self._options.get(IGNORE_DELETE)
        removes = self._options.get(PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE)
        clashes = {
            (IGNORE_DELETE.key, PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key): ignores and removes,
            (IGNORE_DELETE.key, PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key): ignores
            and any(group.removes for group in groups),
            ("sequence-group", PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key): bool(groups)
            and removes,
        }
        for (one, other), is_given in clashes.items():
            if is_given:
                raise self._invalid(f"'{one}' and '{other}' contradict each other", "unset one")

    def _invalid(self, what: str, advice: str) -> InvalidInputError:
        message = f"Table {self._options.table}: {what}: {advice}."
        return InvalidInputError(message, kind="merge_options", table=self._options.table)


def listed(text: str | None) -> tuple[str, ...]:
    """Split a text of names at commas.

    Examples
    --------
    >>> listed("a, b"), listed(None)
    (('a', 'b'), ())
    """
    parts: Iterable[str] = (part.strip() for part in (text or "").split(","))
    return tuple(part for part in parts if part)
