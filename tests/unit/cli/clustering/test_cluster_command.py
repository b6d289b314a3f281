"""``tidelake cluster``: what it shows, does and refuses."""

from __future__ import annotations

import json

import pytest

import tidelake
from tidelake.cli.main import main

COLUMNS = {"day": "STRING", "a": "INT", "b": "INT"}


@pytest.fixture
def table(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", COLUMNS, partition_keys=["day"])
    for a in (3, 1, 2):
        table.write([{"day": day, "a": a, "b": -a} for day in ("x", "y")])
    return table


@pytest.fixture
def cluster(tmp_path, table):
    return lambda *words: main(["cluster", "-w", str(tmp_path), "db.t", *words])


def test_a_dry_run_shows_each_partition_and_changes_nothing(cluster, table, capsys):
    words = ("--order-strategy", "order", "--order-by", "a, b", "--where", "day = 'x'")
    assert cluster(*words, "--dry-run", "--json") == 0
    (facts,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert facts["bytes"] > 0
    del facts["bytes"]
    assert facts == {"table": "db.t", "partition": "day=x", "files": 3, "level": 0}
    assert table.latest_snapshot_id == 3


def test_rows_are_sorted(cluster, table, capsys):
    assert cluster("--order-strategy", "auto", "--order-by", "a") == 0
    assert capsys.readouterr().out.startswith("table db.t, snapshots [4], files 2, bytes ")
    found = table.to_arrow(where="day = 'y'")["a"].to_pylist()
    assert found == [1, 2, 3]


def test_without_an_order_the_options_say_what_is_due(cluster, table, capsys):
    assert cluster("--dry-run") == 1
    assert "give --order-strategy" in capsys.readouterr().err
    table.set_options({"clustering.columns": "a", "clustering.incremental": "true"})
    assert cluster("--dry-run", "--full") == 0
    assert capsys.readouterr().out.count("level 5") == 2
    assert cluster("--full") == 0
    assert "files 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--order-by", "a"), 2, "--order-by needs --order-strategy"),
        (("--order-strategy", "zodrer"), 2, "zorder"),
        (("--order-strategy", "order", "--order-by", "c"), 1, "no column 'c'"),
        (("--order-strategy", "order"), 1, "No columns to cluster"),
    ],
)
def test_wrong_words_are_refused(cluster, table, capsys, words, code, says):
    assert cluster(*words) == code
    assert says in capsys.readouterr().err
    assert table.latest_snapshot_id == 3
