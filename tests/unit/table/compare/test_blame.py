"""The commits that changed a key, against its row at each snapshot."""

from __future__ import annotations

import random

import pytest
from unit.table.compare.histories import HISTORIES_COUNT, KINDS, made, step

from tidelake import InvalidInputError
from tidelake.table.compare import blame


def rows_of_key(table, key):
    """Its row at each snapshot."""
    where = " and ".join(f"{name} = {value}" for name, value in key.items())
    for number in table.history()["snapshot_id"].to_pylist():
        rows = table.to_arrow(snapshot_id=number, where=where).to_pylist()
        yield number, rows[0] if rows else None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("append")])
def test_each_commit_that_changed_the_row_is_named_and_no_other(catalog, kind):
    for seed in range(HISTORIES_COUNT):
        rng = random.Random(f"{kind} {seed}")
        table = made(catalog, kind, f"db.t{seed}")
        for _ in range(8):
            step(table, kind, rng)
        for k in rng.sample(range(40), 4):
            key = {"k": k} if kind == "moving" else {"p": k % 2, "k": k}
            last, expected = None, []
            for number, row in rows_of_key(table, key):
                if row != last:
                    expected.append((number, last, row))
                last = row
            found = [(c.snapshot_id, c.before, c.after) for c in table.blame(key)]
            assert found == expected, (seed, k)


def test_a_change_says_who_made_it_and_in_which_columns(catalog):
    table = made(catalog, "deduplicate")
    table.write([{"p": 0, "k": 1, "a": 1, "b": "x"}], commit_user="ann", commit_identifier=1)
    table.write([{"p": 1, "k": 2, "a": 1, "b": "x"}])
    table.write([{"p": 0, "k": 1, "a": 2, "b": "x"}], commit_user="bob", commit_identifier=1)
    table.compact(full=True)
    table.write([{"p": 0, "k": 1, "a": 0, "b": ""}], row_kinds=["-D"])
    changes = table.blame((0, 1))
    assert [(c.change, c.columns) for c in changes] == [
        ("added", ()),
        ("changed", ("a",)),
        ("removed", ()),
    ]
    assert [c.commit_user for c in changes[:2]] == ["ann", "bob"]
    assert {c.commit_kind for c in changes} == {"APPEND"}
    assert table.blame((0, 77)) == ()


def test_only_snapshots_that_may_have_changed_it_are_read(catalog, monkeypatch):
    table = made(catalog, "deduplicate", bucket="1", **{"write-only": "true"})
    for k in range(10):
        table.write([{"p": 0, "k": 100 * k + n, "a": n, "b": "x"} for n in range(3)])
    read = []
    row = blame._Search.row
    monkeypatch.setattr(blame._Search, "row", lambda own, at: (read.append(at.id), row(own, at))[1])
    assert [c.snapshot_id for c in table.blame((0, 501))] == [6]
    assert read == [1, 6], "the first one, and that of the key"


def test_a_row_of_the_oldest_snapshot_may_be_older(catalog):
    table = made(catalog, "deduplicate")
    for a in range(4):
        table.write([{"p": 0, "k": 1, "a": a // 2, "b": "x"}])
    table.maintenance.expire_snapshots(retain_max=3, retain_min=1)
    (older, later) = table.blame((0, 1))
    assert (older.change, older.snapshot_id, older.before) == ("older", 2, None)
    assert (later.change, later.snapshot_id) == ("changed", 3)


def test_a_table_without_a_key_is_refused(catalog):
    with pytest.raises(InvalidInputError, match="no primary key"):
        made(catalog, "append").blame(1)
    with pytest.raises(InvalidInputError):
        made(catalog, "deduplicate", "db.keyed").blame("x")
