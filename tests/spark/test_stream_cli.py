"""Streams on the command line: a SELECT is printed as it comes, a file runs until its jobs end."""

import json
from datetime import UTC, datetime

import pytest

import tidelake
from tidelake.cli.main import main

SET = "SET 'execution.runtime-mode' = 'streaming';"


AT_MS = int(datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timestamp() * 1000)
BOUNDED = (
    "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1',"
    f" 'scan.bounded.watermark' = '{AT_MS}') */"
)


@pytest.fixture
def copied(lake, tmp_path):
    """A table whose snapshots have watermarks: minutes 1, 20 and 40, less five seconds."""
    lake.sql(
        "CREATE TABLE clicks (k INT, at TIMESTAMP(3),"
        " WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('bucket' = '-1')"
    )
    lake.sql("CREATE TABLE copy (k INT, at TIMESTAMP(3)) WITH ('bucket' = '-1')")
    query = lake.write_stream(
        lake.read_stream("default.clicks"), "default.copy", checkpoint=tmp_path / "copying"
    )
    for minute in (1, 20, 40):
        lake.sql(f"INSERT INTO clicks VALUES ({minute}, TIMESTAMP_NTZ '2026-01-01 00:{minute}:00')")
        query.processAllAvailable()
    query.stop()
    return str(lake.catalog.warehouse)


def test_a_select_prints_each_change_with_its_kind(copied, capsys):
    text = f"{SET} SELECT k FROM copy {BOUNDED}"
    assert main(["sql", "-w", copied, "--format", "json", "-c", text]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown == [{"op": "+I", "k": 1}, {"op": "+I", "k": 20}]
    assert main(["sql", "-w", copied, "--timing", "-c", text]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "op │ k"
    assert "(2 rows" in printed.err


def test_a_file_runs_until_its_jobs_end_and_goes_on_when_it_is_started_again(
    copied, tmp_path, capsys
):
    file = tmp_path / "job.sql"
    file.write_text(
        f"{SET} SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}';"
        " CREATE TABLE IF NOT EXISTS t (k INT) WITH ('bucket' = '-1');"
        f" INSERT INTO t SELECT k FROM copy {BOUNDED};",
        encoding="utf-8",
    )
    for _ in range(2):
        assert main(["sql", "-w", copied, "--format", "json", "-f", str(file)]) == 0
        printed = capsys.readouterr()
        started = json.loads(printed.out.splitlines()[-1])
        assert started["job name"] == "default.t"
        told = [line for line in printed.err.splitlines() if started["job id"] in line]
        assert told == [
            f"Started: default.t ({started['job id']}).",
            f"Ended: default.t ({started['job id']}), FINISHED.",
        ]
        table = tidelake.open(copied).table("default.t")
        assert sorted(table.to_arrow()["k"].to_pylist()) == [1, 20]


def test_a_file_whose_job_fails_ends_with_its_reason(copied, tmp_path, capsys):
    text = (
        f"{SET} SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}';"
        " CREATE TABLE t (k INT) WITH ('bucket' = '-1');"
        " INSERT INTO t SELECT CAST(assert_true(k < 5, 'too large') AS INT) FROM copy"
    )
    assert main(["sql", "-w", copied, "-c", text]) == 1
    printed = capsys.readouterr()
    assert "error: " in printed.err
    assert "too large" in printed.err
    assert "), FAILED." in printed.err
    assert "at org.apache" not in printed.err
