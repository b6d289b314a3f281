"""The main job of the README, whole, on MinIO: ``make demo WAREHOUSE=s3://lake/...``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers.real_stores import PASSWORD, USER
from stores.chosen import BY_MAKE_STORES

import tidelake

pytestmark = [BY_MAKE_STORES, pytest.mark.spark]

DEMO = Path(__file__).parents[2] / "examples" / "flights" / "demo.py"
FLIGHTS = 336_776
CHECKS_MIN = 12
"""Of the three acts together."""


@pytest.mark.timeout(3600)
def test_the_demo_runs_whole_and_all_its_checks_are_equal(minio, tmp_path):
    uri = minio.fresh()
    keys = {
        "AWS_ACCESS_KEY_ID": USER,
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
        "AWS_ENDPOINT_URL": minio.options["s3.endpoint"],
    }
    done = subprocess.run(
        [sys.executable, str(DEMO), uri],
        cwd=tmp_path,
        env={**os.environ, **keys, "COLUMNS": "240"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    found = {row[1]: row[2] for row in rows if len(row) == 5}
    checks = {what: how for what, how in found.items() if what.startswith("checked: ")}
    assert len(checks) >= CHECKS_MIN, done.stdout[-4000:]
    assert set(checks.values()) == {"equal"}
    print(f"demo on MinIO: {len(checks)} checks, {found['time']}")
    assert PASSWORD not in done.stdout
    out = tmp_path / "out" / "flights"
    assert uri in done.stdout
    assert PASSWORD not in (out / "log.txt").read_text(errors="replace")
    assert (out / "report.html").stat().st_size > 10_000
    assert not (out / "warehouse").exists()
    catalog = tidelake.open(uri, storage=minio.storage())
    assert catalog.table("air.board").count() == FLIGHTS
    assert 300_000 < catalog.table("air.flights").count() < FLIGHTS, "cancelled ones are deleted"
