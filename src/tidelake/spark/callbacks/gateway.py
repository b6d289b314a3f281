"""The border to the JVM: values that Java's interfaces want, and objects that implement them.

Python objects implement Java's interfaces (py4j's proxies). Three things differ from Java:

1. There are no **default methods**: Spark's call reaches Python, so each must be written here too
   (a test compares the classes with the interfaces by reflection).
2. An int arrives as a Java ``int``, a Python list not at all: anything but a string, a boolean or a
   proxy is made by Java (arrays, ``OptionalLong``, maps).
3. An exception arrives as text, unless Python raises a Java exception: see
   :mod:`tidelake.spark.callbacks.refusal`.

Each step is a call to the JVM, of 0.1 to 0.2 ms on both sides: a class by its name, a method by its
name, each element of an array. A planned query made 180 of them, so what never changes is kept:
classes, types, sets of capabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import py4j.java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.spark.callbacks.refusal import guarded

JavaObject: TypeAlias = Any
CONNECTOR = "org.apache.spark.sql.connector"
KEPT_MAX = 256
"""Types that are kept; all are made again when there are more."""
# the options of a read that Spark itself applies, and the settings that name them
_TIME_TRAVEL = {
    "spark.sql.timeTravelVersionKey": "versionAsOf",
    "spark.sql.timeTravelTimestampKey": "timestampAsOf",
}


class Gateway:
    """Makes Java's values in a session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._gateway = spark.sparkContext._gateway
        self._classes: dict[str, JavaObject] = {}
        self._kept: dict[object, JavaObject] = {}
        self.changes_rows = False
        """Whether DELETE, UPDATE and MERGE of Spark come to us before Spark plans them."""
        self.writes_streams = False
        """Whether streams into tables by their names come to us before Spark starts them."""

    def java(self, name: str) -> JavaObject:
        """A class by its full name."""
        known = self._classes.get(name)
        if known is not None:
            return known
        found = getattr(self._gateway.jvm, name)
        if isinstance(found, py4j.java_gateway.JavaClass):  # a package may become a class later
            self._classes[name] = found
        return found

    def connector(self, name: str) -> JavaObject:
        """A class of Spark's connector interfaces: ``"catalog.Identifier"``."""
        return self.java(f"{CONNECTOR}.{name}")

    def array(self, name: str, values: Sequence[object]) -> JavaObject:
        """An array of a class."""
        made = self._gateway.new_array(self.java(name), len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def proxies(self, name: str, values: Sequence[object]) -> JavaObject:
        """An array that may hold Python objects that implement an interface."""
        made = self._gateway.new_array(self.java(name), len(values))
        # an assignment would accept Java's values only
        put = self._method("java.lang.reflect.Array", "set")
        for index, value in enumerate(values):
            put(made, index, value)
        return made

    def strings(self, values: Sequence[str]) -> JavaObject:
        """An array of strings."""
        return self.array("java.lang.String", values)

    def mapping(self, values: Mapping[str, str]) -> JavaObject:
        """A ``java.util.Map``."""
        made = self.java("java.util.HashMap")()
        for key, value in values.items():
            made.put(key, value)
        return made

    def set(self, values: Iterable[object]) -> JavaObject:
        """A ``java.util.Set``."""
        made = self.java("java.util.HashSet")()
        for value in values:
            made.add(value)
        return made

    def constants(self, name: str, *names: str) -> JavaObject:
        """A set of some values of an enum; nobody may change it."""
        return self.kept(
            (name, names), lambda: self.set(getattr(self.connector(name), one) for one in names)
        )

    def optional_long(self, value: int | None) -> JavaObject:
        """An ``OptionalLong``; Python's own int would not do."""
        kind = self.java("java.util.OptionalLong")
        return kind.empty() if value is None else kind.of(value)

    def schema(self, struct: st.StructType) -> JavaObject:
        """A ``StructType`` of Spark's."""
        return self.data_type(struct)

    def data_type(self, data_type: st.DataType) -> JavaObject:
        """A ``DataType`` of Spark's."""
        text = data_type.json()
        return self.kept(text, lambda: self.spark._jsparkSession.parseDataType(text))

    def kept(self, key: object, make: Callable[[], JavaObject]) -> JavaObject:
        """A value that never changes, made once."""
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            known = self._kept[key] = make()
        return known

    def options(self, given: JavaObject) -> dict[str, str]:
        """The options of a statement (``CaseInsensitiveStringMap``), without Spark's own.

        Few statements have any, so emptiness is tested first: py4j ends a loop over a map with a
        Java exception, and PySpark fetches its text, which costs 40 ms for each table of each
        query.
        """
        if given.isEmpty():
            return {}
        entries = given.asCaseSensitiveMap().entrySet().toArray()
        said = {str(entry.getKey()): str(entry.getValue()) for entry in entries}
        spark = {self.spark.conf.get(key, name).lower() for key, name in _TIME_TRAVEL.items()}
        return {
            key: value
            for key, value in said.items()
            if key.lower() not in spark and not key.startswith("__")
        }

    def _method(self, name: str, method: str) -> JavaObject:
        """A static method of a class of Java's own."""
        return self.kept((name, method), lambda: getattr(self.java(name), method))

    def session_of(self, session: JavaObject) -> SparkSession:
        """A Java session as a SparkSession: a stream's batches run in a clone of the session."""
        if session.equals(self.spark._jsparkSession):
            return self.spark
        return SparkSession(self.spark.sparkContext, session)

    def frame(self, dataset: JavaObject) -> DataFrame:
        """A Java ``Dataset`` as a DataFrame."""
        return DataFrame(dataset, self.spark)


def struct_of(schema: JavaObject) -> st.StructType:
    """Python's schema of a Java ``StructType``."""
    return st.StructType.fromJson(json.loads(schema.json()))


def type_of(data_type: JavaObject) -> st.DataType:
    """Python's type of a Java ``DataType``."""
    field = {"name": "c", "type": json.loads(data_type.json()), "nullable": True, "metadata": {}}
    return st.StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType


class Proxy:
    """A Python implementation of Java interfaces: ``class X(Proxy, implements=("a.B",))``.

    The JVM may call every public method, on any thread; errors reach the user as described in
    :mod:`tidelake.spark.callbacks.refusal`.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    Java: SimpleNamespace  # where py4j looks for the interfaces

    def __init_subclass__(cls, *, implements: Sequence[str] = ()) -> None:
        for name, method in list(vars(cls).items()):
            if callable(method) and not name.startswith("_"):
                setattr(cls, name, guarded(method))
        if implements:
            cls.Java = SimpleNamespace(implements=tuple(implements))

    def toString(self) -> str:
        """Its text, which also identifies it."""
        return f"{type(self).__name__}@{id(self):x}"

    def hashCode(self) -> int:
        """Equal if :meth:`equals` is true."""
        return hash(self.toString()) & 0x7FFFFFFF

    def equals(self, other: JavaObject) -> bool:
        """Whether the other is this one. It arrives as a Java object, never as a Python one."""
        is_object = isinstance(other, py4j.java_gateway.JavaObject)
        return is_object and bool(other.toString() == self.toString())
