"""Casts between types as Paimon makes them after a change of a column's type.

Whole columns are cast at once. Casts of SQL's store assignment are :mod:`tidelake.types.conform`.
"""

from tidelake.types.cast.column import cast_values
from tidelake.types.cast.rules import can_cast, keeps_order, needs_zone

__all__ = ["can_cast", "cast_values", "keeps_order", "needs_zone"]
