"""Ends the query of a stream that has come to its end.

A source may not stop its own query: that waits for the thread which asks. So another thread of the
JVM does it, once nothing is left to give. A query with ``availableNow`` ends by itself.
"""

from __future__ import annotations

from tidelake.spark.catalog.gateway import Gateway, JavaObject, Proxy

__all__ = ["StreamEnd"]


class StreamEnd(Proxy, implements=("java.lang.Runnable",)):
    """Stops a query from a thread of the JVM's, once.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    query_id : str, optional
        The query; None where it is not known, and then nothing is stopped.
    """

    def __init__(self, gateway: Gateway, query_id: str | None) -> None:
        super().__init__(gateway)
        self._query_id = query_id
        self._is_reached = False

    def reach(self) -> None:
        """Have the query stopped."""
        if self._query_id is not None and not self._is_reached:
            self._is_reached = True
            self.gateway.java("java.util.concurrent.CompletableFuture").runAsync(self)

    def run(self) -> None:
        """Stop it."""
        query: JavaObject = self.gateway.spark._jsparkSession.streams().get(self._query_id)
        if query is not None:
            query.stop()
