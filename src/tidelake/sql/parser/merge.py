"""Reads MERGE INTO: what is merged, by which condition, and what becomes of the rows.

``MERGE INTO t [AS x] USING source [AS s] ON condition`` and one or more of

- ``WHEN MATCHED [AND c] THEN UPDATE SET *``, ``UPDATE SET a = e, ...``, ``DELETE``
- ``WHEN NOT MATCHED [BY TARGET] [AND c] THEN INSERT *``, ``INSERT (a, ...) VALUES (e, ...)``
- ``WHEN NOT MATCHED BY SOURCE [AND c] THEN UPDATE SET a = e, ...``, ``DELETE``

Source of the grammar: Spark's ``MERGE INTO`` (4.x), which Paimon takes. The three kinds may stand
in any order; of each kind only the last may have no condition, for none behind it would ever count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from tidelake.sql.parser.update_delete import assignments, column_of, expression, target
from tidelake.sql.syntax.ast import Merge, MergeClause, Query
from tidelake.sql.syntax.cursor import Reader
from tidelake.sql.syntax.name import TableName

__all__ = ["merge"]

When: TypeAlias = Literal["matched", "not_matched", "not_matched_by_source"]

_WHEN = ("WHEN",)
_NO_SOURCE = frozenset({"JOIN", ",", "WHERE", "LATERAL", "UNION"})
_SAID = {
    "matched": "WHEN MATCHED",
    "not_matched": "WHEN NOT MATCHED",
    "not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
}


def merge(reader: Reader) -> Merge:
    """Read a statement that begins with ``MERGE``."""
    reader.need("MERGE")
    evolves = reader.take("WITH", "SCHEMA", "EVOLUTION")
    reader.need("INTO")
    name, alias, options = target(reader, "USING")
    reader.need("USING", why=" behind the table")
    source = _source(reader)
    reader.need("ON", why=" behind the source")
    on = expression(reader, "MERGE", stop=_WHEN)
    clauses: list[MergeClause] = []
    starts: list[int] = []
    while reader.word is not None:
        starts.append(reader.place)
        reader.need("WHEN")
        clauses.append(_clause(reader, _when(reader), name, alias))
    if not clauses:
        raise reader.fault("MERGE needs a clause: WHEN [NOT] MATCHED [AND ...] THEN ....")
    _check_all_count(reader, clauses, starts)
    return Merge(name, source, on, tuple(clauses), options, alias, evolves)


def _source(reader: Reader) -> Query:
    """What stands between USING and ON."""
    start, first, depth = reader.place, reader.index, 0
    while (word := reader.word) is not None:
        if depth == 0 and word.upper in {"ON", "WHEN"}:
            break
        if depth == 0 and (word.upper in _NO_SOURCE or word.text.startswith("|>")):
            raise reader.fault(
                "One table stands here, or a query in parentheses: USING (SELECT ...) AS s."
            )
        depth += (word.upper == "(") - (word.upper == ")")
        reader.index += 1
    if reader.index == first:
        raise reader.fault("The source is missing here: a table, or (SELECT ...) AS s.")
    return Query(reader.text, start, reader.end)


def _when(reader: Reader) -> When:
    if reader.take("MATCHED"):
        return "matched"
    reader.need("NOT", "MATCHED", why=" behind WHEN")
    if not reader.take("BY"):
        return "not_matched"
    by = reader.choice(("SOURCE", "TARGET"), "The word behind BY")
    return "not_matched_by_source" if by == "SOURCE" else "not_matched"


def _clause(reader: Reader, when: When, name: TableName, alias: str | None) -> MergeClause:
    condition = expression(reader, "MERGE", stop=("THEN",)) if reader.take("AND") else None
    reader.need("THEN", why=" before what becomes of the rows")
    start = reader.place
    if when == "not_matched":
        if not reader.take("INSERT"):
            raise reader.fault(f"{_SAID[when]} takes INSERT: these rows are in the source alone.")
        return _insert(reader, condition, start, name, alias)
    if reader.take("DELETE"):
        return MergeClause(when, "delete", condition, None, start)
    if not reader.take("UPDATE"):
        raise reader.fault(f"{_SAID[when]} takes UPDATE SET or DELETE.")
    reader.need("SET", why=" behind UPDATE")
    if reader.sees("*"):
        if when == "not_matched_by_source":
            raise reader.fault("These rows are in no row of the source: name columns and values.")
        reader.take("*")
        return MergeClause(when, "update", condition, None, start)
    given = assignments(reader, name, alias, "MERGE", stop=_WHEN)
    return MergeClause(when, "update", condition, given.values, start, given.places, given.inside)


def _insert(
    reader: Reader, condition: Query | None, start: int, name: TableName, alias: str | None
) -> MergeClause:
    if reader.take("*"):
        return MergeClause("not_matched", "insert", condition, None, start)
    if reader.sees("VALUES"):
        raise reader.fault("Name the columns: INSERT (a, b) VALUES (...), or INSERT *.")
    places: dict[str, int] = {}

    def column() -> str:
        place = reader.place
        found = column_of(reader, name, alias)
        if found.casefold() in {c.casefold() for c in places}:
            raise reader.fault(f"Column '{found}' is there twice.", start=place)
        places[found] = place
        return found

    columns = reader.within("the columns", column)
    reader.need("VALUES", why=" behind the columns")
    place = reader.place
    values = reader.within("the values", lambda: expression(reader, "MERGE", stop=(",", ")")))
    if len(values) != len(columns):
        raise reader.fault(
            f"{len(values)} values stand here for {len(columns)} columns.", start=place
        )
    given = dict(zip(columns, values, strict=True))
    return MergeClause("not_matched", "insert", condition, given, start, places)


def _check_all_count(reader: Reader, clauses: Sequence[MergeClause], starts: Sequence[int]) -> None:
    for number, clause in enumerate(clauses):
        behind = [i for i in range(number + 1, len(clauses)) if clauses[i].when == clause.when]
        if clause.condition is None and behind:
            raise reader.fault(
                f"This clause would never count: the {_SAID[clause.when]} before it has no"
                " condition and takes all rows. Only the last of a kind may have none.",
                start=starts[behind[0]],
            )
