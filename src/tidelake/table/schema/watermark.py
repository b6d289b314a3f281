"""Where a table keeps its watermark: options under the keys that Paimon's Flink catalog uses.

Source: ``FlinkCatalogPropertiesUtil.serializeNewWatermarkSpec`` (1.3.1). The type of the expression
is that of its column: what Flink works out for a time minus an interval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError
from tidelake.types.schema_change import DropColumn, RemoveOption, RenameColumn, SchemaChange

__all__ = ["DATA_TYPE", "EXPRESSION", "ROWTIME", "WATERMARK_KEYS", "check_watermark"]

_QUOTED = re.compile(r"`((?:[^`]|``)+)`")

ROWTIME = "schema.watermark.0.rowtime"
EXPRESSION = "schema.watermark.0.strategy.expr"
DATA_TYPE = "schema.watermark.0.strategy.data-type"
WATERMARK_KEYS = (ROWTIME, EXPRESSION, DATA_TYPE)
"""On disk: never rename."""


def check_watermark(
    options: Mapping[str, str], changes: Sequence[SchemaChange], *, table: str
) -> None:
    """Refuse changes that take away a column which the watermark names.

    Raises
    ------
    InvalidInputError
        A column of it is dropped or renamed, and the watermark is not dropped before.
    """
    if ROWTIME not in options:
        return
    quoted = _QUOTED.findall(options.get(EXPRESSION, ""))
    named = {options[ROWTIME], *(name.replace("``", "`") for name in quoted)}
    for change in changes:
        if isinstance(change, RemoveOption) and change.key == ROWTIME:
            return
        if isinstance(change, (DropColumn, RenameColumn)) and change.column in named:
            message = (
                f"Column '{change.column}' of table '{table}' is named by its watermark: drop that"
                f" first (ALTER TABLE {table} DROP WATERMARK)."
            )
            raise InvalidInputError(message, kind="watermark", table=table, column=change.column)
