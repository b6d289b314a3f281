"""Chooses the output mode of a stream: each row once, or again after each change.

``append``, if Spark can: only final rows. A query that groups without a watermark has no final
rows; ``update`` gives each changed group again.
"""

from __future__ import annotations

import re
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from tidelake.errors import TidelakeError, UnsupportedError

OutputMode = Literal["append", "update"]
_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_CONDITION = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_TAIL = re.compile(r"(SQLSTATE: \w+.*|;\s*\n.*|\n==.*)$", re.DOTALL)


def output_mode(frame: DataFrame) -> OutputMode:
    """Return the output mode in which Spark can run a stream.

    Raises
    ------
    UnsupportedError
        Spark cannot run it in either mode.

    Notes
    -----
    Through Spark Connect the mode cannot be checked before the start: ``append``.
    """
    if is_remote():
        return "append"
    refused = _refusal(frame, "Append")
    if refused is None:
        return "append"
    if _refusal(frame, "Update") is None:
        return "update"
    raise refused


def _refusal(frame: DataFrame, mode: str) -> TidelakeError | None:
    """Return Spark's reason against an output mode; None if it can run the stream."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    checker = getattr(jvm, _CHECKER)
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), getattr(modes, mode)())
    except (AnalysisException, Py4JJavaError) as error:
        reason = _TAIL.sub("", _CONDITION.sub("", str(error))).strip().rstrip(".")
        message = f"This query cannot run as a stream: {reason}."
        return UnsupportedError(message, kind="sql_streaming")
    return None
