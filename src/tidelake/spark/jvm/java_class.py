"""Java classes of ours, made without a jar: compiled and defined where Spark's own classes are.

1. The Java of a class is a file of this package. ``make java`` compiles all of them against the
   Spark that is installed, so a private name of Spark that is gone is an error of the build. A
   line that ends with ``// Spark 4.2`` or ``// Spark 4.0 to 4.1`` is for these versions alone.
2. Janino, which Spark ships, compiles it in the session's JVM. It knows no generics of ours and no
   lambdas.
3. A lookup in a package of Spark's (``MethodHandles.privateLookupIn``, public since Java 9) defines
   it in the loader of Spark's classes.

Only the driver has it: no object that tasks get may be of such a class.
"""

from __future__ import annotations

import re
import threading
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidelake.spark.versions import minor_of, number

PACKAGE = "org.apache.spark.sql.execution.datasources"
BESIDE = f"{PACKAGE}.FilePartition"
"""A class of Spark's in that package."""
_ONLY_FOR = re.compile(r"\s*// Spark (4\.\d+)(?: to (4\.\d+))?$")
_defining = threading.Lock()


def java_text(name: str, minor: str) -> str:
    """The Java of a class for a minor version of Spark, such as ``"4.3"``."""
    text = files(__package__).joinpath(f"{name}.java").read_text(encoding="utf-8")
    lines = (_for_version(line, minor) for line in text.splitlines())
    return "\n".join(line for line in lines if line is not None) + "\n"


def _for_version(line: str, minor: str) -> str | None:
    """A line without its versions; None if it is for others."""
    only = _ONLY_FOR.search(line)
    if only is None:
        return line
    first, last = only.group(1), only.group(2) or only.group(1)
    return line[: only.start()] if number(first) <= number(minor) <= number(last) else None


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
            compiler.cook(java_text(name, minor_of(spark.version)))
            code = compiler.getBytecodes().get(full_name)
            handles = jvm.java.lang.invoke.MethodHandles
            return handles.privateLookupIn(beside, handles.lookup()).defineClass(code)
