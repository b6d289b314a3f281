"""Java classes of ours, made without a jar: compiled and defined where Spark's own classes are.

1. The Java of a class is a file of this package. ``make java`` compiles all of them against the
   Spark that is installed, so a private name of Spark that is gone is an error of the build.
2. Janino, which Spark ships, compiles it in the session's JVM. It knows no generics of ours and no
   lambdas.
3. A lookup in a package of Spark's (``MethodHandles.privateLookupIn``, public since Java 9) defines
   it in the loader of Spark's classes.

Only the driver has it: no object that tasks get may be of such a class.
"""

from __future__ import annotations

import threading
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

PACKAGE = "org.apache.spark.sql.execution.datasources"
BESIDE = f"{PACKAGE}.FilePartition"
"""A class of Spark's in that package."""
_defining = threading.Lock()


def java_text(name: str) -> str:
    """The Java of a class."""
    return files(__package__).joinpath(f"{name}.java").read_text(encoding="utf-8")


def defined_class(spark: SparkSession, name: str) -> Any:
    """Give the ``java.lang.Class`` of a name; define it if this JVM has none yet.

    Parameters
    ----------
    name : str
        The class, without its package. Requires: the classes of ours that it names are defined.

    Raises
    ------
    Py4JError, TypeError
        This Spark has other private names. (py4j calls a class that is missing a package.)
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
            compiler.cook(java_text(name))
            code = compiler.getBytecodes().get(full_name)
            handles = jvm.java.lang.invoke.MethodHandles
            return handles.privateLookupIn(beside, handles.lookup()).defineClass(code)
