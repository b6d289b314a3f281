"""``tidelake orphans``: what it shows, does and refuses."""

from __future__ import annotations

import datetime as dt
import json
import os
import time

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main

LEFT = "bucket-0/data-of-a-writer-that-was-killed.parquet"


@pytest.fixture
def warehouse(tmp_path):
    catalog = tidelake.open(tmp_path)
    for name in ("db.t", "db.u"):
        catalog.create_table(name, pa.schema({"k": pa.int64()})).write([{"k": 1}])
    path = tmp_path / "db.db" / "t" / LEFT
    path.write_bytes(b"half a file")
    os.utime(path, (0, 0))
    return tmp_path


def orphans(warehouse, *words):
    return main(["orphans", "-w", str(warehouse), *words])


def test_a_file_is_found_and_removed_by_a_later_run(warehouse, capsys):
    assert orphans(warehouse, "db.*", "--dry-run") == 0
    assert capsys.readouterr().out.splitlines() == [
        "db.t: 0 files (0 bytes) would be removed, 1 (11 bytes) would be put into quarantine,"
        " 0 waiting there",
        "db.u: 0 files (0 bytes) would be removed, 0 (0 bytes) would be put into quarantine,"
        " 0 waiting there",
    ]
    assert orphans(warehouse, "t", "-d", "db") == 0
    capsys.readouterr()
    assert orphans(warehouse, "db.t", "--list") == 0
    assert capsys.readouterr().out == f"          11  {LEFT}\n"
    time.sleep(0.05)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    time.sleep(0.05)
    assert orphans(warehouse, "db.t", "--older-than", now, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["removed_count"], found["files"][0]["path"]) == (1, LEFT)
    assert not (warehouse / "db.db" / "t" / LEFT).exists()


def test_a_file_is_taken_out_of_quarantine(warehouse, capsys):
    orphans(warehouse, "db.t")
    capsys.readouterr()
    assert orphans(warehouse, "db.t", "--undelete", LEFT) == 0
    assert capsys.readouterr().out == f"kept {LEFT}\n"
    assert orphans(warehouse, "db.t", "--list", "--json") == 0
    assert capsys.readouterr().out == ""
    assert orphans(warehouse, "db.t", "--undelete", LEFT) == 1
    assert "is not in the quarantine" in capsys.readouterr().err


def test_the_table_of_a_branch_is_searched(warehouse, capsys):
    tidelake.open(warehouse).table("db.t").branches.create("b")
    assert orphans(warehouse, "db.t$branch_b", "--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["table"], found["quarantined_count"]) == ("db.t", 1)


def test_a_table_that_cannot_be_searched_is_an_error(warehouse, capsys):
    (warehouse / "db.db" / "u" / "snapshot" / "snapshot-1").write_text("{")
    assert orphans(warehouse, "db.*") == 1
    shown = capsys.readouterr()
    assert "error: db.u:" in shown.err
    assert shown.out.startswith("db.t:")
    assert orphans(warehouse, "db.v") == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("db.*", "--list"), "take one table"),
        (("db.t", "--list", "--dry-run"), "one at a time"),
        (("db.t", "--parallelism", "0"), "from 1 on"),
        (("db.t", "--older", "1"), "--older-than"),
    ],
)
def test_words_that_do_not_fit_are_refused(warehouse, capsys, words, message):
    assert orphans(warehouse, *words) == 2
    assert message in capsys.readouterr().err
