"""``tidelake diff``, ``blame`` and ``bisect``: what they print and refuse."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main


@pytest.fixture
def table(tmp_path):
    columns = pa.schema({"k": pa.int64(), "v": pa.string(), "n": pa.int64()})
    made = tidelake.open(tmp_path).create_table("db.t", columns, primary_keys=["k"])
    made.write([{"k": k, "v": "a", "n": k} for k in range(3)])
    made.write([{"k": 1, "v": "b", "n": 1}, {"k": 7, "v": "c", "n": -7}])
    made.write([{"k": 2, "v": "", "n": 0}], row_kinds=["-D"])
    return made


@pytest.fixture
def run(tmp_path, capsys):
    def run(*words):
        code = main([words[0], "-w", str(tmp_path), *words[1:]])
        return code, *capsys.readouterr()

    return run


def test_a_diff_has_a_line_for_each_row(table, run):
    code, out, err = run("diff", "db.t", "1")
    assert code == 0
    assert sorted(out.splitlines()) == [
        '+ k=7 v: "c", n: -7',
        '- k=2 v: "a", n: 2',
        '~ k=1 v: "a" -> "b"',
    ]
    assert err.endswith("compared, 1 file shared\n")
    table.tags.create("v2", snapshot_id=3)
    _, out, _ = run("diff", "t", "-d", "db", "1", "v2", "--json")
    assert {
        "change": "added",
        "k": 7,
        "before": None,
        "after": {"v": "c", "n": -7},
        "columns": [],
    } in [json.loads(line) for line in out.splitlines()]
    _, out, _ = run("diff", "db.t", "3", "1", "--counts", "--json")
    assert json.loads(out) == {"added": 1, "removed": 1, "changed": 1, "columns": {"v": 1}}
    assert run("diff", "db.t", "1", "--counts")[1] == "1 added, 1 removed, 1 changed (v 1)\n"


def test_blame_has_a_line_for_each_commit(table, run):
    code, out, _ = run("blame", "db.t", "1")
    first, second = out.splitlines()
    assert (code, first.startswith("snapshot 1, ")) == (0, True)
    assert second.endswith(": changed v: 'a' -> 'b'")
    _, out, _ = run("blame", "db.t", "2", "--json")
    assert [json.loads(line)["change"] for line in out.splitlines()] == ["added", "removed"]
    code, out, err = run("blame", "db.t", "99")
    assert (code, out, err) == (0, "", "No snapshot has a row of this key.\n")


def test_bisect_names_the_first_snapshot(table, run):
    code, out, err = run("bisect", "db.t", "--where", "n >= 0")
    assert (code, out) == (0, "fails from snapshot 2\n")
    assert err == "snapshot 3: fails\nsnapshot 1: holds\nsnapshot 2: fails\n"
    assert run("bisect", "db.t", "--where", "k >= 0")[1] == "holds at snapshot 3\n"
    _, out, _ = run("bisect", "db.t", "--where", "n >= 0", "--good", "1", "--bad", "2", "--json")
    assert json.loads(out)["first_bad"] == 2


def test_what_is_wrong_is_said(table, run):
    code, _, err = run("diff", "db.t", "9")
    assert (code, "no snapshot 9" in err) == (1, True)
    assert "compares two versions, and 3 are given" in run("diff", "db.t", "1", "2", "3")[2]
    assert run("bisect", "db.t")[0] == 2
    assert "is a system table" in run("blame", "db.t$files", "1")[2]
    assert "is no key for column 'k'" in run("blame", "db.t", "x")[2]
    assert run("bisect", "db.t", "--where", "zz > 1")[0] == 1
