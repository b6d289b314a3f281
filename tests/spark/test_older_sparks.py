"""A share of what every Spark must do, on the oldest versions; `make sparks` runs all, on each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = "tests/spark/test_every_version.py"
SHARE = (
    "test_a_merged_table_is_read_by_every_door",
    "test_statements_change_tables_with_and_without_keys[spark.sql]",
    "test_a_stream_goes_from_table_to_table",
)
OF_THIS_RUN = ("PYTEST_", "SPARK_", "PYSPARK_", "TIDELAKE_MINUTES")


@pytest.mark.parametrize("minor", ["4.0", "4.1"])
def test_the_main_things_are_the_same(minor, tmp_path):
    python = ROOT / ".sparks" / minor / "bin" / "python"
    assert python.exists(), f"no environment: run 'make .sparks/{minor}/.installed'"
    given = {k: v for k, v in os.environ.items() if not k.startswith(OF_THIS_RUN)}
    given["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    words = ["-p", "no:cacheprovider", "--quiet", "--basetemp", str(tmp_path / "its")]
    words += [f"{MODULE}::{name}" for name in SHARE]
    done = subprocess.run(
        [str(python), "-m", "pytest", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        cwd=ROOT,
        env=given,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert f"{len(SHARE)} passed" in done.stdout
