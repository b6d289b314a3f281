"""Filters of a query that the scan of a table may apply without changing the result.

Spark applies WHERE again, so a filter here keeps at least the rows that Spark keeps. Candidates in
a SELECT are

- the conjuncts of WHERE, on a table that no outer join fills with nulls;
- the conjuncts of ON of an inner join, and of a left join on its right table.

A conjunct is pushed down if it compares columns of one table with literals that have the same
meaning in the kernel: numbers with numeric columns, text with text, dates with dates, times with
timestamps of the same kind. A column without qualifier must not exist in another table. Conjuncts
of outer queries count too, if the columns come through (:mod:`tidelake.sql.query.outer_query`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal

from tidelake.errors import TidelakeError
from tidelake.sql.query.outer_query import Scope, enclosing_scopes
from tidelake.sql.query.query import ParsedQuery
from tidelake.sql.query.reference import TableReference
from tidelake.sql.syntax.sqlglot_dialect import conjuncts, exp, used_args
from tidelake.types import DataField, TypeRoot
from tidelake.types.predicate import (
    And,
    Compare,
    In,
    IsNull,
    NotNull,
    Or,
    Predicate,
    StartsWith,
    bind,
    conjoin,
)

_OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_TWO_SIDES = frozenset({"this", "expression"})
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
}
"""Arguments that a node may have; other nodes have two sides."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"(19|20)\d\d-\d\d-\d\d( \d\d:\d\d:\d\d(\.(\d{3}|\d{6}))?Z?)?")
"""From 1900 on: zones have whole offsets, mostly."""
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_LOCAL = frozenset({exp.DataType.Type.TIMESTAMPNTZ})
_INSTANTS = frozenset({exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ})
MICRO_DIGITS = 6


def pushed_filter(
    parsed: ParsedQuery,
    reference: TableReference,
    fields: Sequence[DataField],
    columns: Mapping[TableReference, Sequence[str]] | None = None,
    *,
    zone: tzinfo | None = None,
) -> Predicate | None:
    """Return the filter that the scan of a reference may apply; None without one.

    Parameters
    ----------
    reference : TableReference
        A table of it; its table function, if any, must not merge rows.
    columns : mapping of TableReference to sequence of str, optional
        Columns of the query's other tables, if known, to resolve columns without qualifier.
    zone : tzinfo, optional
        Session time zone for instants; without it their conditions are not pushed.

    Returns
    -------
    Predicate or None
        Not bound.
    """
    found: list[Predicate] = []
    for scope in enclosing_scopes(reference, fields, parsed.tree):
        converter = _converter(parsed, scope, columns or {}, zone)
        for condition in _conditions(scope.select, scope.node):
            for part in conjuncts(condition):
                predicate = converter.predicate(part)
                if predicate is not None and _binds(predicate, fields):
                    found.append(predicate)
    return conjoin(found)


def complete_filter(
    parsed: ParsedQuery, reference: TableReference, fields: Sequence[DataField]
) -> Predicate | None:
    """Return the whole WHERE as a filter; None if a part of it cannot be one."""
    scope = next(enclosing_scopes(reference, fields, parsed.tree), None)
    where = parsed.tree.args.get("where")
    used = used_args(parsed.tree)
    if scope is None or where is None or not used <= {"expressions", "from_", "where", "kind"}:
        return None
    converter = _converter(parsed, scope, {}, None)
    parts = [converter.predicate(part) for part in conjuncts(where.this)]
    known = [part for part in parts if part is not None and _binds(part, fields)]
    return conjoin(known) if len(known) == len(parts) else None


def _converter(
    parsed: ParsedQuery,
    scope: Scope,
    columns: Mapping[TableReference, Sequence[str]],
    zone: tzinfo | None,
) -> _Converter:
    """Make the converter for the conditions of one SELECT."""
    # Spark's settings decide the meaning of a backslash and a double quote
    plain_text = not any(sign in parsed.query.sql for sign in '\\"')
    others = _columns_of_others(scope, columns)
    return _Converter(scope, others, plain_text=plain_text, zone=zone)


def _binds(predicate: Predicate, fields: Sequence[DataField]) -> bool:
    try:
        bind(predicate, fields)
    except TidelakeError:
        return False
    return True


