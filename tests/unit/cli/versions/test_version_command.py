"""``tidelake tag``, ``branch`` and ``rollback``: what they do and refuse."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.main import main


@pytest.fixture
def table(tmp_path):
    made = tidelake.open(tmp_path).create_table("db.t", pa.schema({"k": pa.int64()}))
    for number in range(3):
        made.write([{"k": number}])
    return made


@pytest.fixture
def act(tmp_path, capsys):
    def run(*words, code=0):
        assert main([words[0], "-w", str(tmp_path), *words[1:]]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return run


def test_tags_come_change_and_go(table, act):
    assert act("tag", "create", "db.t", "a", "--snapshot", "2") == "created a, snapshot 2\n"
    act("tag", "create", "db.t", "b", "--time-retained", "7 d")
    assert json.loads(act("tag", "rename", "db.t", "a", "c", "--format", "json")) == {
        "renamed": "a",
        "to": "c",
    }
    listed = act("tag", "list", "t", "-d", "db", "--format", "json").splitlines()
    assert [json.loads(one)["tag_name"] for one in listed] == ["b", "c"]
    assert act("tag", "delete", "db.t", "c") == "deleted c\n"
    assert [one.name for one in table.tags] == ["b"]


def test_a_branch_is_written_published_and_deleted(table, act, tmp_path):
    assert act("branch", "create", "db.t", "audit", "--snapshot", "3") == "created audit\n"
    table.branch("audit").write([{"k": 9}])
    assert act("branch", "list", "db.t").count("audit") == 1
    shown = json.loads(act("branch", "fast-forward", "db.t", "audit", "--dry-run", "--format=json"))
    assert shown == {"snapshot": 4, "dry_run": True, "removed_snapshots": [], "removed_tags": []}
    assert table.count() == 3
    act("branch", "fast-forward", "db.t", "audit")
    act("branch", "rename", "db.t", "audit", "done")
    assert act("branch", "delete", "db.t", "done") == "deleted done\n"
    rows = tidelake.open(tmp_path).table("db.t").to_arrow()["k"].to_pylist()
    assert sorted(rows) == [0, 1, 2, 9]


def test_a_rollback_is_shown_and_done(table, act, tmp_path):
    shown = act("rollback", "db.t", "--snapshot", "1", "--dry-run")
    assert shown == "snapshot 1, dry_run True, removed_snapshots 2, 3, removed_tags none\n"
    table.tags.create("two", snapshot_id=2)
    found = json.loads(act("rollback", "db.t", "--tag", "two", "--json"))
    assert (found["snapshot"], found["removed_snapshots"]) == (2, [3])
    assert tidelake.open(tmp_path).table("db.t").count() == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("rollback", "db.t"), 2, "one of --snapshot, --tag and --at"),
        (("rollback", "db.t", "--snapshot", "1", "--tag", "a"), 2, "one of --snapshot"),
        (("rollback", "db.t", "--snapshot", "9"), 1, "9"),
        (("rollback", "db.t", "--at", "2024-01-01"), 1, "time zone"),
        (("tag", "create", "db.t"), 2, "takes a name behind the table"),
        (("tag", "rename", "db.t", "a"), 2, "takes a name and a new name"),
        (("tag", "list", "db.t", "a"), 2, "takes no name"),
        (("tag", "delete", "db.t", "a", "--snapshot", "1"), 2, "--snapshot is not of tag delete"),
        (("tag", "creat", "db.t", "a"), 2, "Did you mean 'create'"),
        (("branch", "delete", "db.t", "a"), 1, "no branch 'a'"),
        (("branch", "create", "db.t", "a", "--tag", "x", "--snapshot", "1"), 2, "give one of them"),
        (("branch", "rename", "db.t", "a", "b", "--dry-run"), 2, "--dry-run is not of"),
        (("tag", "list", "db.t$tags"), 1, "is a system table"),
    ],
)
def test_what_makes_no_sense_is_refused(table, act, words, code, says):
    assert says in act(*words, code=code)
