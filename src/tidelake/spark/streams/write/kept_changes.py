"""Finds queries that lose changes of a table with a primary key, before they start.

The changes of ``changelog-producer`` ``none`` and ``input`` do not say what a row was before
(:mod:`tidelake.table.changelog.change_filter`), so the target keeps rows for ever where a query

1. filters by columns beside the primary key;
2. drops rows by a join whose condition needs such columns;
3. writes them into a table whose own key is not made of the primary key.

``dropDuplicates`` drops the later changes of a key whatever the producer. A target without a key
takes no changes at all. A frame without kinds that neither shows deletes nor leaves them out by
``read.changelog`` loses rows in the same way.

Spark's analyzed plan is followed from each of our streams to the sink: which columns are made of
the primary key alone, and which are made of the kinds. A condition that names the kinds is the
user's own rule. What a plan does not show (functions over groups, ``foreachBatch``) is not
followed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from tidelake.engine.streams import INCOMPLETE, WITHOUT_OLD_ROWS, knows_old_rows
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import FIRST_ROW, ROW_KIND_COLUMN
from tidelake.errors import UnsupportedError
from tidelake.options import declared

CHANGES = "tidelake.changes"
"""Option of a source, or in the metadata of its kinds: what its rows are, for this module."""
JavaPlan = Any
"""A node of Spark's plan, or an expression, in the JVM."""
_SAME_COLUMNS = frozenset(
    {
        "EventTimeWatermark",
        "GlobalLimit",
        "LocalLimit",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "View",
    }
)
"""Nodes that give the columns of their only child, perhaps more."""
_REMOVE_AT_DELETE = (
    declared.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    declared.AGGREGATION_REMOVE_RECORD_ON_DELETE,
)
_GIVE = (
    "Give the filter to the stream, tl.read_stream(name, where=...) or the option 'where' of"
    " format('tidelake')"
)
_KEEP_EACH = "Join LEFT OUTER, which keeps each change"
_KEEP_ROW = "Write LEFT JOIN, or LATERAL VIEW OUTER, which keeps each change"
_AT_DELETE = "write to a table that removes rows at -U, such as one of the engine 'deduplicate'"
_DEDUPLICATE = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})


def changes_text(handle: TableHandle) -> str:
    """Describe the changes of a table, for the option :data:`CHANGES`; empty without a key."""
    keys = list(handle.schema.primary_keys)
    if not keys or handle.options.get(declared.MERGE_ENGINE) == FIRST_ROW:
        return ""
    return json.dumps(
        {
            "table": handle.identifier,
            "keys": keys,
            "old_rows": knows_old_rows(handle),
            "producer": handle.options.get(declared.CHANGELOG_PRODUCER),
            "deletes": handle.options.get(declared.READ_CHANGELOG) is not False,
        }
    )


def removes_at_delete(handle: TableHandle) -> bool:
    """Whether a table removes a row at ``-D``, and not at ``-U``."""
    return any(handle.options.get(option) for option in _REMOVE_AT_DELETE)


def check_changes(
    frame: DataFrame,
    target: str,
    keys: Sequence[str] | None,
    *,
    takes_kinds: bool,
    at_delete: bool = False,
) -> None:
    """Refuse a stream that loses changes; nothing is read.

    Parameters
    ----------
    keys : sequence of str, optional
        The target's key; None if it has none, or it is not known.
    takes_kinds : bool
        Whether the target takes changes.
    at_delete : bool
        As of :func:`removes_at_delete`.

    Raises
    ------
    UnsupportedError
        It loses changes; the message says by what, and what to set.
    """
    if not is_remote():  # Connect has no plan here
        plan = frame._jdf.queryExecution().analyzed()
        check_changes_of_plan(plan, target, keys, takes_kinds=takes_kinds, at_delete=at_delete)


def check_changes_of_plan(
    plan: JavaPlan,
    target: str,
    keys: Sequence[str] | None,
    *,
    takes_kinds: bool,
    at_delete: bool = False,
) -> None:
    """Refuse an analyzed plan; see :func:`check_changes`."""
    rows = _followed(plan)
    source = rows.source
    if source is None:
        return
    columns = {str(one.name()).casefold(): _id(one) for one in _each(plan.output())}
    if ROW_KIND_COLUMN in columns and not takes_kinds and not rows.only_inserts:
        raise _not_taken(source, target)
    if not source.is_checked and ROW_KIND_COLUMN not in columns:
        return  # the user has dropped the kinds
    lost = rows.lost or (rows.left if at_delete else ())
    if not lost and not source.old_rows and keys:
        wrong = [key for key in keys if columns.get(key.casefold()) not in {None, *rows.keys}]
        if wrong:
            names = ", ".join(f"'{key}'" for key in wrong)
            lost = (
                _Loss(
                    f"its key ({names}) is not made of the primary key"
                    f" ({', '.join(source.keys)}) of the source, so a row whose {names} changes"
                    " stays under the old one",
                    "Give the target the source's key",
                ),
            )
    if lost:
        raise _loses(source, target, lost[0])


