"""The newest truncation of a feed: a sequence at which all rows were removed.

It is an option of the table of kept changes, for the changes that come later and are older. The
values are numbers or text that mean the same in every time zone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.schemas import alter_table
from tidelake.engine.tables import TableHandle
from tidelake.spark.streams.applychanges.target_tables import TRUNCATED_OPTION
from tidelake.types.schema_change import SetOption


def truncated_at(kept: TableHandle, types: Sequence[st.DataType]) -> Column | None:
    """Read the newest truncation as a struct of literals; None if there was none."""
    text = kept.schema.options.get(TRUNCATED_OPTION)
    return None if text is None else _literals(json.loads(text), types)


def record_truncation(
    kept: TableHandle,
    rows: DataFrame,
    names: Sequence[str],
    types: Sequence[st.DataType],
) -> TableHandle:
    """Record the newest of some truncations, unless one is recorded that is not older.

    Parameters
    ----------
    rows : DataFrame
        The truncations; `names` are the columns with their sequence.
    """
    found = rows.agg(F.max(F.struct(*names)).alias("at"))
    known = truncated_at(kept, types)
    if known is not None:
        found = found.select(F.greatest("at", known.cast(found.schema["at"].dataType)).alias("at"))
    encoded = [
        _encoded(F.col("at")[name], data_type) for name, data_type in zip(names, types, strict=True)
    ]
    row = found.select(*encoded).collect()[0]
    text = json.dumps(list(row))
    if kept.schema.options.get(TRUNCATED_OPTION) == text:
        return kept
    return alter_table(kept, [SetOption(TRUNCATED_OPTION, text)])


def _encoded(column: Column, data_type: st.DataType) -> Column:
    if isinstance(data_type, st.TimestampType):
        return F.unix_micros(column)
    if isinstance(data_type, st.IntegralType):
        return column.cast("bigint")
    return column.cast("string")


def _literals(values: Sequence[object], types: Sequence[st.DataType]) -> Column:
    return F.struct(
        *(
            _literal(value, data_type).alias(f"col{number}")
            for number, (value, data_type) in enumerate(zip(values, types, strict=True), 1)
        )
    )


def _literal(value: object, data_type: st.DataType) -> Column:
    if isinstance(data_type, st.TimestampType):
        return F.timestamp_micros(F.lit(value).cast("bigint"))
    return F.lit(value).cast(data_type)
