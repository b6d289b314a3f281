"""A commit through a server that fails in every way, while another writer commits between.

The failing writer adds two files and compacts them with an older one, so it sends two snapshots. A
rival commits right before each of them, or not. Whatever happens, then:

- what was acknowledged is in every later snapshot, once;
- a commit is wholly there or not at all, in every snapshot;
- no (user, identifier, kind) has two snapshots, also after the writer's successor tried again;
- a plain StorageError or ConflictError means that nothing of the commit is visible;
- every manifest that a snapshot names is there.
"""

from __future__ import annotations

import itertools

import pytest
from unit.catalog.rest.rest_world import ServedWorld, client_of
from unit.commit.commit_world import EMPTY_ROW, data_file, message

from tidelake.catalog.rest import server_commit
from tidelake.commit.snapshot_commit import Outcome
from tidelake.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    StorageRefusedError,
    TidelakeError,
)

OLD = data_file("old", keys=(1, 9), sequences=(0, 9))
NEW = tuple(data_file(f"new{i}", keys=(1, 9), sequences=(20 + i, 20 + i)) for i in range(2))
OUT = data_file("out", keys=(1, 9), level=5, rows=30, sequences=(0, 21))
MESSAGES = [message(*NEW, before=[OLD, *NEW], after=[OUT])]
MINE = {f.file_name for f in NEW}

NO_SUCCESS = {"status": 200, "body": b'{"success": false}'}
FAULTS = {
    "500": {"mode": "status"},
    "503 and no word": {"mode": "status", "status": 503, "body": b"busy"},
    "429": {"mode": "status", "status": 429},
    "429 for good": {"mode": "status", "status": 429, "count": 99},
    "400": {"mode": "status", "status": 400, "body": b'{"message": "no", "code": 400}'},
    "401": {"mode": "status", "status": 401},
    "403": {"mode": "status", "status": 403},
    "404 of a gateway": {"mode": "status", "status": 404, "body": b"<html>"},
    "409": {"mode": "status", "status": 409},
    "302": {"mode": "status", "status": 302},
    "501": {"mode": "status", "status": 501},
    "500 after the effect": {"mode": "status_after"},
    "502 after the effect": {"mode": "status_after", "status": 502, "body": b"<html>"},
    "409 after the effect": {"mode": "status_after", "status": 409},
    "400 after the effect": {"mode": "status_after", "status": 400},
    "408 after the effect": {"mode": "status_after", "status": 408, "body": b"<html>"},
    "501 after the effect": {"mode": "status_after", "status": 501},
    "401 after the effect": {"mode": "status_after", "status": 401},
    "403 after the effect": {"mode": "status_after", "status": 403},
    "429 after the effect": {"mode": "status_after", "status": 429},
    "429 for good after the effect": {"mode": "status_after", "status": 429, "count": 99},
    "413 after the effect": {"mode": "status_after", "status": 413, "body": b"<html>"},
    "lost before": {"mode": "drop"},
    "lost after": {"mode": "lost"},
    "sent twice": {"mode": "dup"},
    "late by 1": {"mode": "defer", "after": 1},
    "late by 3": {"mode": "defer", "after": 3},
    "late by 6": {"mode": "defer", "after": 6},
    "late by 9": {"mode": "defer", "after": 9},
    "no success": {"mode": "status", **NO_SUCCESS},
    "no success, late by 2": {"mode": "status_later", "after": 2, **NO_SUCCESS},
    "no success, late by 6": {"mode": "status_later", "after": 6, **NO_SUCCESS},
    "a page": {"mode": "html"},
    "a page after the effect": {"mode": "html_after"},
    "half an answer": {"mode": "cut"},
}


def run(fault, *, nth, rivals, deaf=0, **server):
    """One run; the world, and how the writer's commit ended.

    Of the reads of the newest snapshot, all from number `deaf` on fail.
    """
    world = ServedWorld(**server)
    world.served(90, fails=False).commit([message(OLD)], user="first", identifier=1)
    world.server.fault(fault["mode"], "POST", "/commit", nth=nth, **_more(fault))
    if deaf:
        world.server.fault("status", "GET", "/snapshot", nth=deaf, count=10_000)
    numbers = iter(range(1, rivals + 1))

    def rival():
        number = next(numbers, None)
        if number is not None:
            new = data_file(f"rival{number}", keys=(100 * number, 100 * number + 9))
            world.served(100 + number, fails=False).commit(
                [message(new, place=(EMPTY_ROW, 1))], user="rival", identifier=number
            )

    try:
        world.served(1, before_commit=rival).commit(MESSAGES, user="w", identifier=5)
    except OutcomeUnknownError:
        return world, "unknown"
    except TidelakeError:
        return world, "refused"
    return world, "acknowledged"


def _more(fault):
    return {key: value for key, value in fault.items() if key != "mode"}


def visible(world, snapshot_id):
    names = world.names(snapshot_id)
    assert names >= MINE or not MINE & names, f"torn: {names}"
    assert not (MINE & names and "out" in names), "rows twice"
    return bool(MINE & names) or "out" in names


