"""``tidelake compact``: once, again and again, what it shows, and how it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64()})
OPTIONS = {"bucket": 1, "write-only": True}


@pytest.fixture
def warehouse(tmp_path):
    catalog = tidelake.open(tmp_path)
    for name in ("db.t", "db.u"):
        table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options=OPTIONS)
        for v in range(6):
            table.write([{"k": 1, "v": v}])
    return tmp_path


def compact(warehouse, *words):
    return main(["compact", "-w", str(warehouse), *words])


def files_count(warehouse, name):
    return tidelake.open(warehouse).table(name).system_table("files").to_arrow().num_rows


def test_tables_are_compacted_once(warehouse, capsys):
    assert compact(warehouse, "t", "-d", "db") == 0
    assert capsys.readouterr().out.startswith("db.t: 1 file written, ")
    assert (files_count(warehouse, "db.t"), files_count(warehouse, "db.u")) == (1, 6)
    assert compact(warehouse, "db.*", "--full", "--json") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["table"], first["snapshots"]) == ("db.t", [])
    assert (second["table"], second["snapshots"], second["files"]) == ("db.u", [7], 1)


def test_a_dry_run_shows_what_is_due(warehouse, capsys):
    assert compact(warehouse, "db.*", "--dry-run") == 0
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "db.t: compaction (1 compactions",
        "db.u: compaction (1 compactions",
    ]
    assert compact(warehouse, "db.t", "--once", "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["table"], plan["tasks"][0]["figures"]["compactions"]) == ("db.t", 1)
    assert files_count(warehouse, "db.t") == 6


def test_a_round_does_what_is_due_and_a_table_that_fails_is_told(warehouse, capsys):
    (warehouse / "db.db" / "u" / "schema" / "schema-0").write_bytes(b"{")
    assert compact(warehouse, "db.*", "--once", "--json") == 1
    lines = {one["table"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert lines["db.t"]["tasks"][0]["task"] == "compaction"
    assert "schema-0" in lines["db.u"]["error"]
    assert files_count(warehouse, "db.t") == 1


def test_options_are_those_of_this_command(warehouse, capsys):
    assert compact(warehouse, "db.*", "--once", "-o", "maintenance.tasks=none") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["db.t", "--watch", "--once"], "--watch and --once do not go together"),
        (["db.t", "--full", "--dry-run"], "--full"),
        (["db.t", "--master", "local[1]"], "--on spark"),
        (["db.t", "--interval", "0"], "above 0"),
        ([], "TABLE"),
    ],
)
def test_words_that_contradict_are_refused(warehouse, capsys, words, said):
    assert compact(warehouse, *words) == 2
    assert said in capsys.readouterr().err


def test_a_table_that_is_not_there_is_an_error(warehouse, capsys):
    assert compact(warehouse, "db.v", "--once") == 1
    assert "'v' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_gives_the_tables_back(warehouse, number, code):
    words = ["compact", "-w", str(warehouse), "db.*", "--watch", "--interval", "0.1", "--json"]
    words += ["--metrics-port", "0"]
    program = f"import sys; from tidelake.cli.main import main; sys.exit(main({words!r}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as running:
        assert json.loads(running.stdout.readline())["round"] == 1
        table = tidelake.open(warehouse).table("db.t")
        for v in range(3):
            table.write([{"k": 2, "v": v}])
        while json.loads(running.stdout.readline())["table"] != "db.t":
            pass
        address = running.stderr.readline().removeprefix("Metrics: ").strip()
        with urllib.request.urlopen(address, timeout=60) as answer:
            told = answer.read().decode()
        assert re.search(r'tidelake_maintenance_tasks_total{[^}]*table="db.t"[^}]*} ', told)
        assert 'tidelake_commit_seconds_count{kind="COMPACT",table="db.t"}' in told
        running.send_signal(number)
        assert running.wait(60) == code
        assert "Traceback" not in running.stderr.read()
    claims = list((warehouse / "db.db" / "t" / "upkeep").iterdir())
    assert all(json.loads(claim.read_text())["isClosed"] for claim in claims), claims
    assert sorted(r["v"] for r in table.to_arrow().to_pylist()) == [2, 5]


def test_metrics_are_of_a_job_that_goes_on(tmp_path, capsys):
    code = main(["compact", "db.t", "-w", str(tmp_path), "--once", "--metrics-port", "0"])
    assert code == 2
    assert "--metrics-port is of a job that goes on: give --watch too" in capsys.readouterr().err
