"""Ends a query once all of its streams have ended.

A query may read several streams. It ends when the last of them has ended, and never ends if one
goes on for ever. So this module counts the sources that have ended for each query; Spark knows how
many sources the query has, including those of other formats.

A source may not stop its own query: the stop would wait for the thread that calls it. So another
thread of the JVM stops the query. A query with ``availableNow`` ends by itself.
"""

from __future__ import annotations

import threading

from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy


class EndedSources:
    """The sources of running queries that have ended. Safe for threads."""

    def __init__(self) -> None:
        self._by_query: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    def add(self, query_id: str, source: int) -> int:
        """Add a source that has ended; return how many of the query's have ended."""
        with self._lock:
            ended = self._by_query.setdefault(query_id, set())
            ended.add(source)
            return len(ended)

    def forget(self, query_id: str, source: int) -> None:
        """Remove a closed source: the next run of the query has a new one."""
        with self._lock:
            ended = self._by_query.get(query_id, set())
            ended.discard(source)
            if not ended:
                self._by_query.pop(query_id, None)


_ENDED = EndedSources()


class StreamEnd(Proxy, implements=("java.lang.Runnable",)):
    """Stops a query from a thread of the JVM once all of its sources have ended.

    Parameters
    ----------
    query_id : str, optional
        Id of the query; if None, nothing is stopped.
    """

    def __init__(self, gateway: Gateway, query_id: str | None, source: int) -> None:
        super().__init__(gateway)
        self._query_id = query_id
        self._source = source
        self._is_reached = False

    def reach(self) -> None:
        """Record that the source has ended."""
        if self._query_id is None or self._is_reached:
            return
        self._is_reached = True
        ended_count = _ENDED.add(self._query_id, self._source)
        query = self._query()
        if query is not None and ended_count >= _sources_count(query):
            self.gateway.java("java.util.concurrent.CompletableFuture").runAsync(self)

    def close(self) -> None:
        """The query ends."""
        if self._query_id is not None:
            _ENDED.forget(self._query_id, self._source)

    def run(self) -> None:
        """Stop the query."""
        query = self._query()
        if query is not None:
            query.stop()

    def _query(self) -> JavaObject | None:
        """Find the query in every session: a session lists only its own queries."""
        by_id = self.gateway.spark._jsparkSession.sharedState().activeStreamingQueries()
        return by_id.get(self.gateway.java("java.util.UUID").fromString(self._query_id))


def _sources_count(query: JavaObject) -> int:
    """Count the sources of a query; a source that it reads twice counts once."""
    return int(query.uniqueSources().size())
