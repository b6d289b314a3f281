"""dbt: the project of examples/dbt by its stock adapter, in an environment of its own.

``make test`` makes it (``.venv-dbt``): dbt asks for other versions of some packages.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from sizes import SIZE

from tidelake.spark.sessions.java_runtime import java_home

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-dbt" / "bin" / "python"
MODELS = 12
pytestmark = pytest.mark.timeout(3_000)  # the first test waits for all steps


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What each step of dbt_program.py gave."""
    assert PYTHON.exists(), "dbt has no environment: run 'make .venv-dbt/.installed'"
    given = dict(os.environ, JAVA_HOME=str(java_home()), PYTHONPATH=str(ROOT / "tests"))
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"):
        given.pop(name, None)
    done = subprocess.run(
        [
            str(PYTHON),
            str(Path(__file__).with_name("dbt_program.py")),
            str(tmp_path_factory.mktemp("dbt")),
            str(SIZE.dbt_days),
        ],
        capture_output=True,
        text=True,
        timeout=3_000,
        check=False,
        env=given,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("step", ["deps", "first", "again", "changed", "refreshed", "docs"])
def test_every_step_and_its_data_tests_are_green(seen, step):
    assert seen[step] == []


def test_a_second_run_over_the_same_rows_changes_nothing(seen):
    assert seen["same"] == []


def test_the_changes_reach_the_models(seen):
    assert seen["change"]["gone"] == 1
    assert seen["change"]["late"] > 0
    counts = seen["counts"]
    assert len(counts) == MODELS
    for name in ("stg_flights", "fct_flights", "fct_cancellations", "daily_by_origin"):
        before, after = counts[name]
        assert 0 < before < after, name


def test_incremental_models_hold_what_a_full_refresh_gives(seen):
    assert seen["unequal"] == []


def test_a_snapshot_keeps_the_versions_that_a_list_in_python_does(seen):
    kept, expected = seen["history"]
    assert kept == expected
    assert sum("False" in version for version in kept) == seen["change"]["rebuilt"] + 1
    assert seen["gaps"] == []


def test_the_docs_describe_every_model(seen):
    assert seen["described"]["fct_flights"] == [
        "day", "carrier", "flight", "origin", "dest", "tailnum", "fate", "dep_delay", "arr_delay",
        "airline",
    ]  # fmt: skip
    assert {*seen["counts"], "airlines", "planes_history"} <= set(seen["described"])


def test_seeds_keep_quotes_nulls_and_long_numbers_and_take_options(seen):
    rows = [
        "{'k': 1, 'words': \"O'Hare\", 'day': datetime.date(2026, 1, 1), 'share': 1.5}",
        "{'k': 2, 'words': None, 'day': datetime.date(2026, 1, 2), 'share': None}",
        "{'k': 9007199254740993, 'words': 'a\\\\b\"c%s', 'day': None, 'share': 2.0}",
    ]
    assert seen["odd"][0] == seen["odd"][2] == rows


def test_a_model_in_capitals_gets_and_loses_columns(seen):
    _, before, _, after = seen["odd"]
    assert before == ["{'id': 0, 'gone': 1}", "{'id': 1, 'gone': 1}"]
    assert after == [
        "{'id': 0, 'thrice': 0}",
        "{'id': 0, 'thrice': None}",
        "{'id': 1, 'thrice': 3}",
        "{'id': 1, 'thrice': None}",
    ]


def test_a_view_is_refused_with_what_to_write(seen):
    (said,) = seen["view"]
    assert "keeps no views of dbt: let air.seen be a 'table' or 'ephemeral'" in said
