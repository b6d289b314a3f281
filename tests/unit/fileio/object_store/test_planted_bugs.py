"""Bugs that others had, planted: the checks of a put and of a range notice each of them."""

from __future__ import annotations

import pytest
from unit.fileio.object_store.test_file_io import bucket

from tidelake.errors import CorruptError, StorageError
from tidelake.fileio.object_store import file_io, publish

NAME = "/w/t/snapshot/snapshot-1"
TRIES = publish.TRIES_MAX


def check(s3):
    """What a put and a read promise, by the faults that tell it from a guess."""
    files = bucket(s3, **{"s3.retries": "2"})
    files.write_once("/w/first", b"1")
    for mode, more in (
        ("dup", {}),
        ("drop", {}),
        ("lost", {}),
        ("status", {"status": 409, "code": "ConditionalRequestConflict"}),
        ("status_after", {"status": 500, "code": "InternalError"}),
    ):
        s3.forget()
        s3.bucket().delete(NAME[1:])
        s3.fault(mode, "PUT", "snapshot-1", **more)
        assert files.put_if_absent(NAME, b"ours") is True, f"{mode}: ours is there"
        assert s3.bucket().get(NAME[1:]).data == b"ours"
        assert files.put_if_absent(NAME, b"other") is False, "it is not the other's"
        assert s3.bucket().get(NAME[1:]).data == b"ours", "and was not overwritten"
    s3.forget()
    s3.fault("status", "PUT", "snapshot-2", count=99)
    with pytest.raises(StorageError):
        files.put_if_absent("/w/t/snapshot/snapshot-2", b"ours")
    assert s3.count("PUT", "snapshot-2") == TRIES, "each try is sent once"
    s3.forget()
    s3.fault("short", "GET", "first", count=9)
    s3.bucket().put("w/first", b"0123456789", 0)
    with pytest.raises(CorruptError):
        files.read_range("/w/first", 0, 8)


def _conflict_is_a_lost_race(monkeypatch):
    original = publish.ObjectPublisher.is_ours

    def is_ours(self, path, data, mark):
        found = original(self, path, data, mark)
        return False if found is None else found

    monkeypatch.setattr(publish.ObjectPublisher, "is_ours", is_ours)


def _taken_is_a_lost_race(monkeypatch):
    def is_ours(self, path, data, mark):
        return False

    monkeypatch.setattr(publish.ObjectPublisher, "is_ours", is_ours)


def _a_name_is_given_up_while_it_is_absent(monkeypatch):
    monkeypatch.setattr(publish, "TRIES_MAX", 1)


def _put(clients_name, **changed):
    def put(self, path, data, mark, mode):
        obstore = publish._optional.obstore()
        words = {"mode": mode, "attributes": {publish.MARK: mark}, "use_multipart": False}
        try:
            obstore.put(getattr(self.clients, clients_name), path[1:], data, **(words | changed))
        except (obstore.exceptions.BaseError, OSError) as error:
            return error
        return None

    return put


def _no_condition(monkeypatch):
    monkeypatch.setattr(publish.ObjectPublisher, "_put", _put("once", mode="overwrite"))


def _the_client_tries_again(monkeypatch):
    monkeypatch.setattr(publish.ObjectPublisher, "_put", _put("steady"))


def _a_short_range_is_taken(monkeypatch):
    monkeypatch.setattr(file_io, "check_range", lambda *_: None)


def test_the_checks_pass_without_a_bug(s3):
    check(s3)


@pytest.mark.parametrize(
    "plant",
    [
        _conflict_is_a_lost_race,
        _taken_is_a_lost_race,
        _a_name_is_given_up_while_it_is_absent,
        _no_condition,
        _the_client_tries_again,
        _a_short_range_is_taken,
    ],
)
def test_each_planted_bug_is_noticed(s3, monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, StorageError, pytest.fail.Exception)):
        check(s3)
