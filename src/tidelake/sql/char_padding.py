"""``CHAR(n)`` compared with literals: both filled up with spaces, as SQL has it.

A value of ``CHAR(5)`` may be stored filled up (``'ab   '``, as Java Paimon on Spark writes it) or
as it was given (``'ab'``, as it is kept here). Compared with a literal it is the same value: so
where a query compares such a column with text, both sides are filled up to the length of the
longer. Two columns are compared as they are, and values are shown as they are stored.

Source of the rule: Spark's ``ApplyCharTypePadding`` (4.x), which Java Paimon's users have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelake.sql.outer_query import Scope, scopes_of
from tidelake.sql.parser import exp
from tidelake.sql.query import ParsedQuery
from tidelake.sql.reference import Reference
from tidelake.types import DataField, TypeRoot

__all__ = ["padded_comparisons"]

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)


def padded_comparisons(
    parsed: ParsedQuery, reference: Reference, fields: Sequence[DataField], *, is_only: bool
) -> Iterator[tuple[int, str]]:
    """What to write into a query, with the places.

    Parameters
    ----------
    parsed : ParsedQuery
        The query.
    reference : Reference
        A table in it.
    fields : sequence of DataField
        The table's columns.
    is_only : bool
        Whether no other table of the query has columns: then those without a qualifier are its.

    Examples
    --------
    >>> from tidelake.sql.query import read_query
    >>> from tidelake.sql.statement import Query
    >>> from tidelake.types import parse_type
    >>> text = "SELECT 1 FROM t WHERE c = 'ab'"
    >>> parsed = read_query(Query(text, 0, len(text)))
    >>> fields = [DataField(0, "c", parse_type("CHAR(5)"))]
    >>> found = padded_comparisons(parsed, parsed.references[0], fields, is_only=True)
    >>> for place, words in sorted(found, reverse=True):
    ...     text = text[:place] + words + text[place:]
    >>> text
    "SELECT 1 FROM t WHERE rpad(c, 5) = rpad('ab', 5)"
    """
    if not any(f.type.root is TypeRoot.CHAR for f in fields):
        return
    for scope in scopes_of(reference, fields, parsed.tree):
        for node in scope.select.find_all(*_COMPARED, exp.In, exp.Between):
            if node.parent_select is scope.select:
                yield from _padded(node, scope, is_only=is_only)


def _padded(node: exp.Expr, scope: Scope, *, is_only: bool) -> Iterator[tuple[int, str]]:
    if isinstance(node, exp.In):
        sides = [node.this, *node.expressions]
    elif isinstance(node, exp.Between):
        sides = [node.this, node.args["low"], node.args["high"]]
    else:
        sides = [node.this, node.expression]
    columns = [s for s in sides if isinstance(s, exp.Column)]
    literals = [s for s in sides if isinstance(s, exp.Literal) and s.is_string]
    if len(columns) != 1 or len(literals) != len(sides) - 1 or not literals:
        return
    (column,) = columns
    field = scope.field(column) if column.table or is_only else None
    if field is None or field.type.root is not TypeRoot.CHAR:
        return
    length = max(field.type.length or 1, *(len(literal.this) for literal in literals))
    first, last = column.parts[0].meta, column.parts[-1].meta
    places = [(first["start"], last["end"] + 1)]
    places += ((literal.meta["start"], literal.meta["end"] + 1) for literal in literals)
    for start, end in places:
        yield start, "rpad("
        yield end, f", {length})"