def _columns_of_others(
    scope: Scope, columns: Mapping[TableReference, Sequence[str]]
) -> frozenset[str] | None:
    """Column names of the other tables of a SELECT; None if unknown."""
    select = scope.select
    source = select.args.get("from_")
    if source is None or select.args.get("laterals"):
        return None
    nodes = [source.this, *(join.this for join in select.args.get("joins") or ())]
    known = {id(r.node): r for r in columns}
    names: set[str] = set()
    for node in nodes:
        if node is scope.node:
            continue
        other = known.get(id(node))
        if other is None or node.args.get("joins"):
            return None
        names.update(c.casefold() for c in columns[other])
    return frozenset(names)


def _conditions(select: exp.Select, node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the WHERE and ON conditions that may filter a source."""
    source = select.args.get("from_")
    joins = list(select.args.get("joins") or ())
    own = next((j for j in joins if j.this is node), None)
    if own is None and (source is None or source.this is not node):
        return  # a join in parentheses
    sides = [_side(j) for j in joins]
    where = select.args.get("where")
    position = -1 if own is None else joins.index(own)
    later_fills = any(side in {"RIGHT", "FULL"} for side in sides[position + 1 :])
    if later_fills:
        return
    if own is None:
        if where is not None:
            yield where.this
        return
    kind = sides[position]
    if kind == "INNER" and where is not None:
        yield where.this
    if kind in {"INNER", "LEFT"} and own.args.get("on") is not None:
        yield own.args["on"]


def _side(join: exp.Join) -> str:
    """INNER, LEFT, RIGHT, FULL; OTHER for semi and anti joins."""
    side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
    method = str(join.args.get("method") or "").upper()
    if method:
        return "FULL"
    if kind in {"SEMI", "ANTI"}:
        return "OTHER"
    if side in {"LEFT", "RIGHT", "FULL"}:
        return side
    return "INNER" if kind in {"", "INNER", "CROSS"} else "FULL"


def _chain(node: exp.And | exp.Or) -> Iterator[exp.Expr]:
    """The parts of ``a OR b OR c``, or of AND."""
    stack: list[exp.Expr] = [node]
    while stack:
        part = stack.pop()
        if type(part) is type(node) and used_args(part) <= _TWO_SIDES:
            stack += (part.expression, part.this)
        else:
            yield part


class _Converter:
    """Converts conditions to predicates of one table; None if the meaning may differ."""

    def __init__(
        self,
        scope: Scope,
        others: frozenset[str] | None,
        *,
        plain_text: bool,
        zone: tzinfo | None,
    ) -> None:
        self.scope = scope
        self.others = others
        self.plain_text = plain_text
        self.zone = zone

    def predicate(self, node: exp.Expr) -> Predicate | None:
        """Convert one condition; all sides of AND and OR must convert."""
        if not used_args(node) <= _PARTS.get(type(node), _TWO_SIDES):
            return None  # NOT LIKE is a LIKE with one more argument
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            parts: list[Predicate] = []
            for part in _chain(node):
                known = self.predicate(part)
                if known is None:
                    return None
                parts.append(known)
            return And(tuple(parts)) if isinstance(node, exp.And) else _or(parts)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            field = self._field(node.this)
            return None if field is None else IsNull(field.name)
        if isinstance(node, exp.Not):
            return self._negated(node.this)
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Like):
            return self._like(node)
        operator = _OPERATORS.get(type(node))
        return None if operator is None else self._compare(operator, node.this, node.expression)

    def _field(self, node: exp.Expr) -> DataField | None:
        if not isinstance(node, exp.Column):
            return None
        if not node.table and (self.others is None or node.name.casefold() in self.others):
            return None
        return self.scope.field(node)

    def _negated(self, inner: exp.Expr) -> Predicate | None:
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            field = self._field(inner.this)
            return None if field is None else NotNull(field.name)
        return None

    def _compare(self, operator: str, left: exp.Expr, right: exp.Expr) -> Predicate | None:
        field = self._field(left)
        literal = right
        if field is None:
            field, literal, operator = self._field(right), left, _FLIPPED[operator]
        if field is None:
            return None
        value = self._value(literal, field)
        return None if value is None else Compare(operator, field.name, value)

    def _value(self, node: exp.Expr, field: DataField) -> object:
        if field.type.root in _TIMESTAMPS:
            return _time(node, field, self.zone) if self.plain_text else None
        value = _literal_value(node, field)
        return None if isinstance(value, str) and not self.plain_text else value

    def _between(self, node: exp.Between) -> Predicate | None:
        low = self._compare(">=", node.this, node.args["low"])
        high = self._compare("<=", node.this, node.args["high"])
        return None if low is None or high is None else And((low, high))

    def _in(self, node: exp.In) -> Predicate | None:
        field = self._field(node.this)
        if field is None or not node.expressions:
            return None
        values = [self._value(literal, field) for literal in node.expressions]
        return None if None in values else In(field.name, tuple(values))

    def _like(self, node: exp.Like) -> Predicate | None:
        field = self._field(node.this)
        pattern = node.expression
        if field is None or field.type.root is not TypeRoot.VARCHAR or not self.plain_text:
            return None
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            return None
        found = re.fullmatch(r"([^%_\\]+)%", pattern.this)
        return None if found is None else StartsWith(field.name, found[1])


def _or(parts: Sequence[Predicate]) -> Predicate:
    """OR; IN for equalities of one column."""
    equal = [p for p in parts if isinstance(p, Compare) and p.op == "=="]
    plain = all(type(p.literal) in {int, str, date} for p in equal)  # floats have two zeros
    if plain and len(equal) == len(parts) and len({p.column for p in equal}) == 1:
        return In(equal[0].column, tuple(p.literal for p in equal))
    return Or(tuple(parts))


def _literal_value(node: exp.Expr, field: DataField) -> object:
    """A literal as a value of a column; None if Spark may compare it in another way."""
    sign = 1
    while isinstance(node, (exp.Paren, exp.Neg)):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    root = field.type.root
    if isinstance(node, exp.Boolean):
        return bool(node.this) if root is TypeRoot.BOOLEAN else None
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE:
        literal = node.this
        is_text = isinstance(literal, exp.Literal) and literal.is_string
        return _day(literal.this) if is_text and root is TypeRoot.DATE else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        if root is TypeRoot.DATE:
            return _day(node.this)
        return node.this if root is TypeRoot.VARCHAR and sign == 1 else None
    return _number(node.this, sign, root)


def _time(node: exp.Expr, field: DataField, zone: tzinfo | None) -> datetime | None:
    """A timestamp literal for a column of the same kind; an instant is in Spark's zone."""
    is_instant = field.type.root is TypeRoot.TIMESTAMP_LTZ
    if not isinstance(node, exp.Cast) or node.to.expressions:
        return None
    if node.to.this not in (_INSTANTS if is_instant else _LOCAL):
        return None
    literal = node.this
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    if not _TIME.fullmatch(literal.this) or (is_instant and zone is None):
        return None
    try:
        time = datetime.fromisoformat(literal.this)
    except ValueError:
        return None
    digits = field.type.precision or 0
    if time.microsecond % 10 ** max(0, MICRO_DIGITS - digits):
        return None  # finer than the column
    if time.tzinfo is not None:
        return time if is_instant else None
    # an ambiguous local time is the first of two instants, in Spark and in Python
    return time.replace(tzinfo=zone) if is_instant else time


def _day(text: str) -> date | None:
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _number(text: str, sign: int, root: TypeRoot) -> object:
    """A number without a suffix or an exponent."""
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text):
        return None
    value = Decimal(text) if sign > 0 else Decimal(text).copy_negate()  # -value would round
    if root in _WHOLE or root is TypeRoot.DECIMAL:
        return int(value) if value == value.to_integral_value() else value
    if root is TypeRoot.DOUBLE:
        # Spark compares a decimal literal as a double
        return float(value)
    if root is TypeRoot.FLOAT:
        number = float(value)
        (single,) = (
            struct.unpack("<f", struct.pack("<f", number)) if abs(number) < 2**100 else (None,)
        )
        return number if single == number else None
    return None
