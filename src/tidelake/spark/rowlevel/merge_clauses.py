"""The clauses of a MERGE, checked against its table and its source before anything runs.

Columns are found by name, ``*`` becomes its columns, and values get their columns' types by the
rules of store assignment (:mod:`tidelake.spark.expression.store_assignment`). Spark resolves each
clause on the rows that it may use: matched ones on both sides, others on one. An error names its
clause's number and the column, so that the caller can show the position in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.rows import check_deletes_count, check_updatable
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import check_writable
from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError, near_names
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.moment import moment_column
from tidelake.spark.expression.store_assignment import assigned_values
from tidelake.spark.expression.struct_fields import FieldColumn, with_fields
from tidelake.spark.expression.types import spark_schema, to_spark_type
from tidelake.spark.write.schema_merging import with_drafted_schema, with_merged_schema
from tidelake.types import DataField
from tidelake.types.default_value import default_scalar
from tidelake.types.predicate import Predicate, bind

When: TypeAlias = Literal["matched", "not_matched", "not_matched_by_source"]
Action: TypeAlias = Literal["update", "delete", "insert"]


def _nothing() -> None:
    """Do nothing: the merge reads no other table."""


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause as given.

    Parameters
    ----------
    when, action
        As of :class:`tidelake.sql.syntax.ast.MergeClause`.
    values : mapping of str to Column, optional
        By column; None for the source's columns of the same names, and for a delete.
    plain : mapping of str to str
        The `values` that are a plain column of the source, by the target's columns.
    inside : mapping of str to sequence of FieldColumn
        For columns that get new values only in some fields: these fields. For columns that get new
        values only in some fields: these fields.
    """

    when: When
    action: Action
    condition: Column | None = None
    values: Mapping[str, Column] | None = None
    plain: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, Sequence[FieldColumn]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergeInto:
    """A merge as given.

    Parameters
    ----------
    source : callable
        Returns the source's rows; called once per attempt.
    clauses : sequence of MergeClause
        The first clause of a kind that holds counts.
    equal : sequence of (str, str)
        Columns of target and source that `on` equates, as far as known.
    predicate : Predicate, optional
        Not bound; the part of `on` about the target alone.
    looked_at : frozenset of str, optional
        Lower-case names in the expressions; None if unknown.
    fresh : callable
        Called before each attempt: tables in subqueries are read again.
    evolves : bool
        Whether the table gets the source's columns and types if a clause takes all of them; the
        source may then have fewer.
    """

    source: Callable[[], DataFrame]
    on: Column
    clauses: Sequence[MergeClause]
    alias: str
    source_alias: str
    equal: Sequence[tuple[str, str]] = ()
    predicate: Predicate | None = None
    looked_at: frozenset[str] | None = None
    fresh: Callable[[], None] = _nothing
    evolves: bool = False

    @property
    def takes_all(self) -> bool:
        """Whether a clause has ``*``."""
        return any(c.values is None and c.action != "delete" for c in self.clauses)


@dataclass(frozen=True, slots=True)
class ResolvedClause:
    """A clause with known columns and types; `values` are all that it sets."""

    number: int
    when: When
    action: Action
    condition: Column | None
    values: Mapping[str, Column] | None


@dataclass(frozen=True, slots=True)
class ResolvedMerge:
    """A merge that fits its table.

    Parameters
    ----------
    source_rows : callable
        The source's rows with the columns that are used.
    clauses : tuple of ResolvedClause
        In order.
    adds_keys_of_on : bool
        Whether the inserted keys are exactly those that `on` equates.
    """

    source_rows: Callable[[], DataFrame]
    on: Column
    clauses: tuple[ResolvedClause, ...]
    alias: str
    source_alias: str
    equal: tuple[tuple[str, str], ...]
    predicate: Predicate | None
    looked_at: frozenset[str] | None
    fresh: Callable[[], None]
    types: Mapping[str, st.DataType]
    adds_keys_of_on: bool

    def of(self, when: When) -> tuple[ResolvedClause, ...]:
        """The clauses of a kind."""
        return tuple(c for c in self.clauses if c.when == when)

    @property
    def changes(self) -> tuple[ResolvedClause, ...]:
        """The clauses that change rows of the target."""
        return tuple(c for c in self.clauses if c.action != "insert")

    @property
    def updates(self) -> tuple[ResolvedClause, ...]:
        """The clauses that set new values."""
        return tuple(c for c in self.clauses if c.action == "update")

    @property
    def deletes(self) -> tuple[int, ...]:
        """The numbers of the clauses that delete their rows."""
        return tuple(c.number for c in self.clauses if c.action == "delete")

    @property
    def set_columns(self) -> frozenset[str]:
        """The columns that updates set."""
        return frozenset(name for c in self.updates for name in c.values or ())

    @property
    def is_sole_delete(self) -> bool:
        """Whether matched rows can only be deleted."""
        matched = self.of("matched")
        return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None

    def columns_read(self, keys: Sequence[str], *, whole_when_deleted: bool) -> tuple[str, ...]:
        """The target's columns that are used or kept, in order.

        Parameters
        ----------
        whole_when_deleted : bool
            Whether a deleted row is written with all its columns.
        """
        names = tuple(self.types)
        if self.looked_at is None or (
            whole_when_deleted and any(c.action == "delete" for c in self.clauses)
        ):
            return names
        kept = {n for c in self.updates for n in names if n not in (c.values or ())}
        return tuple(n for n in names if n in kept or n in keys or n.casefold() in self.looked_at)


