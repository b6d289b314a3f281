"""Spans of OpenTelemetry: those of a client and of the executor that answers belong together."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelake.service.observe import spans

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture
def finished(monkeypatch):
    """The spans that ended, in a tracer of this test's own."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_TRACER", provider.get_tracer("test"))
    return exporter.get_finished_spans


def test_the_span_of_an_answer_is_a_child_of_the_calls(finished):
    with spans.span("query.get", "db.t", 3):
        metadata = [("authorization", "Bearer x"), ("raw-bin", b"\0"), *spans.carried()]
    with spans.span("query.lookup", "db.t", 1, metadata=metadata):
        pass
    call, answer = finished()
    assert (call.name, answer.name) == ("query.get", "query.lookup")
    assert dict(call.attributes) == {"db.collection.name": "db.t", "db.operation.batch.size": 3}
    assert answer.parent.span_id == call.context.span_id
    assert answer.context.trace_id == call.context.trace_id


def test_an_error_is_part_of_its_span(finished):
    with pytest.raises(ValueError, match="bad"), spans.span("query.get", "db.t", 1):
        raise ValueError("bad")
    assert not finished()[0].status.is_ok


def test_without_a_span_nothing_is_carried(finished):
    assert spans.carried() == ()


def test_without_the_package_there_are_no_spans():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from tidelake.service.observe import spans\n"
        "assert not spans.is_traced()\n"
        "with spans.span('a', 't', 1, metadata=[('c', 'd')]) as s: assert s is None\n"
        "assert spans.carried() == ()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
