"""Columns beyond those of ``SELECT *``, as Spark's connector interfaces need them.

Spark asks each relation of each query for them, and each of them for five properties: with Python
objects these were 20 calls from the JVM for every table. So they are objects of a Java class
(:mod:`tidelake.spark.jvm.java_class`), made once for a list of columns. A Spark that
does not take the class gets Python objects.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import types as st

from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.slower import warn_slower

_INTERFACE = f"{CONNECTOR}.catalog.MetadataColumn"
_NAME = "TidelakeMetadataColumn"
_SLOWER = "Statements take some milliseconds more for each of their tables"


def metadata_columns(gateway: Gateway, struct: st.StructType) -> JavaObject:
    """An array of metadata columns; nobody may change it."""
    return gateway.kept((_NAME, struct.json()), lambda: _made(gateway, struct))


def _made(gateway: Gateway, struct: st.StructType) -> JavaObject:
    try:
        defined_class(gateway.spark, _NAME)
        kind = gateway.java(f"{PACKAGE}.{_NAME}")
        return gateway.array(
            _INTERFACE, [kind(f.name, gateway.data_type(f.dataType)) for f in struct.fields]
        )
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        warn_slower(_SLOWER, gateway.spark.version, error)
        return gateway.proxies(_INTERFACE, [LakeMetadataColumn(gateway, f) for f in struct.fields])


class LakeMetadataColumn(Proxy, implements=(_INTERFACE,)):
    """One of them as a Python object."""

    def __init__(self, gateway: Gateway, field: st.StructField) -> None:
        super().__init__(gateway)
        self._field = field

    def name(self) -> str:
        """Its name."""
        return self._field.name

    def dataType(self) -> JavaObject:
        """Its type."""
        return self.gateway.data_type(self._field.dataType)

    def isNullable(self) -> bool:
        """As all columns of a scan."""
        return True

    def comment(self) -> None:
        """None."""

    def transform(self) -> None:
        """None."""

    def metadataInJSON(self) -> None:
        """None: no statement of Spark's own updates rows."""
