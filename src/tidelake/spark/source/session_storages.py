"""Which storages ``format("tidelake")`` reaches in a session: those of its attached warehouses.

The processes in which PySpark plans and runs a data source know nothing of the session. So the
class that is registered for them carries the storages (:func:`source_reaching`), with the keys that
the program gave, which travel in a broadcast. A warehouse that is not attached is opened with what
the process finds in its environment.
"""

from __future__ import annotations

import threading
import weakref

from pyspark.sql import SparkSession

from tidelake.catalog import Catalog
from tidelake.fileio import FileIO
from tidelake.spark.source.data_source import source_reaching

__all__ = ["register_source"]

_STORAGES: weakref.WeakKeyDictionary[SparkSession, dict[str, FileIO]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def register_source(spark: SparkSession, catalog: Catalog) -> None:
    """Register ``format("tidelake")`` in a session to which a warehouse is attached.

    Parameters
    ----------
    spark : SparkSession
        The session.
    catalog : Catalog
        The warehouse.
    """
    with _LOCK:
        storages = _STORAGES.setdefault(spark, {})
        if catalog.fileio.is_remote:
            storages[catalog.uri] = catalog.fileio
        spark.dataSource.register(source_reaching(storages))
