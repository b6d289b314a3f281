"""Aggregate functions: merge a column's values of each key, all keys at once.

Names and results are those of Paimon's field aggregators. :mod:`tidelake.merge.engines` decides
which rows count.
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
