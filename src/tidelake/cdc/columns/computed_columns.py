"""The computed columns of a target: sorted by what they refer to, evaluated for a batch.

A definition may name columns of the source and other computed columns. Those that name no computed
column come first, in their order; each other comes after the one it names. Source: Paimon's
``ComputedColumnUtils`` and ``DfsSort``; where several columns name the same one, Paimon's order
among them is that of a hash set, ours that of their definitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.cdc.columns.definition import Definition, expression_of, parse_definition
from tidelake.cdc.columns.expression import DefinitionError, Expression, Moment
from tidelake.errors import InvalidInputError
from tidelake.types import DataField, DataType
from tidelake.types.arrow import to_arrow_type


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column and its expression."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Computed:
    """The values of all computed columns for a batch.

    Parameters
    ----------
    columns : mapping of str to pyarrow.Array
        By name, in the order of :attr:`ComputedColumns.fields`.
    faults : mapping of int to str
        For rows of which a value cannot be computed a clause that names column and fault: rows for
        the quarantine. Their values are null.
    """

    columns: Mapping[str, pa.Array]
    faults: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """All computed columns of a target, in an order in which each can be computed.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> made = ComputedColumns.of(
    ...     ["up=upper(low)", "low=lower(Name)"], [DataField(0, "Name", parse_type("STRING"))]
    ... )
    >>> [column.name for column in made.columns]
    ['low', 'up']
    """

    columns: tuple[ComputedColumn, ...] = ()

    @classmethod
    def of(
        cls,
        definitions: Iterable[str],
        fields: Sequence[DataField],
        *,
        case_sensitive: bool = True,
        zone: str = "UTC",
    ) -> ComputedColumns:
        """Read definitions.

        Parameters
        ----------
        fields : sequence of DataField
            The columns of the source. If names are not case-sensitive, they and the results are in
            lower case.
        zone : str
            Where the literals of ``cast`` to TIMESTAMP_LTZ are local.

        Raises
        ------
        InvalidInputError
            A definition is wrong, refers to itself, or names a column that is there already.
        """
        texts = tuple(definitions)
        parsed: dict[str, tuple[Definition, str]] = {}
        types: dict[str, DataType] = {
            f.name if case_sensitive else f.name.lower(): f.type for f in fields
        }
        for text in texts:
            try:
                definition = parse_definition(text)
            except DefinitionError as error:
                raise _wrong(text, texts, str(error)) from error
            name = definition.column if case_sensitive else definition.column.lower()
            if name in parsed or name in types:
                where = "a computed column" if name in parsed else "a column of the source"
                reason = f"'{name}' is {where} already: take another name"
                raise _wrong(text, texts, reason)
            parsed[name] = (definition, text)
        references = {
            name: _reference(definition, case_sensitive=case_sensitive)
            for name, (definition, _) in parsed.items()
        }
        made = []
        for name in sorted_by_reference(references):
            definition, text = parsed[name]
            try:
                expression = expression_of(
                    definition, types, case_sensitive=case_sensitive, zone=zone
                )
            except DefinitionError as error:
                raise _wrong(text, texts, str(error)) from error
            types[name] = expression.type
            made.append(ComputedColumn(name, expression))
        return cls(tuple(made))

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns, numbered from 0."""
        return tuple(DataField(i, c.name, c.expression.type) for i, c in enumerate(self.columns))

    @property
    def sources(self) -> dict[str, frozenset[str]]:
        """For each computed column the columns of the source on which its values depend."""
        found: dict[str, frozenset[str]] = {}
        for column in self.columns:
            name = column.expression.reference
            own = frozenset() if name is None else frozenset({name})
            found[column.name] = own if name is None else found.get(name, own)
        return found

    @property
    def references(self) -> frozenset[str]:
        """The columns of the source that are read."""
        own = {column.name for column in self.columns}
        named = {column.expression.reference for column in self.columns}
        return frozenset(name for name in named if name is not None and name not in own)

    def evaluate(
        self,
        rows: pa.RecordBatch,
        moment: Moment,
        *,
        of_key: Collection[str] = (),
        by_key: Collection[int] = (),
    ) -> Computed:
        """Compute all columns for a batch.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
            With the columns of :attr:`references`, named as in `fields` of :meth:`of`.
        of_key : collection of str
            Columns of the target's key.
        by_key : collection of int
            Rows that count by their key, those of deletes: other columns have no fault there.
        """
        done: dict[str, pa.Array] = {}
        faults: dict[int, str] = {}
        for column in self.columns:
            reference = column.expression.reference
            if reference is None:
                values = pa.nulls(rows.num_rows)
            else:
                values = done[reference] if reference in done else rows.column(reference)
            found = column.expression.evaluate(values, moment)
            assert found.values.type == to_arrow_type(column.expression.type), column.name
            done[column.name] = found.values
            for row, reason in found.faults.items():
                if row in by_key and column.name not in of_key:
                    continue
                faults.setdefault(row, f"computed column '{column.name}': {reason}")
        return Computed(done, faults)


def _reference(definition: Definition, *, case_sensitive: bool) -> str | None:
    name = definition.reference
    return name if name is None or case_sensitive else name.lower()


def _wrong(text: str, texts: Sequence[str], reason: str) -> InvalidInputError:
    number = f"{texts.index(text) + 1} of {len(texts)}, " if len(texts) > 1 else ""
    message = f'Computed column {number}"{text}": {reason.removesuffix(".")}.'
    return InvalidInputError(message, kind="computed_column", option="computed_column")


def sorted_by_reference(references: Mapping[str, str | None]) -> list[str]:
    """Sort names so that each comes after the one it refers to.

    Parameters
    ----------
    references : mapping of str to str or None
        To what each refers; names without an entry are of no concern.

    Raises
    ------
    InvalidInputError
        Some refer to each other in a circle.

    Examples
    --------
    >>> sorted_by_reference({"A": "B", "B": "O", "C": None, "D": "A", "E": "C", "F": ""})
    ['B', 'C', 'F', 'E', 'A', 'D']
    """
    free = [name for name, other in references.items() if other is None or other not in references]
    dependents: dict[str, list[str]] = {name: [] for name in references}
    for name, other in references.items():
        if name not in free and other is not None:
            dependents[other].append(name)
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = ", ".join(f"'{part}'" for part in reversed(path[path.index(name) :]))
            message = f"The computed columns {circle} refer to each other in a circle."
            raise InvalidInputError(message, kind="computed_column", option="computed_column")
        if name in done:
            return
        for dependent in dependents[name]:
            visit(dependent, (*path, name))
        done.append(name)

    for name in references:
        if name not in free:
            visit(name, ())
    return [*free, *reversed(done)]
