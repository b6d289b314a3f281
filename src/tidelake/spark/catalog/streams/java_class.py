"""Java classes of ours beside Spark's, in the JVM of a gateway."""

from __future__ import annotations

from tidelake.spark.catalog.gateway import Gateway, JavaObject
from tidelake.spark.sessions import java_class
from tidelake.spark.sessions.java_class import BESIDE, PACKAGE

__all__ = ["BESIDE", "PACKAGE", "defined_class"]


def defined_class(gateway: Gateway, name: str, text: str) -> JavaObject:
    """As :func:`tidelake.spark.sessions.java_class.defined_class`."""
    return java_class.defined_class(gateway.spark, name, text)