@dataclass(frozen=True, slots=True)
class _Source:
    """A stream of ours."""

    table: str
    keys: tuple[str, ...]
    old_rows: bool
    producer: str
    is_checked: bool
    """Whether its rows have no kinds, and a delete stops it."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """A way in which a query loses changes, and what to do instead."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """Properties of the rows of a node.

    Parameters
    ----------
    source : _Source, optional
        The stream of changes among its sources; None without one.
    keys, kinds : frozenset of int
        Ids of the columns made of the primary key alone, and of those made of kinds.
    left : tuple of _Loss
        Where rows leave as ``-U`` alone.
    only_inserts : bool
        Whether a condition on the kinds left new rows alone.
    """

    source: _Source | None = None
    keys: frozenset[int] = frozenset()
    kinds: frozenset[int] = frozenset()
    lost: tuple[_Loss, ...] = field(default=())
    left: tuple[_Loss, ...] = field(default=())
    only_inserts: bool = False

    def and_lost(self, what: str, remedy: str) -> _Rows:
        return replace(self, lost=(*self.lost, _Loss(what, remedy)))

    def and_left(self, what: str, remedy: str) -> _Rows:
        return replace(self, left=(*self.left, _Loss(what, f"{remedy}, or {_AT_DELETE}")))


def _followed(node: JavaPlan) -> _Rows:
    name = str(node.getClass().getSimpleName())
    if name == "StreamingRelation":
        return _of_stream(node)
    if name == "StreamingRelationV2":
        return _of_format(node)
    children = [_followed(child) for child in _each(node.children())]
    changing = [n for n, rows in enumerate(children) if rows.source is not None]
    if len(changing) != 1 and name != "Union":
        return _Rows()
    rows = children[changing[0]] if changing else _Rows()
    if name == "Union":
        return _of_union(node, children, changing)
    if name == "Project":
        return _of_project(node, rows)
    if name == "Filter":
        return _of_filter(node, rows)
    if name == "Join":
        return _of_join(node, rows, changing[0])
    if name == "Generate":
        return _of_generate(node, rows)
    if name in _DEDUPLICATE:
        what = "dropDuplicates drops the later changes of a row"
        return rows.and_lost(what, "Leave it out: the target's key keeps one row of each key")
    return rows if name in _SAME_COLUMNS else _Rows()


def _of_stream(leaf: JavaPlan) -> _Rows:
    found = leaf.dataSource().options().get(CHANGES)
    text = str(found.get()) if found.isDefined() else ""
    if not text:
        return _Rows()
    given: Mapping[str, Any] = json.loads(text)
    columns = {str(one.name()): _id(one) for one in _each(leaf.output())}
    asked = leaf.dataSource().options().get(declared.READ_CHANGELOG.key)
    deletes = given["deletes"]
    if asked.isDefined():
        deletes = str(asked.get()).lower() != "false"
    has_kinds = ROW_KIND_COLUMN in columns
    if not has_kinds and not deletes:
        return _Rows()  # the user has left deletes out
    return _of_source(given, columns)


def _of_format(leaf: JavaPlan) -> _Rows:
    """Follow a stream of ``format("tidelake")``, whose kinds carry what its rows are."""
    columns = {str(one.name()): one for one in _each(leaf.output())}
    kinds = columns.get(ROW_KIND_COLUMN)
    if kinds is None or not kinds.metadata().contains(CHANGES):
        return _Rows()
    given: Mapping[str, Any] = json.loads(str(kinds.metadata().getString(CHANGES)))
    return _of_source(given, {name: _id(one) for name, one in columns.items()})


def _of_source(given: Mapping[str, Any], columns: Mapping[str, int]) -> _Rows:
    """Tell of a stream by :func:`changes_text`, with the ids of its columns."""
    has_kinds = ROW_KIND_COLUMN in columns
    source = _Source(
        given["table"],
        tuple(given["keys"]),
        bool(given["old_rows"]) and has_kinds,
        given["producer"],
        is_checked=not has_kinds,
    )
    kinds = [columns[ROW_KIND_COLUMN]] if has_kinds else []
    keys = [columns[key] for key in source.keys if key in columns]
    return _Rows(source, frozenset(keys), frozenset(kinds))


def _of_project(node: JavaPlan, rows: _Rows) -> _Rows:
    keys, kinds = set(rows.keys), set(rows.kinds)
    for column in _each(node.projectList()):
        read = _reads(column)
        if read <= rows.keys and bool(column.deterministic()):
            keys.add(_id(column))
        if read & rows.kinds:
            kinds.add(_id(column))
    return replace(rows, keys=frozenset(keys), kinds=frozenset(kinds))


def _of_filter(node: JavaPlan, rows: _Rows) -> _Rows:
    assert rows.source is not None
    old_rows = rows.source.old_rows
    for condition in _conjuncts(node.condition()):
        read = _reads(condition)
        if read and read <= rows.kinds:
            text = str(condition.sql())
            if "+" in text and "-" not in text:  # new rows alone: no target takes them for changes
                rows = replace(rows, lost=(), left=(), only_inserts="+U" not in text)
        elif not read & rows.kinds and not read <= rows.keys:
            what = f"the filter {condition.sql()} needs more than the primary key"
            rows = rows.and_left(what, _GIVE) if old_rows else rows.and_lost(what, _GIVE)
    return rows


def _of_join(node: JavaPlan, rows: _Rows, side: int) -> _Rows:
    assert rows.source is not None
    word = str(node.joinType().sql())
    keeps = word == ("LEFT OUTER" if side == 0 else "RIGHT OUTER")
    condition = node.condition()
    if keeps or not condition.isDefined():
        return rows
    own = {_id(one) for one in _each((node.right() if side else node.left()).output())}
    if _reads(condition.get()) & own <= rows.keys:
        return rows
    what = f"the join ({word}) drops rows by more than the primary key"
    if rows.source.old_rows:
        return rows.and_left(what, _KEEP_EACH)
    return rows.and_lost(what, _KEEP_EACH)


def _of_generate(node: JavaPlan, rows: _Rows) -> _Rows:
    """A lookup by key, or rows of an array: without OUTER a row may vanish."""
    assert rows.source is not None
    if bool(node.outer()) or _reads(node.generator()) <= rows.keys:
        return rows
    what = "an inner lookup join, or LATERAL VIEW, drops rows by more than the primary key"
    if rows.source.old_rows:
        return rows.and_left(what, _KEEP_ROW)
    return rows.and_lost(what, _KEEP_ROW)


def _of_union(node: JavaPlan, children: Sequence[_Rows], changing: Collection[int]) -> _Rows:
    """Follow columns by their places; a loss of one side is a loss."""
    if not changing:
        return _Rows()
    columns = [[_id(one) for one in _each(child.output())] for child in _each(node.children())]
    keys, kinds = set(), set()
    for place, one in enumerate(_each(node.output())):
        if all(columns[n][place] in children[n].keys for n in changing):
            keys.add(_id(one))
        if any(columns[n][place] in children[n].kinds for n in changing):
            kinds.add(_id(one))
    sides = [children[n] for n in changing]
    first = next((s for s in sides if s.source and not s.source.old_rows), sides[0])
    return replace(
        first,
        keys=frozenset(keys),
        kinds=frozenset(kinds),
        lost=tuple(loss for side in sides for loss in side.lost),
        left=tuple(loss for side in sides for loss in side.left),
        only_inserts=all(side.only_inserts for side in sides),
    )


def _not_taken(source: _Source, target: str) -> UnsupportedError:
    message = (
        f"The stream into table '{target}' has changes of table '{source.table}', which a table"
        " without a primary key cannot take. Select rows:"
        f" .where(\"{ROW_KIND_COLUMN} IN ('+I', '+U')\").drop('{ROW_KIND_COLUMN}'); or write to a"
        " table with a primary key."
    )
    return UnsupportedError(message, kind="sql_row_kinds", table=target)


def _loses(source: _Source, target: str, loss: _Loss) -> UnsupportedError:
    if source.is_checked:
        why = "is read without row kinds"
        remedy = f"Read it with '{declared.READ_CHANGELOG.key}' = 'true'"
    elif source.old_rows:
        why = "shows a row that leaves as -U alone, at which the target keeps its row"
        remedy = loss.remedy
    else:
        why = f"has changes without old rows ('changelog-producer' is '{source.producer}')"
        remedy = loss.remedy
    if source.producer in WITHOUT_OLD_ROWS:
        remedy += f", set 'changelog-producer' of '{source.table}' to 'lookup'"
    message = (
        f"The stream into table '{target}' would lose changes: {loss.what}, and table"
        f" '{source.table}' {why}. {remedy}, or leave deletes out on purpose"
        f" ('{declared.READ_CHANGELOG.key}' = 'false')."
    )
    return UnsupportedError(message, kind=INCOMPLETE, table=target)


def _conjuncts(condition: JavaPlan) -> Iterator[JavaPlan]:
    if str(condition.getClass().getSimpleName()) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _reads(expression: JavaPlan) -> frozenset[int]:
    """Ids of the columns that an expression needs."""
    return frozenset(map(_id, _each(expression.references().toSeq())))


def _id(column: JavaPlan) -> int:
    return int(column.exprId().id())


def _each(sequence: JavaPlan) -> Iterator[JavaPlan]:
    return (sequence.apply(n) for n in range(sequence.size()))
