"""A master and two workers that share no directory, only an object store; and where keys show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers.s3 import KEY_ID, SECRET, S3Server
from servers.spark_standalone import Standalone

import tidelake

# a master, two workers, their executors and a driver: six JVMs. Executors of their own write in
# each landing, too (test_local_cluster.py)
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

ROWS = 400
CANARY = "canary-of-a-refused-key"
OF_MACHINES = {"AWS_ACCESS_KEY_ID": "of-the-machine", "AWS_SECRET_ACCESS_KEY": "hush-of-machines"}


@pytest.fixture(scope="module")
def store():
    with S3Server() as server:
        server.key_ids = {KEY_ID, "of-the-machine"}
        yield server


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return {}


@pytest.fixture(scope="module")
def seen(store, logs, tmp_path_factory):
    """What store_program.py saw; `logs` gets what all processes printed."""
    root = tmp_path_factory.mktemp("machines")
    with Standalone(root, OF_MACHINES) as cluster:
        places = [cluster.driver, *cluster.workers]
        given = {
            "master": cluster.master,
            "driver": str(cluster.driver),
            "storage": store.storage(),
            "canary": CANARY,
            "places": [str(place) for place in places],
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("store_program.py"))],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=500,
            cwd=cluster.driver,
            env=cluster.of(cluster.driver),
        )
        assert done.returncode == 0, done.stderr[-4000:]
        logs["driver"] = done.stdout + done.stderr
        for place in places:
            for name in ("log.txt", "stderr", "stdout"):
                logs.update({str(p): p.read_text("latin-1") for p in place.rglob(name)})
        found = json.loads(done.stdout.splitlines()[-1])
        return found | {"hides": cluster.hides}


def test_machines_that_share_only_the_store_write_merge_stream_and_look_up(seen, store):
    found = seen["given"]
    values = [-1 if k % 4 == 0 else 2 * k for k in range(ROWS)]
    assert found["merged"] == [ROWS, sum(values)]
    assert found["compacted"] == 300
    assert found["streamed"] == sum(range(300))
    assert found["joined"] == [[1, 2], [4, -1], [999, None]]
    assert len(found["hosts"]) == 2
    if seen["hides"]:
        assert all(place.endswith(" []") for place in found["hosts"])
    python = tidelake.open("s3://lake/house", storage=store.storage())
    assert python.table("db.t").count() == 300


def test_executors_find_keys_in_their_environment_where_the_program_gives_none(seen):
    assert seen["found"] == 9


def test_no_key_shows_in_plans_events_pages_closures_errors_or_logs(seen, logs):
    assert seen["leaks"] == []
    assert all(size > 20 for size in seen["sizes"].values()), seen["sizes"]
    assert seen["carries"] > 5
    assert seen["jobs_logged"] > 5
    assert len(seen["errors"]) == 2
    assert all("nobody" not in text or CANARY not in text for text in seen["errors"])
    secrets = (SECRET, CANARY, OF_MACHINES["AWS_SECRET_ACCESS_KEY"])
    assert len(logs) >= 6
    assert [name for name, text in logs.items() if any(one in text for one in secrets)] == []


def test_files_of_broadcasts_are_for_their_owner_only(seen):
    assert seen["files"]  # Spark keeps broadcasts in its directories
    assert [path for path, is_own in seen["files"] if not is_own] == []
