"""Casts between types as Paimon makes them where a column's type was changed."""

from tidelake.types.cast.column import cast_values
from tidelake.types.cast.rules import can_cast, keeps_order, needs_zone

__all__ = ["can_cast", "cast_values", "keeps_order", "needs_zone"]
