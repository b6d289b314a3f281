"""The bytes that the page of the protocol shows are those that are sent."""

import re
from pathlib import Path

from tidelake.codec.binary_row import encode_row, serialize_row
from tidelake.codec.bucket import hash_bytes
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_values import pack_values
from tidelake.types import parse_type

PAGE = Path(__file__).parents[4] / "docs" / "query-protocol.md"


def blocks():
    """The hex of each block of annotated bytes."""
    for text in re.findall(r"```text\n([0-9a-f]{2} .*?)```", PAGE.read_text(), re.DOTALL):
        lines = [re.match(r"(\s*[0-9a-f]{2}\b)+", line)[0] for line in text.splitlines()]
        yield bytes.fromhex("".join(lines))


def test_a_request_and_its_answer():
    request, reply = blocks()
    types = [parse_type("BIGINT")]
    assert abs(hash_bytes(encode_row((7,), types))) % 4 == 3
    version = pb.Version(generation=1, snapshot=5)
    assert (
        request
        == pb.LookupRequest(
            protocol=1,
            table="db.t",
            epoch=3,
            at_least=version,
            slices=[pb.Slice(partition=serialize_row((), ()), bucket=3, count=1, buckets=4)],
            keys=pack_values([(7,)], types),
            columns=["v"],
        ).SerializeToString()
    )
    assert (
        reply
        == pb.LookupReply(
            version=version, found=b"\1", rows=pack_values([("tea",)], [parse_type("STRING")])
        ).SerializeToString()
    )
