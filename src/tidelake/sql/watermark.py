"""Where a table keeps its watermark: options under the keys that Paimon's Flink catalog uses.

Source: ``FlinkCatalogPropertiesUtil.serializeNewWatermarkSpec`` (1.3.1). The type of the expression
is that of its column: what Flink works out for a time minus an interval.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.sql.name import quoted_name
from tidelake.sql.statement import Watermark

__all__ = ["WATERMARK_KEYS", "stored_watermark", "watermark_options"]

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


def stored_watermark(options: Mapping[str, str]) -> str | None:
    """The clause ``WATERMARK FOR ...`` of a table's options; None where there is none."""
    if ROWTIME not in options or EXPRESSION not in options:
        return None
    return f"WATERMARK FOR {quoted_name(options[ROWTIME])} AS {options[EXPRESSION]}"
