"""The ways of a get on ``docs/internals/hops.md``: on the client's side and on the executor's."""

from __future__ import annotations

import pytest
from proving.hops import Call, assert_way, hops, traced
from unit.service.service_kit import made_table, running

import tidelake
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

HOPS_MAX = 14
KEY = 77
ANSWERED = frozenset({"service/protocol/framing.py:FrameReader.read"})
FOUND = ANSWERED | {"lookup/opened_file.py:_integer_finder.<locals>.find"}


@pytest.fixture
def query(tmp_path):
    """A client that knows its executor, which is threads of this process."""
    catalog = tidelake.open(tmp_path)
    made_table(catalog)
    with running(catalog, count=1) as service:
        service.wait_ready()
        with tidelake.lookup_client(catalog, "db.t") as client:
            client.get(KEY)
            yield client


def is_key_or_row(value: object) -> bool:
    """Whether a value is the key or its row, in any form; messages are rows too."""
    if isinstance(value, (bytes, pb.LookupRequest, pb.LookupReply, pb.PackedRows)):
        return True
    return value == {"id": KEY, "v": f"v{KEY}"} or (type(value) is int and value == KEY)


def of_thread(root: Call, function: str) -> Call:
    """The calls of the thread that begins with a function."""
    return Call("", "", calls=[call for call in root.calls if call.function == function])


def test_a_get_goes_the_way_that_the_page_says(query):
    root = traced(lambda: query.get(KEY), is_key_or_row)
    found = hops(of_thread(root, "TableQuery.get"), ANSWERED)
    assert_way(found, "TableQuery.get", hops_max=HOPS_MAX)


def test_an_executor_answers_a_get_by_the_way_that_the_page_says(query):
    (connection,) = query._client.session.view.executors.values()
    connection.frames._idle.take().close()  # the thread of a new connection is traced
    root = traced(lambda: query.get(KEY), is_key_or_row)
    found = hops(of_thread(root, "FrameListener._serve"), FOUND)
    assert_way(found, "TableQueryServicer.Session", hops_max=HOPS_MAX)
