"""Executors as processes of their own: nothing leans on the driver's, and tasks may die."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from proving.fsck import check_table
from sizes import FULL, SIZE

from tidelake.fileio import LocalFileIO

pytestmark = pytest.mark.timeout(1_000)  # the first test waits for all scenarios

ROWS = 4000
SUM_K = sum(range(ROWS))
EVERY_TIME = ("retried", "killed")
MORE = (
    *("plain", "speculated", "source", "moved", "moved_unchecked"),
    *("compacted", "stored", "catalogs"),
)
SCENARIOS = (*EVERY_TIME, *MORE) if SIZE is FULL else EVERY_TIME
AT_FULL_SIZE = pytest.mark.skipif(
    SIZE is not FULL, reason="most lose executors, and wait for others: TIDELAKE_SIZE=full"
)


def scenarios(*names):
    """Run a test for those of the scenarios that run."""
    return pytest.mark.parametrize("name", [name for name in names if name in SCENARIOS])


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the scenarios of cluster_program.py saw."""
    work = tmp_path_factory.mktemp("cluster")
    spark_work = Path(pyspark.__file__).parent / "work"
    before = set(spark_work.iterdir()) if spark_work.exists() else set()
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
        PYSPARK_PYTHON=sys.executable,  # its executors import for themselves
    )
    environment.pop("SPARK_LOCAL_DIRS", None)
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            str(Path(__file__).with_name("cluster_program.py")),
            str(work),
            *SCENARIOS,
        ],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
    )
    # Spark leaves the logs of such a cluster inside its own package
    for left in (set(spark_work.iterdir()) if spark_work.exists() else set()) - before:
        shutil.rmtree(left, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@AT_FULL_SIZE  # those of test_store_on_cluster.py do, too
def test_executors_write_and_merge_without_the_drivers_process(seen):
    changed = sum(2 * k for k in range(ROWS) if k % 4) - ROWS // 4
    assert seen["plain"]["rows"] == [ROWS, SUM_K, changed]
    assert seen["plain"]["snapshots"] == 2


def test_failed_and_retried_tasks_write_every_row_once(seen):
    assert seen["retried"]["rows"] == [ROWS, SUM_K, 2 * SUM_K]
    assert (seen["retried"]["written"], seen["retried"]["snapshots"]) == (ROWS, 1)


@AT_FULL_SIZE
def test_speculative_attempts_write_every_row_once(seen):
    assert seen["speculated"]["rows"] == [ROWS, SUM_K, 2 * SUM_K]
    assert (seen["speculated"]["written"], seen["speculated"]["snapshots"]) == (ROWS, 1)


@scenarios("killed", "stored")
def test_a_killed_executor_loses_and_doubles_nothing(seen, name):
    assert seen[name]["was_killed"]
    assert seen[name]["rows"] == [ROWS, SUM_K, 2 * SUM_K + ROWS]
    assert seen[name]["snapshots"] == 2


@AT_FULL_SIZE
def test_in_an_object_store_too_no_table_refers_to_a_file_that_is_not_there(seen):
    assert seen["stored"]["checked"] == seen["stored"]["live"]


@AT_FULL_SIZE
@pytest.mark.parametrize("name", ["moved", "moved_unchecked"])
def test_what_two_attempts_placed_is_not_mixed_when_an_executor_dies_between_stages(seen, name):
    assert seen[name]["was_killed"]
    assert seen[name]["tries"] == 2
    assert seen[name]["rows"] == [ROWS, SUM_K, 2 * SUM_K + ROWS]
    assert (seen[name]["in_place"], seen[name]["written"]) == (ROWS, ROWS)
    assert seen[name]["snapshots"] == 2


@AT_FULL_SIZE
def test_a_compaction_counts_one_attempt_of_a_task_whose_executor_died(seen):
    found = seen["compacted"]
    assert found["was_killed"]
    assert found["orphans"] > 0  # of the attempt that died with its files written
    assert found["rows"] == [ROWS, SUM_K, 2 * SUM_K + 2 * ROWS]
    assert (found["snapshots"], found["made"], found["dropped"]) == (4, 4, 0)
    assert (found["told"], found["again"]) == (ROWS, 0)


@AT_FULL_SIZE
@pytest.mark.parametrize("kind", ["hive", "glue", "jdbc"])
def test_tables_of_other_catalogs_are_written_read_and_changed_by_executors(seen, kind):
    count = ROWS + ROWS // 2
    sum_k = SUM_K + sum(range(ROWS + 1, 2 * ROWS, 2))
    sum_v = 2 * SUM_K - sum(2 * k for k in range(10)) - 10 + ROWS // 2
    assert seen["catalogs"][kind] == [count, sum_k, sum_v]


@AT_FULL_SIZE
def test_the_data_source_works_from_executors(seen):
    assert seen["source"]["rows"] == [ROWS, SUM_K, 2 * SUM_K]
    assert seen["source"]["count"] == 10


@scenarios(*(name for name in SCENARIOS if name != "stored"))
def test_no_table_refers_to_a_file_of_an_attempt_that_did_not_count(seen, name):
    location = f"{seen['warehouse']}/db.db/{name}"
    assert check_table(LocalFileIO(), location) == seen[name]["live"]
