"""The WATERMARK clause and its options (:mod:`tidelake.table.schema.watermark`)."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.engine.schemas import DATA_TYPE, EXPRESSION, ROWTIME
from tidelake.sql.syntax.ast import Watermark
from tidelake.sql.syntax.name import quoted_name


def watermark_options(watermark: Watermark, data_type: object = None) -> dict[str, str]:
    """Return the options that store a watermark.

    Parameters
    ----------
    data_type : DataType, optional
        Type of its column, if known.

    Examples
    --------
    >>> watermark_options(Watermark("t", "`t`"), "TIMESTAMP(3)")[DATA_TYPE]
    'TIMESTAMP(3)'
    """
    kept = {ROWTIME: watermark.column, EXPRESSION: watermark.expression}
    return kept if data_type is None else {**kept, DATA_TYPE: str(data_type)}


def stored_watermark(options: Mapping[str, str]) -> str | None:
    """Return the clause ``WATERMARK FOR ...`` of a table's options; None without one."""
    if ROWTIME not in options or EXPRESSION not in options:
        return None
    return f"WATERMARK FOR {quoted_name(options[ROWTIME])} AS {options[EXPRESSION]}"
