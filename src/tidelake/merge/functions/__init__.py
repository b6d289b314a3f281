"""What a column's values of one key become: Paimon's field aggregators, all keys at once."""

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
