"""Java classes of ours, made without a jar: compiled and defined where Spark's own classes are.

Janino, which Spark ships, compiles a class of a package of Spark's. A lookup in that package
(``MethodHandles.privateLookupIn``, public since Java 9) defines it in the loader of Spark's
classes. Only the driver has it: no object that tasks get may be of such a class.
"""

from __future__ import annotations

import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

PACKAGE = "org.apache.spark.sql.execution.datasources"
BESIDE = f"{PACKAGE}.FilePartition"
"""A class of Spark's in that package."""
_defining = threading.Lock()


def defined_class(spark: SparkSession, name: str, text: str) -> Any:
    """Give the ``java.lang.Class`` of a name; define it if this JVM has none yet.

    Parameters
    ----------
    name : str
        The class, without its package.
    text : str
        Its Java: a public class of :data:`PACKAGE`, one and no more.
    """
    jvm = spark.sparkContext._gateway.jvm
    find = jvm.java.lang.Class.forName
    beside = find(BESIDE)
    full_name = f"{PACKAGE}.{name}"
    with _defining:
        try:
            return find(full_name, True, beside.getClassLoader())
        except Py4JError:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(beside.getClassLoader())
            compiler.cook(text)
            code = compiler.getBytecodes().get(full_name)
            handles = jvm.java.lang.invoke.MethodHandles
            return handles.privateLookupIn(beside, handles.lookup()).defineClass(code)