def with_source_columns(spark: SparkSession, handle: TableHandle, merge: MergeInto) -> TableHandle:
    """Return the table with a schema that the source fits, if the merge may change it.

    Raises
    ------
    TidelakeError
        As of :func:`resolved`; the schema is unchanged.
    """
    if not (merge.evolves and merge.takes_all):
        return handle
    rows = merge.source()
    _check_source(rows, merge, handle)
    resolved(spark, with_drafted_schema(handle, rows.schema), merge)
    return with_merged_schema(handle, rows.schema)


def resolved(spark: SparkSession, handle: TableHandle, merge: MergeInto) -> ResolvedMerge:
    """Check a merge against its table and its source.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It does not fit, or the table allows no such change. Errors of a clause have its number as
        ``clause`` and the column as ``column`` in their context.
    """
    check_writable(handle)
    _check_takes(handle, merge)
    fields = handle.schema.fields
    target = spark.createDataFrame([], spark_schema(fields, table=handle.identifier))
    rows = merge.source()
    _check_source(rows, merge, handle)
    source = spark.createDataFrame([], rows.schema)
    types = {f.name: to_spark_type(f.type, column=f.name, table=handle.identifier) for f in fields}
    sides: Mapping[str, DataFrame] = {
        "matched": target.alias(merge.alias).crossJoin(source.alias(merge.source_alias)),
        "not_matched": source.alias(merge.source_alias),
        "not_matched_by_source": target.alias(merge.alias),
    }
    sides["matched"].where(merge.on)  # Spark's analysis refuses unknown names
    names = {c.casefold(): c for c in rows.columns}
    clauses: list[ResolvedClause] = []
    plain: list[Mapping[str, str]] = []
    for number, clause in enumerate(merge.clauses):
        given, said = _named(handle, clause, number, merge, names)
        if clause.condition is not None:
            sides[clause.when].where(clause.condition)
        values = None
        if given is not None:
            values = _typed(handle, given, sides[clause.when], number)
            values |= _inside(handle, clause, number, merge, sides[clause.when])
        if clause.action == "insert":
            assert values is not None, "an insert has values"
            values = _with_defaults(handle, values, types)
            plain.append(said)
        clauses.append(ResolvedClause(number, clause.when, clause.action, clause.condition, values))
    equal = tuple(
        (t, s) for t, s in merge.equal if rows.schema[names[s.casefold()]].dataType == types[t]
    )
    keys = handle.schema.primary_keys
    adds_keys_of_on = bool(keys) and all(
        (key, said.get(key)) in equal for key in keys for said in plain
    )
    wanted_of_source = merge.looked_at
    if wanted_of_source is not None and merge.takes_all:
        wanted_of_source |= {f.name.casefold() for f in fields}

    def source_rows() -> DataFrame:
        found = merge.source()
        if wanted_of_source is None:
            return found
        wanted = [c for c in found.columns if c.casefold() in wanted_of_source]
        return found.select(*(F.col(quoted(c)) for c in wanted))

    return ResolvedMerge(
        source_rows,
        merge.on,
        tuple(clauses),
        merge.alias,
        merge.source_alias,
        equal,
        None if merge.predicate is None else bind(merge.predicate, fields),
        merge.looked_at,
        merge.fresh,
        types,
        adds_keys_of_on,
    )


def _check_takes(handle: TableHandle, merge: MergeInto) -> None:
    """Refuse changes that the table's engine does not show."""
    if not merge.clauses:
        message = (
            f"A merge into table '{handle.identifier}' has no clause: add one, such as"
            " WHEN MATCHED."
        )
        raise InvalidInputError(message, kind="bad_argument", table=handle.identifier)
    for number, clause in enumerate(merge.clauses):
        if clause.condition is None and any(
            later.when == clause.when for later in merge.clauses[number + 1 :]
        ):
            message = (
                f"A clause of a merge into table '{handle.identifier}' would never apply: an"
                " earlier one of the same kind has no condition and takes all rows. Only the last"
                " of a kind may have none."
            )
            raise InvalidInputError(message, kind="merge_clause", table=handle.identifier)
    if any(c.action == "update" for c in merge.clauses):
        check_updatable(handle)
    if handle.schema.primary_keys and any(c.action == "delete" for c in merge.clauses):
        check_deletes_count(handle)


