"""``tidelake expire``: what it shows, does and refuses."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main


@pytest.fixture
def table(tmp_path):
    columns = pa.schema({"day": pa.string(), "k": pa.int64()})
    made = tidelake.open(tmp_path).create_table("db.t", columns, partition_keys=["day"])
    made.write([{"day": "2024-01-31", "k": 1}, {"day": "9999-01-01", "k": 2}, {"day": "x", "k": 3}])
    return made


@pytest.fixture
def expire(tmp_path):
    return lambda *words: main(["expire", "-w", str(tmp_path), *words])


def test_partitions_are_shown_and_then_dropped(table, expire, capsys):
    words = ("partitions", "db.t", "--expiration-time", "7 d")
    assert expire(*words, "--dry-run") == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "partition day=2024-01-31, time 2024-01-31 00:00:00, rows 1, files 1",
        "1 partition would be removed",
    ]
    assert said.err == "stays, its values say no time: day=x\n"
    assert expire("partitions", "t", "-d", "db", "--expiration-time", "7 d", "--json") == 0
    assert json.loads(capsys.readouterr().out)["partition"] == "day=2024-01-31"
    assert sorted(table.to_arrow()["k"].to_pylist()) == [2, 3]


def test_tags_and_snapshots_are_removed(table, expire, capsys):
    table.tags.create("old")
    assert expire("tags", "db.t", "--older-than", "9999-01-01T00:00Z") == 0
    assert capsys.readouterr().out.splitlines() == ["tag old", "1 tag removed"]
    assert expire("snapshots", "db.t") == 0
    assert capsys.readouterr().out == "0 snapshots removed\n"


def test_readers_that_snapshots_stay_for_are_named(table, expire, capsys):
    for number in range(3):
        table.write([{"day": "9999-01-01", "k": number}])
    table.set_options({"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1})
    stream = table.stream(start=2, consumer_id="reader")
    next(stream)
    assert expire("snapshots", "db.t", "--dry-run") == 0
    stream.close()
    said = capsys.readouterr()
    assert said.err.startswith("held by reader from snapshot 2 on, heard of")
    assert said.out.splitlines()[-1] == "1 snapshot would be removed"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("partitions", "db.t"), 1, "no expiration time"),
        (("partitions", "db.t", "--older-than", "2024-01-01Z"), 2, "give --expiration-time"),
        (("tags", "db.t", "--expiration-time", "7 d"), 2, "give --older-than"),
        (("tags", "db.t", "--older-than", "2024-01-01"), 1, "has no time zone"),
        (("partition", "db.t"), 2, "Did you mean"),
        (("tags", "db.t$tags"), 1, "is a system table"),
    ],
)
def test_what_makes_no_sense_is_refused(table, expire, capsys, words, code, says):
    assert expire(*words) == code
    assert says in capsys.readouterr().err
