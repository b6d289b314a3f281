"""What becomes of a target when a table of its source has a new version.

1. Columns of the source that the target lacks are added as the last, nullable.
2. A column whose type differs follows :mod:`tidelake.cdc.evolution.type_change`; comments follow.
3. A column that is gone stays, and is null from then on. A rename is a new column and one that is
   gone; with the policy ``full``, and numbers of columns that tell it, the column is renamed.
4. A column becomes nullable where rows may lack it. None becomes NOT NULL.
5. Some statements change rows without an event for each: a column with a default, a type that does
   not keep values, a new column of an old one's name, a rename. Such a table must be read again.
6. What cannot be followed suspends the table: another key, a type that does not convert.

Source of 1 to 3: Paimon's ``UpdatedDataFieldsProcessFunctionBase``, which dies in place of 4 and 6
and does not know 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidelake.cdc.evolution.key_columns import key_columns, whole_rows_statement
from tidelake.cdc.evolution.type_change import TypeChange, is_same, keeps_values, type_change
from tidelake.cdc.evolution.type_change import type_changes as changes_of_type
from tidelake.cdc.source.source_table import OldRows, SourceColumn, SourceTable
from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataField, DataType, TableSchema, TypeRoot
from tidelake.types.schema_change import (
    AddColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateComment,
)


class Policy(StrEnum):
    """How far a target follows."""

    ADDITIVE = "additive"
    """Adds and widens; reads again what changed without events."""
    PAIMON = "paimon"
    """As Paimon: adds and widens, and only warns of rows that changed without events."""
    FULL = "full"
    """As additive; also renames columns."""
    STRICT = "strict"
    """Follows no change."""


class EvolutionAction(StrEnum):
    """What the job does with the table after the changes."""

    PROCEED = "proceed"
    REREAD = "reread"
    """Copies it again: rows changed without events."""
    SUSPEND = "suspend"
    """Applies nothing more to it until a person decides."""


@dataclass(frozen=True, slots=True)
class EvolutionPlan:
    """What is done with a target.

    Parameters
    ----------
    changes : tuple of SchemaChange
        Of the target's schema, in order; none where it is suspended.
    warnings : tuple of str
        Sentences.
    reasons : tuple of str
        Why it is read again or suspended, a clause each.
    """

    action: EvolutionAction = EvolutionAction.PROCEED
    changes: tuple[SchemaChange, ...] = ()
    warnings: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """All reasons as one clause."""
        return "; ".join(self.reasons)


@dataclass(frozen=True, slots=True)
class EvolutionRules:
    """What a plan obeys, the same for all tables of a job.

    Parameters
    ----------
    reserved : frozenset of str
        Names of computed, metadata and order columns, which the source may not take.
    needed : frozenset of str
        Columns of the source that computed columns read.
    case_sensitive : bool
        If not, columns of the target are in lower case.
    shares_target : bool
        Whether the target has several sources: a column that it has already may be another's.
    computed_from : mapping
        For each computed column the columns of the source on which it depends.
    """

    policy: Policy = Policy.ADDITIVE
    mapping: TypeMapping = field(default_factory=TypeMapping)
    reserved: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    case_sensitive: bool = True
    shares_target: bool = False
    computed_from: Mapping[str, frozenset[str]] = field(default_factory=dict)


def plan_evolution(
    target: TableSchema,
    new: SourceTable,
    previous: SourceTable | None,
    rules: EvolutionRules | None = None,
) -> EvolutionPlan:
    """Plan what becomes of a target.

    Parameters
    ----------
    target : TableSchema
        The target's newest schema.
    new : SourceTable
        The version whose rows come next.
    previous : SourceTable, optional
        The version of this table whose rows were the last; None if it is not known.
    """
    draft = _Draft(target, new, previous, rules or EvolutionRules())
    draft.check_source()
    if not draft.faults:
        draft.follow_identity()
        draft.follow_renames()
        for column in new.columns:
            draft.follow(column)
        draft.follow_drops()
        draft.follow_comment()
    return draft.plan()


@dataclass
class _Draft:
    """A plan in progress."""

    target: TableSchema
    new: SourceTable
    previous: SourceTable | None
    rules: EvolutionRules
    changes: list[SchemaChange] = field(default_factory=list)
    comments: list[SchemaChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rereads: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = {f.name: f for f in self.target.fields}
        self.keys = {*self.target.primary_keys, *self.target.partition_keys}
        self.names = [self._cased(c.name) for c in self.new.columns]
        old = self.previous.columns if self.previous is not None else ()
        self.before = {self._cased(c.name): c for c in old}
        self.before_by_number = {c.number: c for c in old if c.number is not None}

    def _cased(self, name: str) -> str:
        return name if self.rules.case_sensitive else name.lower()

    # ---- the table as a whole

    def check_source(self) -> None:
        """Suspend where the version cannot be followed at all."""
        for column in self.new.columns:
            if column.type is None:
                self.faults.append(
                    f"column '{column.name}' has the type {column.native_type}, which has no"
                    " counterpart: take it as text with --type_mapping unknown-to-string"
                )
        for name in self.names:
            if self.names.count(name) > 1:
                self.faults.append(f"it has several columns '{name}' where case does not count")
            if name in self.rules.reserved:
                self.faults.append(f"it has a column '{name}', as which the job computes another")
        self.faults += [
            f"column '{name}' is gone, which a computed column reads: change its definition"
            for name in sorted(self.rules.needed - set(self.names))
        ]
        self._check_keys()
        self._check_sent()
        self.faults = list(dict.fromkeys(self.faults))

    def _check_keys(self) -> None:
        if self.previous is None:
            return
        old, new = self._keys(self.previous), self._keys(self.new)
        renamed = {name: other for other, name in self._renames()}
        carried = [renamed.get(name, name) for name in new]
        if set(old) == set(self.target.primary_keys) and set(carried) != set(old):
            self.faults.append(
                f"its primary key was ({', '.join(old)}) and is ({', '.join(new)}), and a table's"
                " key is fixed: drop the target and copy it again"
            )

    def _check_sent(self) -> None:
        """Suspend where a change of the target's key would not show."""
        if self.new.old_rows in (OldRows.ALL, OldRows.SOME):
            return
        read = key_columns(self.target.primary_keys, self.rules.computed_from, self.names)
        unsent = sorted(read - set(self._keys(self.new)))
        if unsent:
            names = ", ".join(f"'{name}'" for name in unsent)
            statement = whole_rows_statement(str(self.new.name))
            self.faults.append(
                f"it no longer sends old values of {names}, of which the target's key is made:"
                f" {statement}, and copy it again"
            )

    def _keys(self, table: SourceTable) -> list[str]:
        return [self._cased(name) for name in table.keys]

    def follow_identity(self) -> None:
        """Read a table again that was dropped and made again under its name."""
        if self.previous is None:
            return
        before, after = self.previous.identity, self.new.identity
        if before and after and before != after:
            self.rereads.append("it was dropped and made again")

    def follow_comment(self) -> None:
        """Take the table's comment."""
        comment = self.new.comment
        if comment is not None and comment != self.target.comment:
            self.comments.append(UpdateComment(comment))

    # ---- columns

    def _of_number(self, column: SourceColumn) -> SourceColumn | None:
        """The column before that had the same number."""
        return None if column.number is None else self.before_by_number.get(column.number)

    def _renames(self) -> list[tuple[str, str]]:
        """Old and new names of columns that kept their number."""
        pairs = []
        for column in self.new.columns:
            old = self._of_number(column)
            if old is not None and self._cased(old.name) != self._cased(column.name):
                pairs.append((self._cased(old.name), self._cased(column.name)))
        return pairs

    def follow_renames(self) -> None:
        """Rename columns, or say that a new column has an old one's values."""
        for old, new in self._renames():
            may = old in self.own and new not in self.own and old not in self.target.partition_keys
            if self.rules.policy is Policy.FULL and may:
                self.changes.append(RenameColumn(old, new))
                self.own = {(new if name == old else name): f for name, f in self.own.items()}
                self.keys = {new if name == old else name for name in self.keys}
            else:
                self.rereads.append(f"column '{old}' was renamed to '{new}'")

    def follow(self, column: SourceColumn) -> None:
        """Follow one column."""
        name = self._cased(column.name)
        assert column.type is not None, "refused before"
        own = self.own.get(name)
        if own is None:
            self._add(name, column, column.type)
            return
        old = self._of_number(column) or self.before.get(name)
        if is_same(own.type, column.type):
            self._describe(name, own, column)
            self._loosen(name, own, column.type)
        elif own.type.root is not TypeRoot.DECIMAL or (
            Switch.DECIMAL_NO_CHANGE not in self.rules.mapping
        ):
            self._retype(name, own, column.type, old)
            self._describe(name, own, column)
        if old is not None:
            self._compare(name, old, column.number, column.type)
        elif self.previous is not None:
            self._compare_added(name, column, column.type)

    def _compare(
        self, name: str, old: SourceColumn, number: int | None, data_type: DataType
    ) -> None:
        """Read again where the version before had other values in old rows."""
        if None not in (old.number, number) and old.number != number:
            self.rereads.append(f"column '{name}' was dropped and added again")
        elif old.type is not None and not keeps_values(old.type, data_type):
            self.rereads.append(_altered(name, old.type, data_type))

    def _compare_added(self, name: str, column: SourceColumn, data_type: DataType) -> None:
        """Read again where a column is new in the source, and the target has one of its name."""
        if column.has_default or not data_type.nullable:
            self.rereads.append(_defaulted(name))
        elif not self.rules.shares_target:
            self.rereads.append(f"column '{name}' is new, and the target has an older one's values")

    def _add(self, name: str, column: SourceColumn, data_type: DataType) -> None:
        self.changes.append(
            AddColumn(name, data_type.as_nullable(), column.comment, if_exists="ignore")
        )
        if column.has_default or not data_type.nullable:
            self.rereads.append(_defaulted(name))
        elif column.number is None and self._gone_without_number():
            gone = ", ".join(f"'{n}'" for n in self._gone_without_number())
            self.rereads.append(f"column '{name}' came as {gone} went: it may be renamed")

    def _gone_without_number(self) -> list[str]:
        return [n for n, c in self.before.items() if n not in self.names and c.number is None]

    def _describe(self, name: str, own: DataField, column: SourceColumn) -> None:
        if column.comment is not None and column.comment != own.description:
            self.comments.append(UpdateColumnComment(name, column.comment))

    def _loosen(self, name: str, own: DataField, data_type: DataType) -> None:
        if data_type.nullable and not own.type.nullable and name not in self.keys:
            self.changes.append(UpdateColumnNullability(name, nullable=True))

    def _retype(
        self, name: str, own: DataField, data_type: DataType, before: SourceColumn | None
    ) -> None:
        old, new = own.type.as_nullable(), data_type.as_nullable()
        match type_change(old, new, self.rules.mapping):
            case TypeChange.CONVERT if name in self.keys:
                self.faults.append(
                    f"key column '{name}' is {old} and the source's {new}, and the type of a key is"
                    " fixed: drop the target and copy it again"
                )
            case TypeChange.CONVERT:
                self.changes += changes_of_type((name,), old, new)
                self._loosen(name, own, data_type)
                if self.previous is None and not keeps_values(old, new):
                    self.rereads.append(_altered(name, old, new))
            case TypeChange.IGNORE:
                self._loosen(name, own, data_type)
                if before is None or before.type is None or not is_same(before.type, data_type):
                    self.warnings.append(
                        f"Column '{name}' stays {old}: the source's {new} is smaller."
                    )
            case TypeChange.REFUSE:
                to_text = Switch.ALLOW_NON_STRING_TO_STRING not in self.rules.mapping and (
                    type_change(old, new, TypeMapping.of([Switch.ALLOW_NON_STRING_TO_STRING]))
                    is TypeChange.CONVERT
                )
                advice = (
                    "allow it with --type_mapping allow-non-string-to-string"
                    if to_text
                    else "drop the target and copy it again"
                )
                self.faults.append(
                    f"column '{name}' is {old} and the source's {new}, which does not convert:"
                    f" {advice}"
                )

    def follow_drops(self) -> None:
        """Let columns be null that the source has no longer."""
        for name in self.before:
            if name in self.own and name not in self.names:
                self.warnings.append(f"Column '{name}' is gone and stays, null from now on.")
        given = {*self.names, *self.rules.reserved}
        for name, own in self.own.items():
            if name in given:
                continue
            if name in self.keys:
                renamed = dict(self._renames()).get(name)
                self.faults.append(
                    f"key column '{name}' is gone: drop the target and copy it again"
                    if renamed is None
                    else f"key column '{name}' was renamed to '{renamed}': follow it with --evolve"
                    " full, or drop the target and copy it again"
                )
            elif not own.type.nullable:
                self.changes.append(UpdateColumnNullability(name, nullable=True))

    # ---- the whole

    def plan(self) -> EvolutionPlan:
        """Give the plan by the policy."""
        policy = self.rules.policy
        faults = list(self.faults)
        if policy is Policy.STRICT and not faults:
            asked = [change_words(change) for change in self.changes]
            found = [*asked, *self.rereads, *(w.removesuffix(".") for w in self.warnings)]
            if found:
                faults = [f"the policy is strict, and {found[0]}", *found[1:]]
        if faults:
            return EvolutionPlan(EvolutionAction.SUSPEND, reasons=tuple(faults))
        comments = [] if policy is Policy.STRICT else self.comments
        plan = EvolutionPlan(changes=(*self.changes, *comments), warnings=tuple(self.warnings))
        if not self.rereads:
            return plan
        if policy is Policy.PAIMON:
            return replace(plan, warnings=(*plan.warnings, *_unequal(self.rereads)))
        return replace(plan, action=EvolutionAction.REREAD, reasons=tuple(self.rereads))


def _defaulted(name: str) -> str:
    return f"column '{name}' was added with a default, which old rows have"


def _altered(name: str, old: DataType, new: DataType) -> str:
    return (
        f"column '{name}' was {old.as_nullable()} and is {new.as_nullable()}, which does not keep"
        " each value"
    )


def _unequal(reasons: Iterable[str]) -> list[str]:
    return [
        f"Old rows differ from the source: {reason}. Copy the table again to have them equal."
        for reason in reasons
    ]


def change_words(change: SchemaChange) -> str:
    """Say a change in a clause, as a fault: ``"column 'a' is new"``."""
    match change:
        case AddColumn():
            return f"column '{_path(change.column)}' is new"
        case RenameColumn():
            return f"column '{_path(change.column)}' was renamed to '{change.new_name}'"
        case UpdateColumnNullability():
            return f"column '{_path(change.column)}' may be null"
        case _:
            column = getattr(change, "column", None)
            return f"column '{_path(column)}' has another type" if column else "it changed"


def _path(column: str | tuple[str, ...]) -> str:
    return column if isinstance(column, str) else ".".join(column)