def _check_source(rows: DataFrame, merge: MergeInto, handle: TableHandle) -> None:
    keys = [c.casefold() for c in rows.columns]
    twice = next((c for c in rows.columns if keys.count(c.casefold()) > 1), None)
    if twice is not None:
        message = (
            f"The source of a merge into table '{handle.identifier}' has two columns '{twice}':"
            " give them different names."
        )
        raise InvalidInputError(message, kind="column_twice", column=twice)
    if merge.alias.casefold() == merge.source_alias.casefold():
        message = (
            f"Target and source of a merge are both '{merge.alias}': give one of them an alias."
        )
        raise InvalidInputError(message, kind="merge_alias", table=handle.identifier)


def _named(
    handle: TableHandle,
    clause: MergeClause,
    number: int,
    merge: MergeInto,
    source: Mapping[str, str],
) -> tuple[Mapping[str, Column] | None, Mapping[str, str]]:
    """A clause's values by the table's own names; ``*`` as its columns, without unchanged keys."""
    if clause.action == "delete":
        return None, {}
    fields = {f.name.casefold(): f.name for f in handle.schema.fields}
    values: dict[str, Column] = {}
    plain: dict[str, str] = {}
    if clause.values is None:
        for key, name in fields.items():
            if key not in source and merge.evolves:
                continue
            if key not in source:
                message = (
                    f"The source has no column '{name}', which * sets in table"
                    f" '{handle.identifier}'.{near_names(name, list(source.values()))} Name the"
                    " columns and their values instead."
                )
                raise _fault(handle, message, "merge_star", number, name)
            values[name] = F.col(f"{quoted(merge.source_alias)}.{quoted(source[key])}")
            plain[name] = source[key]
    else:
        for name, value in clause.values.items():
            values[_known(handle, name, fields, number)] = value
        plain = {
            fields[name.casefold()]: source.get(said.casefold(), said)
            for name, said in clause.plain.items()
        }
    if clause.action == "insert":
        return values, plain
    equal = {(t, s.casefold()) for t, s in merge.equal}
    for key in handle.schema.primary_keys:
        if key not in values:
            continue
        if clause.when == "matched" and (key, plain.get(key, "").casefold()) in equal:
            del values[key]  # ON equates them already
            continue
        message = (
            f"Column '{key}' is part of the primary key of table '{handle.identifier}', and an"
            " update cannot change keys: set it only to the source's column that ON equates it"
            " with."
        )
        raise _fault(handle, message, "update_key", number, key)
    return values, plain


def _inside(
    handle: TableHandle, clause: MergeClause, number: int, merge: MergeInto, rows: DataFrame
) -> dict[str, Column]:
    """The whole columns in which a clause sets only some fields."""
    fields = {f.name.casefold(): f for f in handle.schema.fields}
    values: dict[str, Column] = {}
    for name, given in clause.inside.items():
        known = _known(handle, name, {key: f.name for key, f in fields.items()}, number)
        old = F.col(f"{quoted(merge.alias)}.{quoted(known)}")
        try:
            values[known] = with_fields(
                rows, old, fields[name.casefold()], given, table=handle.identifier
            )
        except (InvalidInputError, UnsupportedError) as error:
            context = {**error.context, "clause": number, "column": name}
            raise type(error)(error.message, kind=error.kind, **context) from error
    return values


def _known(handle: TableHandle, name: str, fields: Mapping[str, str], number: int) -> str:
    """A column's own name."""
    known = fields.get(name.casefold())
    if known is None:
        message = (
            f"Table '{handle.identifier}' has no column '{name}'."
            f"{near_names(name, list(fields.values()))}"
        )
        raise _fault(handle, message, "column_not_found", number, name)
    return known


def _typed(
    handle: TableHandle,
    values: Mapping[str, Column],
    rows: DataFrame,
    number: int,
) -> dict[str, Column]:
    """Values in the types of their columns."""
    targets = {name: handle.schema.field(name) for name in values}
    try:
        return assigned_values(rows, values, targets, table=handle.identifier)
    except InvalidInputError as error:
        column = str(error.context.get("column"))
        raise _fault(handle, error.message, error.kind, number, column) from error


def _with_defaults(
    handle: TableHandle, values: Mapping[str, Column], types: Mapping[str, st.DataType]
) -> dict[str, Column]:
    """All columns of an added row; a default replaces a null, as in any write."""
    whole: dict[str, Column] = {}
    for own in handle.schema.fields:
        value = values.get(own.name, F.lit(None).cast(types[own.name]))
        if own.default_value is not None and own.type.nullable:
            value = F.coalesce(value, _default(own, types[own.name], handle.env.zone))
        whole[own.name] = value
    return whole


def _default(own: DataField, wanted: st.DataType, zone: str | None) -> Column:
    assert own.default_value is not None, "asked only of columns with one"
    value = default_scalar(own.default_value, own.type, zone=zone).as_py()
    literal = moment_column(value) if isinstance(value, date) else F.lit(value)
    return literal.cast(wanted)


def _fault(handle: TableHandle, message: str, kind: str, number: int, column: str) -> TidelakeError:
    return InvalidInputError(
        message, kind=kind, table=handle.identifier, clause=number, column=column
    )
