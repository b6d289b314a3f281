"""A frame through Python: ``mapInArrow`` for any column names, with decimals at a lower price.

An error that names the user's own mistake reaches the user without the frames of the worker:
``collect()`` and the other actions of a DataFrame are PySpark's, which shows the text of a worker
as it stands, and the message would be the last of many lines.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.errors import TidelakeError
from tidelake.spark.expression.decimals import as_numbers, with_decimals

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The work of a task on its rows."""

Rows = TypeVar("Rows", bound=Callable[..., Iterator[pa.RecordBatch]])
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""PySpark's variable: a worker with it tells an error by its type and message alone."""

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
        return in_workers(frame, work, schema)

    def restored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(with_decimals(batch.rename_columns(names), decimals) for batch in batches)

    return in_workers(frame, restored, schema)


def in_workers(frame: DataFrame, work: Work, schema: st.StructType | str) -> DataFrame:
    """``frame.mapInArrow(work, schema)``, with errors as of :func:`message_first`."""
    return frame.mapInArrow(message_first(work), schema)


def message_first(work: Rows) -> Rows:
    """Let a worker tell an error of the user's own by its message, without a traceback.

    Errors whose frames help, such as of a damaged file, keep them
    (:attr:`tidelake.TidelakeError.shows_own_frames`).

    Parameters
    ----------
    work : callable
        Makes the rows of a task; its name stays, which EXPLAIN shows.
    """

    @functools.wraps(work)
    def checked(*args: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(*args)
        except TidelakeError as error:
            if error.shows_own_frames:
                raise
            if TaskContext.get() is not None:
                # the worker ends with this error, so no other one is told this way
                os.environ[_HIDE_TRACEBACK] = "1"
            raise error.with_traceback(None) from None

    return checked  # type: ignore[return-value]  # of the same arguments
