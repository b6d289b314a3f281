"""Spans of OpenTelemetry, where its package is installed; else nothing, at the cost of one test.

The API alone is used: without an SDK that a program sets up, its spans are empty too. The context
of a span travels in the metadata of a call (``traceparent``), so that the span of an executor is a
child of the client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from tidelake.service._optional import tracing_library

TABLE, KEYS = "db.collection.name", "db.operation.batch.size"
"""Names of OpenTelemetry's conventions for clients of databases."""
_TRACE = tracing_library()
_PROPAGATE = None if _TRACE is None else tracing_library("propagate")
_TRACER: Any = None if _TRACE is None else _TRACE.get_tracer("tidelake.query")
_NOTHING = nullcontext()


def is_traced() -> bool:
    """Whether the package is installed."""
    return _TRACER is not None


def is_live() -> bool:
    """Whether spans go anywhere: the package is installed, and a program has set up an SDK."""
    return _TRACER is not None and (not _goes_nowhere() or bool(carried()))


def span(
    name: str,
    table: str,
    keys_count: int,
    *,
    metadata: Sequence[tuple[str, Any]] | None = None,
) -> AbstractContextManager[Any]:
    """A span around what a ``with`` block does.

    Parameters
    ----------
    name : str
        Such as ``"query.lookup"``.
    """
    if _TRACER is None or _goes_nowhere():
        return _NOTHING
    return _span(name, {TABLE: table, KEYS: keys_count}, metadata)


def _goes_nowhere() -> bool:
    """Whether no program has set up an SDK: a microsecond, against 15 for an empty span."""
    if _TRACE is None:
        return True
    without = isinstance(_TRACE.get_tracer_provider(), _TRACE.ProxyTracerProvider)
    return without and isinstance(_TRACER, _TRACE.ProxyTracer)


@contextmanager
def _span(
    name: str,
    attributes: Mapping[str, str | int],
    metadata: Sequence[tuple[str, Any]] | None,
) -> Iterator[Any]:
    context = None
    if metadata is not None and _PROPAGATE is not None:
        context = _PROPAGATE.extract(dict(metadata))
    with _TRACER.start_as_current_span(name, context=context, attributes=attributes) as begun:
        yield begun


def carried() -> tuple[tuple[str, str], ...]:
    """Metadata for a call that carry the current span; empty without one."""
    if _PROPAGATE is None or _TRACE is None:
        return ()
    if not _TRACE.get_current_span().get_span_context().is_valid:
        return ()
    carrier: dict[str, str] = {}
    _PROPAGATE.inject(carrier)
    return tuple(carrier.items())
