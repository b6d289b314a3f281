"""Planted bugs of statements; the drawn statements of :mod:`proving.statements` notice each."""

from __future__ import annotations

from proving.planting import edited, replaced
from tidelake.spark.expression import field_order, java_filter
from tidelake.sql.execution import describe

PLANTED = {
    # what is planted; kind of table, seed, statements after which it is seen at the latest
    "fields in arrays stay where the statement has them": (
        replaced(
            field_order,
            "_is_ordered",
            edited("return _is_ordered(source.elementType, wanted.elementType)", "return True"),
        ),
        ("texts", 0, 1),
    ),
    "an old instant is taken as Java shows it": (
        replaced(java_filter, "EXACT_SECONDS_FROM", lambda _: -(10**12)),
        ("moments", 8, 2),
    ),
    "the value of a partition is shown as it is": (
        replaced(describe, "escape_name", lambda _: str),
        ("texts", 13, 2),
    ),
}
