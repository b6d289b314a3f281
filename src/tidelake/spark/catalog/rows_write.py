"""The common parts of every Spark write that ends in a callback with the rows."""

from __future__ import annotations

from collections.abc import Callable

from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy


class InsertingProxy(Proxy):
    """An object of a write.

    Parameters
    ----------
    insert : callable
        Writes a Java ``Dataset``.
    """

    def __init__(self, gateway: Gateway, insert: Callable[[JavaObject], None], name: str) -> None:
        super().__init__(gateway)
        self._insert = insert
        self._name = name


class WriteOfRows(InsertingProxy):
    """A ``Write``: the parts that are equal for all."""

    def supportedCustomMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomMetric", ())

    def reportDriverMetrics(self) -> JavaObject:
        """None of our own."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomTaskMetric", ())

    def toStreaming(self) -> JavaObject:
        """No stream."""
        raise no_stream(self._name)


def no_stream(name: str) -> UnsupportedError:
    """The error for a stream into a table by name."""
    message = (
        f"Table '{name}' does not support a streaming write by name: write each batch with tl.write"
        " in foreachBatch."
    )
    return UnsupportedError(message, kind="spark_write", table=name)
