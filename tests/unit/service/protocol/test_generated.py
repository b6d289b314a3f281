import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None, reason="grpcio-tools makes the code"
)
def test_the_generated_code_is_that_of_the_proto_file():
    command = [sys.executable, "scripts/gen_proto.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_field_numbers_are_never_changed():
    """Numbers of the messages that clients in other languages speak."""
    numbers = {
        message: {f.name: f.number for f in pb.DESCRIPTOR.message_types_by_name[message].fields}
        for message in ("Column", "PackedRows", "Slice", "Version", "LookupRequest", "LookupReply")
    }
    assert numbers == {
        "Column": {"values": 1, "offsets": 2, "valid": 3},
        "PackedRows": {"count": 1, "columns": 2},
        "Slice": {"partition": 1, "bucket": 2, "count": 3, "buckets": 4},
        "Version": {"generation": 1, "snapshot": 2, "schema": 3},
        "LookupRequest": {
            "protocol": 1, "table": 2, "epoch": 3, "at_least": 4, "slices": 5, "keys": 6,
            "columns": 7, "body": 8, "id": 9, "wait_ms": 10,
        },
        "LookupReply": {
            "version": 1, "found": 2, "rows": 3, "arrow": 4, "id": 5, "problem": 6,
        },
    }  # fmt: skip
