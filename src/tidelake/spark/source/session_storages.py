"""What ``format("tidelake")`` reaches in a session: the warehouses that are attached to it.

The processes in which PySpark plans and runs a data source know nothing of the session. So the
class that is registered for them carries the storages (:func:`source_reaching`), with the keys that
the program gave, which travel in a broadcast; and the catalogs of servers, whose tokens travel
alike. A warehouse that is not attached is opened with what the process finds in its environment.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import Catalog
from tidelake.spark.source.data_source import source_reaching
from tidelake.spark.source.source_options import Attached
from tidelake.spark.versions import FORMAT_REACHES_ATTACHED, has

_ATTACHED: weakref.WeakKeyDictionary[SparkSession, Attached] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def register_source(spark: SparkSession, catalog: Catalog) -> None:
    """Register ``format("tidelake")`` in a session to which a warehouse is attached."""
    with _LOCK:
        known = _ATTACHED.get(spark, Attached())
        if catalog.metastore.is_served:
            known = replace(known, catalogs={**known.catalogs, catalog.uri: catalog.for_reading()})
        elif catalog.fileio.is_remote:
            known = replace(known, storages={**known.storages, catalog.uri: catalog.fileio})
        _ATTACHED[spark] = known
        if not has(FORMAT_REACHES_ATTACHED):
            return  # Spark found the source by itself, and takes no other of its name
        if known == Attached() and not is_remote():
            return  # Spark finds the same by itself when it is asked for, by a process of 2 s
        spark.dataSource.register(source_reaching(known))
