"""The race of processes finds a store that looks first and then writes."""

from __future__ import annotations

import multiprocessing
import threading

import pytest

from tidelake.fileio import doctor
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import parse_settings


class LooksThenWrites:
    """Both of two writers are told that they were first; the later one's bytes are there."""

    def __init__(self, *_):
        pass

    def write_once(self, path, data):
        pass

    def put_if_absent(self, path, data):
        return True

    def read_bytes(self, path):
        return b"1 was here"


def test_a_name_that_two_won_counts_whoever_s_bytes_are_there(monkeypatch):
    monkeypatch.setattr(doctor, "ObjectStoreFileIO", LooksThenWrites)
    monkeypatch.setattr(doctor, "_START", [threading.Barrier(1)])
    place, settings = parse_location("s3://lake/w"), parse_settings("s3", {})
    reports = [doctor._racer(place, settings, who, 3) for who in (0, 1)]
    assert reports == [([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [])]
    with pytest.raises(doctor._FailedError, match="3 of 3 names were won by several"):
        doctor._check_race(reports, 3)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([([0], [0]), ([1], [])], "1 of 2 names hold other bytes than their winner's"),
        ([([0], []), ([], [])], "1 of 2 names were won by nobody"),
    ],
)
def test_a_race_that_went_wrong_is_said(reports, words):
    with pytest.raises(doctor._FailedError, match=words):
        doctor._check_race(reports, 2)


@pytest.mark.parametrize("error", [multiprocessing.TimeoutError, threading.BrokenBarrierError])
def test_processes_that_do_not_come_or_end_are_a_finding(monkeypatch, error):
    class Pool:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def starmap_async(self, *_, **__):
            return self

        def get(self, seconds):
            raise error

    spawn = type("Spawn", (), {"Pool": Pool, "Barrier": threading.Barrier})
    monkeypatch.setattr(multiprocessing, "get_context", {"spawn": spawn}.get)
    place, settings = parse_location("s3://lake/w"), parse_settings("s3", {})
    found = doctor._finding("race", lambda: doctor._race(place, settings, 2, 3))
    assert not found.passed
    assert "did not" in found.detail
