"""The example of a client in Go, built from the .proto file and run against a service."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import FULL, SIZE
from unit.service.service_kit import made_table, running

import tidelake
from tidelake.service.protocol import packed_columns

EXAMPLE = Path(__file__).parents[4] / "examples" / "query_client_go"


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
@pytest.mark.skipif(SIZE is not FULL, reason="Go compiles gRPC for a minute: TIDELAKE_SIZE=full")
def test_a_client_in_go_gets_what_was_written(tmp_path):
    place = tmp_path / "go"
    shutil.copytree(EXAMPLE, place)
    pytest.importorskip("grpc_tools")
    environment = {**os.environ, "PROTOC": f"{sys.executable} -m grpc_tools.protoc"}
    proto = Path(packed_columns.__file__).parent
    made = subprocess.run(
        [place / "generate.sh", proto], env=environment, capture_output=True, text=True, check=False
    )
    if made.returncode and "dial tcp" in made.stderr:
        pytest.skip("Go's modules cannot be fetched here")
    assert made.returncode == 0, made.stderr
    subprocess.run(["go", "build", "-o", "client", "."], cwd=place, check=True)
    catalog = tidelake.open(tmp_path / "warehouse")
    table = made_table(catalog, rows=100, buckets=4)
    with running(catalog):
        with tidelake.lookup_client(catalog, "db.t") as query:
            query.get(1)  # both executors are ready
        done = subprocess.run(
            [place / "client", table.paths.location, "db.t", "v", "7", "98", "-3", "500"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert sorted(done.stdout.splitlines()) == ["7 v7 1", "98 v98 1"]
