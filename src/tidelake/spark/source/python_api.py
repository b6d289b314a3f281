"""What of Spark's Python data source API this version has; stand-ins for what it lacks.

A stand-in lets the modules load. Nobody gets one: what needs it is refused, see
:mod:`tidelake.spark.versions`.
"""

from __future__ import annotations

import importlib
from typing import Any

from pyspark.sql import datasource

from tidelake.spark.versions import FORMAT_STREAMS_READ, has

DataSourceStreamArrowWriter: Any = getattr(
    datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
)
PUSH_FILTERS: Any = getattr(datasource.DataSourceReader, "pushFilters", None)
"""The interface's own function; None without filters."""


class _Limit:
    """No limit of Spark's."""


_limits: Any = (
    importlib.import_module("pyspark.sql.streaming.datasource")
    if has(FORMAT_STREAMS_READ)
    else None
)
ReadLimit: Any = getattr(_limits, "ReadLimit", _Limit)
ReadAllAvailable: Any = getattr(_limits, "ReadAllAvailable", _Limit)
SupportsTriggerAvailableNow: Any = getattr(_limits, "SupportsTriggerAvailableNow", object)
