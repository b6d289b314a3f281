"""Predicates: parsed, bound to a schema, evaluated on rows, and tested against ranges.

An unknown answer keeps the row or file. No file and no SQL may enter.
"""

from tidelake.types.predicate.binding import bind
from tidelake.types.predicate.evaluation import evaluate
from tidelake.types.predicate.filter_form import parse_filter
from tidelake.types.predicate.key_values import among_keys
from tidelake.types.predicate.node import (
    NEGATED,
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
    col,
    columns_of,
    conjoin,
    conjuncts,
)
from tidelake.types.predicate.pruning import ColumnRange, may_match

__all__ = [
    "NEGATED",
    "Always",
    "And",
    "ColumnRange",
    "Compare",
    "In",
    "IsNull",
    "Not",
    "NotNull",
    "Or",
    "Predicate",
    "StartsWith",
    "among_keys",
    "bind",
    "col",
    "columns_of",
    "conjoin",
    "conjuncts",
    "evaluate",
    "may_match",
    "parse_filter",
]
