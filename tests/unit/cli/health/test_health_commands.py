"""``tidelake doctor table``: what it prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main


@pytest.fixture
def table(tmp_path):
    made = tidelake.open(tmp_path).create_table("db.t", pa.schema({"n": pa.int64()}))
    for n in range(6):
        made.write([{"n": n}])
    return made


@pytest.fixture
def run(tmp_path, capsys):
    def run(*words):
        code = main([*words, "-w", str(tmp_path)])
        return code, *capsys.readouterr()

    return run


def test_the_doctor_prints_findings_and_what_mends_them(table, run):
    code, out, _ = run("doctor", "table", "db.t", "--orphans")
    assert code == 0
    assert out.startswith("warning: small_files. Each read opens every one of them")
    call = "tidelake sql --no-spark -c \"CALL sys.compact(table => 'db.t'"
    assert f"  run: table.compact()\n  then: files_count 6 -> 1\n  or: {call}" in out
    assert out.endswith("db.t: 1 finding\n")
    _, out, _ = run("doctor", "table", "t", "-d", "db", "--json")
    found = json.loads(out)
    assert [one["kind"] for one in found["findings"]] == ["small_files"]
    assert found["figures"]["files_count"] == 6
    table.compact()
    assert run("doctor", "table", "db.t")[1] == "db.t: 0 findings\n"


def test_fsck_and_repair_print_what_is_wrong_and_what_mends_it(table, run):
    assert run("fsck", "db.t", "--data")[:2] == (0, "db.t: 0 problems in 6 files\n")
    table.compact()
    newest = table.system_table("files").to_arrow()["file_path"][0].as_py()
    Path(newest).unlink()
    code, out, _ = run("fsck", "t", "-d", "db")
    assert code == 1
    assert out.startswith("data_file: the file is not there")
    code, out, _ = run("repair", "db.t", "--plan")
    assert code == 1
    assert (
        "3. Or go back to snapshot 6, the newest one that is whole.\n  run: table.rollback_to(6)"
        in out
    )
    _, out, _ = run("repair", "db.t", "--plan", "--json")
    found = json.loads(out)
    assert [problem["snapshots"] for problem in found["problems"]] == [[7]]
    assert found["steps"][2]["python"] == "table.rollback_to(6)"
    assert "give --plan" in run("repair", "db.t")[2]


def test_what_is_wrong_is_said(table, run):
    assert "needs the table" in run("doctor", "table")[2]
    assert "takes no table" in run("doctor", "storage", "db.t")[2]
    assert "from 1 on, not '0'" in run("doctor", "table", "db.t", "--parallelism", "0")[2]
    assert "is a system table" in run("doctor", "table", "db.t$files")[2]
    code, _, err = run("doctor", "table", "db.x")
    assert (code, err[:6]) == (1, "error:")
