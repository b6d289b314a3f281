"""Puts under a lock: what may still come keeps the lock, and is never called lost."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from unit.fileio.object_store.test_file_io import bucket

from tidelake.errors import OutcomeUnknownError, StorageRefusedError
from tidelake.fileio.object_store.publish import ObjectPublisher

NAME = "/w/t/snapshot/snapshot-1"
LONG = 10_000
"""Requests after which a late put comes: more than a test makes."""


class Lock:
    """A lock that is always had, and notes whether it was left."""

    def __init__(self):
        self.is_left = self.is_released = False

    @contextmanager
    def hold(self, path):
        try:
            yield self
        finally:
            self.is_released = not self.is_left

    def is_held(self):
        return True

    def leave(self):
        self.is_left = True


@pytest.fixture
def lock():
    return Lock()


@pytest.fixture
def files(s3, lock):
    s3.conditions = "ignored"
    made = bucket(s3, **{"s3.timeout": "3 s", "s3.retries": "2"}).with_put_lock(lock)
    made.write_once("/w/first", b"1")  # the place is checked
    s3.forget()
    return made


def theirs_before(monkeypatch, s3, look):
    """Another, who does not wait for the lock, puts its object before the nth look at ours."""
    original, looks = ObjectPublisher.is_ours, []

    def is_ours(self, path, data, mark):
        looks.append(path)
        if len(looks) == look:
            s3.bucket().put(path[1:], b"theirs", 0)
        return original(self, path, data, mark)

    monkeypatch.setattr(ObjectPublisher, "is_ours", is_ours)


def test_a_put_that_was_answered_gives_the_lock_back(files, lock):
    assert files.put_if_absent(NAME, b"ours") is True
    assert lock.is_released
    assert files.put_if_absent(NAME, b"other") is False
    assert lock.is_released


def test_a_put_that_may_still_come_keeps_the_lock(s3, files, lock):
    s3.fault("defer", "PUT", "snapshot-1", count=99, after=LONG)
    with pytest.raises(OutcomeUnknownError, match=r"may still appear.*lock is not given back"):
        files.put_if_absent(NAME, b"ours")
    assert lock.is_left
    assert not lock.is_released


@pytest.mark.parametrize("look", [1, 2], ids=["no try answered", "the second try answered"])
def test_a_put_that_may_still_come_has_not_lost(s3, files, lock, monkeypatch, look):
    """Another's object is there, and the first try overwrites it later."""
    s3.fault("defer", "PUT", "snapshot-1", after=LONG)
    theirs_before(monkeypatch, s3, look)
    with pytest.raises(OutcomeUnknownError, match=r"overwrite.*lock is not given back"):
        files.put_if_absent(NAME, b"ours")
    assert lock.is_left
    s3.settle()
    assert s3.bucket().get(NAME[1:]).data == b"ours"


def test_a_put_that_was_answered_and_overwritten_has_lost(s3, files, lock, monkeypatch):
    theirs_before(monkeypatch, s3, 1)
    assert files.put_if_absent(NAME, b"ours") is False
    assert lock.is_released


def test_a_put_that_comes_twice_is_made_once(s3, files, lock):
    s3.fault("defer", "PUT", "snapshot-1", after=LONG)
    assert files.put_if_absent(NAME, b"ours") is True
    assert lock.is_released
    s3.settle()
    assert s3.bucket().get(NAME[1:]).data == b"ours"


def test_a_put_that_was_refused_gives_the_lock_back(s3, files, lock):
    s3.fault("status", "PUT", "snapshot-1", status=403, code="AccessDenied")
    with pytest.raises(StorageRefusedError):
        files.put_if_absent(NAME, b"ours")
    assert lock.is_released


def test_a_put_that_was_interrupted_keeps_the_lock(files, lock, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ObjectPublisher, "_put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.put_if_absent(NAME, b"ours")
    assert lock.is_left
