"""Makes WHERE over changes without old rows show which rows leave it.

``SELECT id, n FROM t WHERE n > 1`` never drops a row of its target whose n became 0, if the changes
of t do not say what n was. So a new row that does not satisfy WHERE becomes a delete of its key
(:mod:`tidelake.table.changelog.change_filter`):

``SELECT id, n FROM (FROM t SELECT id, n, CASE WHEN ... NOT coalesce((n > 1), false) THEN '-D' ...
END AS _row_kind) AS t``

The condition stays where it is in the text. A SELECT with a join, and one that names the kinds
itself, keep their WHERE; a sink of ours refuses the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference, relation_aliases
from tidelake.sql.query.row_kinds import ROW_KIND
from tidelake.sql.syntax.name import quoted_name
from tidelake.sql.syntax.sqlglot_dialect import conjuncts, exp, used_args

_PLAIN = frozenset({"expressions", "from_", "where", "with_", "hint"})
_AFTER_WHERE = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})


def leaving_edits(
    parsed: ParsedQuery, reference: TableReference, keys: Sequence[str], columns: Sequence[str]
) -> list[tuple[int, int, str]]:
    """Find the edits of a query's text; none where a plain WHERE is right.

    Parameters
    ----------
    columns : sequence of str
        The columns that are read of it, without the kinds.

    Returns
    -------
    list of (int, int, str)
        Start, end and new text.

    Examples
    --------
    >>> from tidelake.sql.query.query import parse_query
    >>> from tidelake.sql.syntax.ast import Query
    >>> text = "SELECT id FROM t WHERE n > 1"
    >>> parsed = parse_query(Query(text, 0, len(text)))
    >>> edits = leaving_edits(parsed, parsed.references[0], ["id"], ["id", "n"])
    >>> [(start, end) for start, end, _ in edits]
    [(15, 15), (17, 22), (28, 28)]
    """
    select = reference.node.parent_select
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    if not isinstance(select, exp.Select) or where is None:
        return []
    if not used_args(select) <= _PLAIN or reference.function is not None:
        return []
    own = {key.casefold() for key in keys}
    if all(_columns(condition) <= own for condition in conjuncts(where.this)):
        return []
    word, end = _where(parsed, reference)
    alias = relation_aliases(parsed.tree, parsed.references).get(reference, reference.alias)
    kind = quoted_name(ROW_KIND)
    read = "".join(f"{quoted_name(column)}, " for column in columns)
    before = f"SELECT {read}CASE WHEN {kind} IN ('+I', '+U') AND NOT coalesce(("
    after = f"), false) THEN '-D' ELSE {kind} END AS {kind}) AS {quoted_name(alias)}"
    return [
        (reference.start, reference.start, "(FROM "),
        (*word, before),
        (end, end, after),
    ]


def _columns(condition: exp.Expr) -> set[str]:
    return {column.name.casefold() for column in condition.find_all(exp.Column)}


def _where(parsed: ParsedQuery, reference: TableReference) -> tuple[tuple[int, int], int]:
    """Offsets of the word WHERE of a table's SELECT, and of the end of its condition."""
    word, depth, end = None, 0, parsed.query.end
    for token in parsed.tokens:
        if token.start < reference.end:
            continue
        depth += token.nesting
        if depth < 0 or (depth == 0 and word is not None and token.upper in _AFTER_WHERE):
            break
        if depth == 0 and word is None and token.upper == "WHERE":
            word = token.start, token.end
        end = token.end
    assert word is not None, "the SELECT has a WHERE"
    return word, end
