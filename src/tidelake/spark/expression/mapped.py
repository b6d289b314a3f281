"""A frame through Python: ``mapInArrow`` for any column names, with decimals at a lower price."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.spark.expression.decimals import as_numbers, with_decimals

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The work of a task on its rows."""

_PARSED = frozenset(".`")
"""Characters that a name without backticks may not have."""


def mapped(frame: DataFrame, work: Work, schema: st.StructType | str) -> DataFrame:
    """``frame.mapInArrow(work, schema)``, whatever the names of the columns.

    ``mapInArrow`` passes the names unquoted to Spark's parser: it looks for a name with a dot
    inside another column, and a backtick is an error. So such columns have numbers on the way,
    and `work` sees their names again. Decimals may travel as numbers
    (:mod:`tidelake.spark.expression.decimals`).
    """
    names = frame.columns
    is_plain = len({name.casefold() for name in names}) == len(names) and not any(
        _PARSED & set(name) for name in names
    )
    if not is_plain:
        frame = frame.toDF(*(f"c{number}" for number in range(len(names))))
    frame, decimals = as_numbers(frame)
    if is_plain and not decimals:
        return frame.mapInArrow(work, schema)

    def restored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(with_decimals(batch.rename_columns(names), decimals) for batch in batches)

    return frame.mapInArrow(restored, schema)
