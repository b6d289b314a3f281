"""Where a table keeps its watermark: options under the keys that Paimon's Flink catalog uses.

Source: ``FlinkCatalogPropertiesUtil.serializeNewWatermarkSpec`` (1.3.1). The type of the expression
is that of its column: what Flink works out for a time minus an interval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidelake.errors import InvalidInputError
from tidelake.sql.name import quoted_name
from tidelake.sql.statement import Watermark
from tidelake.types.schema_change import DropColumn, RemoveOption, RenameColumn, SchemaChange

__all__ = ["WATERMARK_KEYS", "check_watermark", "stored_watermark", "watermark_options"]

_QUOTED = re.compile(r"`((?:[^`]|``)+)`")

ROWTIME = "schema.watermark.0.rowtime"
EXPRESSION = "schema.watermark.0.strategy.expr"
DATA_TYPE = "schema.watermark.0.strategy.data-type"
WATERMARK_KEYS = (ROWTIME, EXPRESSION, DATA_TYPE)
"""On disk: never rename."""


def watermark_options(watermark: Watermark, data_type: object = None) -> dict[str, str]:
    """The options that keep a watermark.

    Parameters
    ----------
    watermark : Watermark
        As it was read.
    data_type : DataType, optional
        Of its column, where it is known.

    Examples
    --------
    >>> watermark_options(Watermark("t", "`t`"), "TIMESTAMP(3)")[DATA_TYPE]
    'TIMESTAMP(3)'
    """
    kept = {ROWTIME: watermark.column, EXPRESSION: watermark.expression}
    return kept if data_type is None else {**kept, DATA_TYPE: str(data_type)}


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
                f"Column '{change.column}' of table '{table}' is named by its watermark: ALTER"
                f" TABLE {table} DROP WATERMARK first."
            )
            raise InvalidInputError(message, kind="watermark", table=table, column=change.column)


def stored_watermark(options: Mapping[str, str]) -> str | None:
    """The clause ``WATERMARK FOR ...`` of a table's options; None where there is none."""
    if ROWTIME not in options or EXPRESSION not in options:
        return None
    return f"WATERMARK FOR {quoted_name(options[ROWTIME])} AS {options[EXPRESSION]}"
