"""Java classes of ours, made without a jar: compiled and defined where Spark's own classes are.

1. The Java of a class is a file of this package. ``make java`` compiles all of them against the
   Spark that is installed, so a private name of Spark that is gone is an error of the build. A
   line that ends with ``// Spark 4.2`` or ``// Spark 4.0 to 4.1`` is for these versions alone.
2. Janino, which Spark ships, compiles it in the session's JVM. It knows no generics of ours and no
   lambdas.
3. A lookup in a package of Spark's (``MethodHandles.privateLookupIn``, public since Java 9) defines
   it in the loader of Spark's classes.
4. What was compiled is kept for the next JVM (:mod:`tidelake.spark.jvm.kept_code`).

Only the driver has it: no object that tasks get may be of such a class.
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidelake.spark.jvm.kept_code import KeptCode
from tidelake.spark.versions import minor_of, number

PACKAGE = "org.apache.spark.sql.execution.datasources"
BESIDE = f"{PACKAGE}.FilePartition"
"""A class of Spark's in that package."""
_ONLY_FOR = re.compile(r"\s*// Spark (4\.\d+)(?: to (4\.\d+))?$")
_DEFINED = "tidelake.defined."
"""Before the name of a class: the property of a JVM that has it."""
_KEPT: weakref.WeakKeyDictionary[SparkContext, KeptCode] = weakref.WeakKeyDictionary()
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
        # asked of a property: a class that is not there would be an exception, 20 calls of PySpark
        if jvm.java.lang.System.getProperty(_DEFINED + name) is not None:
            return find(full_name, True, beside.getClassLoader())
        made = _defined(spark, beside, full_name, java_text(name, minor_of(spark.version)))
        jvm.java.lang.System.setProperty(_DEFINED + name, "true")
        return made


def _defined(spark: SparkSession, beside: Any, full_name: str, text: str) -> Any:
    """Define a class, from code that was kept or compiled now."""
    handles = spark.sparkContext._gateway.jvm.java.lang.invoke.MethodHandles
    lookup = handles.privateLookupIn(beside, handles.lookup())
    kept = _kept_code(spark, beside)
    code = kept.get(full_name, text)
    if code is not None:
        with contextlib.suppress(Py4JError):  # it is compiled again, and kept in its place
            return lookup.defineClass(code)
    code = _compiled(spark, beside, full_name, text)
    made = lookup.defineClass(code)
    kept.put(full_name, text, code)
    return made


def _compiled(spark: SparkSession, beside: Any, full_name: str, text: str) -> bytes:
    compiler = spark.sparkContext._gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(beside.getClassLoader())
    compiler.cook(text)
    return bytes(compiler.getBytecodes().get(full_name))


def _kept_code(spark: SparkSession, beside: Any) -> KeptCode:
    """The code that was compiled beside the jars of this JVM."""
    context = spark.sparkContext
    known = _KEPT.get(context)
    if known is None:
        source = beside.getProtectionDomain().getCodeSource()
        jar = None if source is None else Path(str(source.getLocation().getPath()))
        java = str(context._gateway.jvm.java.lang.System.getProperty("java.version"))
        known = _KEPT[context] = KeptCode.beside(jar, spark=spark.version, java=java)
    return known
