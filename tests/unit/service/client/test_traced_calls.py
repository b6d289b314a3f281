"""Spans of a client, and of the executors that answer it, in a program with an SDK."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
PROGRAM = """
import asyncio, sys, tempfile
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import tidelake
from unit.service.service_kit import made_table, running

spans = InMemorySpanExporter()
catalog = tidelake.open(tempfile.mkdtemp())
made_table(catalog, rows=20)

async def gets():
    async with tidelake.lookup_client_async(catalog, "db.t") as query:
        await query.get(1)
        await query.get_many([1, 2, 3])

with running(catalog, count=1), tidelake.lookup_client(catalog, "db.t") as query:
    query.get(1)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    query.get(1)
    query.get_many([1, 2, 3])
    asyncio.run(gets())
found = spans.get_finished_spans()
parents = {s.context.span_id: s for s in found}
for one in found:
    parent = parents[one.parent.span_id].name if one.parent else "none"
    print(one.name, one.attributes["db.operation.batch.size"], parent)
"""


def test_a_call_is_a_span_and_its_answer_the_child():
    pytest.importorskip("opentelemetry.sdk")
    # a process of its own: an SDK is set up once for all of a process
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=TESTS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(line for line in lines if "lookup" not in line) == [
        "query.get 1 none",
        "query.get 1 none",
        "query.get 3 none",
        "query.get 3 none",
    ]
    answers = sorted(line for line in lines if "lookup" in line)
    assert set(answers) == {"query.lookup 1 query.get", "query.lookup 3 query.get"}