def check(world, ended):
    ids = world.log.ids()
    assert ids == list(range(1, len(ids) + 1)), ids
    assert world.entry.newest.id == ids[-1], "the server and the files differ"
    identities = [
        (s.commit_user, s.commit_identifier, s.commit_kind) for s in map(world.log.load, ids)
    ]
    assert len(set(identities)) == len(identities), identities
    assert world.referenced_manifest_files() <= world.manifest_files()
    seen = [visible(world, i) for i in ids]
    assert seen == sorted(seen), f"acknowledged rows vanished again: {seen}"
    if ended == "acknowledged":
        assert seen[-1]
    if ended == "refused":
        assert not any(seen)


@pytest.mark.parametrize("checks_base", [True, False])
@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_of_a_server_loses_or_doubles_a_commit(name, checks_base):
    for nth, rivals, deaf in itertools.product((1, 2), (0, 1), (0, 3)):
        world, ended = run(FAULTS[name], nth=nth, rivals=rivals, deaf=deaf, checks_base=checks_base)
        case = f"fault at {nth}, {rivals} rivals, deaf from {deaf}: {ended}"
        try:
            if ended != "refused":
                world.server.run_deferred()
            check(world, ended)
            # the writer's successor does the same commit again
            world.server._faults.clear()
            world.served(2).commit(MESSAGES, user="w", identifier=5)
            again = world.served(3).commit(MESSAGES, user="w", identifier=5)
            assert again.replayed
            check(world, "acknowledged")
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("500", "acknowledged"),
        ("429", "acknowledged"),
        ("429 for good", "refused"),
        ("403", "refused"),
        ("400", "refused"),
        ("400 after the effect", "acknowledged"),
        ("408 after the effect", "acknowledged"),
        ("409", "acknowledged"),
        ("lost after", "acknowledged"),
        ("sent twice", "acknowledged"),
        ("late by 3", "acknowledged"),
        ("no success", "acknowledged"),
        ("no success, late by 2", "acknowledged"),
        ("a page after the effect", "acknowledged"),
    ],
)
def test_how_a_commit_ends(name, expected):
    assert run(FAULTS[name], nth=1, rivals=0)[1] == expected


def test_a_lost_answer_is_settled_without_sending_the_commit_again():
    world, ended = run(FAULTS["lost after"], nth=1, rivals=0)
    assert ended == "acknowledged"
    sent = [b["snapshot"]["commitKind"] for b in world.server.bodies if b and "snapshot" in b]
    assert sent == ["APPEND", "APPEND", "COMPACT"]  # the first is the older file's


def test_an_outcome_that_cannot_be_read_deletes_nothing():
    world, ended = run(FAULTS["lost after"], nth=1, rivals=0, deaf=2)
    assert ended == "unknown"
    assert world.names() >= MINE
    check(world, "unknown")


def test_a_commit_on_a_base_that_was_rolled_back_is_lost_without_doubt():
    world = ServedWorld()
    for number in (1, 2):
        world.served(number).commit([message(f"f{number}")], user="u", identifier=number)
    before, rolled_back = world.manifest_files(), []

    def roll_back():
        if not rolled_back:
            rolled_back.append(client_of(world.server).roll_back("db", "t", 1))

    committer = world.served(3, before_commit=roll_back)
    with pytest.raises(ConflictError, match="Nothing was committed"):
        committer.commit([message("f3")], user="u", identifier=3)
    assert world.names() == {"f1"}
    assert world.manifest_files() <= before


def test_the_request_names_table_base_and_statistics():
    world = ServedWorld()
    for number in (1, 2):
        new = data_file(f"f{number}", keys=(1, 9), rows=10)
        world.served(number).commit([message(new)], user="u", identifier=number)
    first, second = (b for b in world.server.bodies if b and "tableId" in b)
    assert first["tableId"] == second["tableId"] == world.entry.id
    assert first["baseSnapshotUuid"] is None
    assert second["baseSnapshotUuid"] == first["snapshot"]["uuid"]
    assert second["snapshot"]["uuid"] != first["snapshot"]["uuid"]
    (part,) = second["statistics"]
    assert (part["spec"], part["recordCount"], part["fileCount"]) == ({}, 10, 1)


def test_a_table_that_was_created_again_takes_nothing():
    world = ServedWorld()
    committer = world.served(1)
    world.entry.id = "another"
    with pytest.raises(NotFoundError, match="dropped or renamed"):
        committer.commit([message("f")], user="u", identifier=1)
    assert world.log.ids() == []
    assert world.manifest_files() == set()


def test_a_refusal_says_why_and_leaves_no_manifest():
    world = ServedWorld()
    world.server.fault(
        "status", "POST", "/commit", status=403, body=b'{"message": "read only", "code": 403}'
    )
    with pytest.raises(StorageRefusedError, match="read only"):
        world.served(1).commit([message("f")], user="u", identifier=1)
    assert world.manifest_files() == set()


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("lost answers count as lost races", "lost after"),
        ("a conflict counts as a lost race", "409 after the effect"),
        ("a refused commit is not read back", "sent twice"),
    ],
)
def test_planted_bugs_are_noticed(monkeypatch, planted, name):
    monkeypatch.setattr(server_commit.ServerCommit, "_settled", lambda *_: Outcome.LOST)

    def hunt():
        for nth in (1, 2):
            world, ended = run(FAULTS[name], nth=nth, rivals=0)
            check(world, ended)

    with pytest.raises((AssertionError, NotFoundError)):
        hunt()
