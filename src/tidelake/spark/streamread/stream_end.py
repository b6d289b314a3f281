"""Ends a query whose streams have all come to their end.

A query may read several streams: it ends when the last of them has nothing left to give, and never
where one of them goes on for ever. So the sources that have ended are counted for each query, and
Spark says how many it has, those of others too.

A source may not stop its own query: that waits for the thread which asks. So another thread of the
JVM does it. A query with ``availableNow`` ends by itself.
"""

from __future__ import annotations

import threading

from tidelake.spark.catalog.gateway import Gateway, JavaObject, Proxy

__all__ = ["EndedSources", "StreamEnd"]


class EndedSources:
    """The sources of running queries that have nothing left to give; threads may share it."""

    def __init__(self) -> None:
        self._by_query: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    def add(self, query_id: str, source: int) -> int:
        """Count a source that has ended; how many of the query's have."""
        with self._lock:
            ended = self._by_query.setdefault(query_id, set())
            ended.add(source)
            return len(ended)

    def forget(self, query_id: str, source: int) -> None:
        """A source is closed: the next run of the query has another."""
        with self._lock:
            ended = self._by_query.get(query_id, set())
            ended.discard(source)
            if not ended:
                self._by_query.pop(query_id, None)


_ENDED = EndedSources()


class StreamEnd(Proxy, implements=("java.lang.Runnable",)):
    """Stops a query from a thread of the JVM's, once all of its sources have ended.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    query_id : str, optional
        The query; None where it is not known, and then nothing is stopped.
    source : int
        The number of the source.
    """

    def __init__(self, gateway: Gateway, query_id: str | None, source: int) -> None:
        super().__init__(gateway)
        self._query_id = query_id
        self._source = source
        self._is_reached = False

    def reach(self) -> None:
        """The source has nothing left to give, ever."""
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
        """Stop it."""
        query = self._query()
        if query is not None:
            query.stop()

    def _query(self) -> JavaObject | None:
        """The query, whichever session started it: a session's own list has no other's."""
        by_id = self.gateway.spark._jsparkSession.sharedState().activeStreamingQueries()
        return by_id.get(self.gateway.java("java.util.UUID").fromString(self._query_id))


def _sources_count(query: JavaObject) -> int:
    """How many sources a query reads; one that it reads twice is one."""
    return int(query.uniqueSources().size())
