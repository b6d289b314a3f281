"""Aggregate functions: what a column's values of one key become, all keys at once.

Names and results are those of Paimon's field aggregators. Which rows count is decided in
:mod:`tidelake.merge.engines`.
"""

from tidelake.merge.functions.function import (
    OVERFLOW,
    ColumnFunction,
    Folded,
    fold,
    no_retraction,
)
from tidelake.merge.functions.names import NEWEST, check_function, takes_retractions

__all__ = [
    "NEWEST",
    "OVERFLOW",
    "ColumnFunction",
    "Folded",
    "check_function",
    "fold",
    "no_retraction",
    "takes_retractions",
]
