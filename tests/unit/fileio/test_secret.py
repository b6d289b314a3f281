"""The registry of secrets is used by several threads."""

from __future__ import annotations

import pickle

import pytest

from tidelake.errors import StorageError
from tidelake.fileio import secret


class Inserting(dict):
    """Another thread remembers a secret in the middle of a comparison."""

    def __eq__(self, other):
        secret._REGISTRY[f"other-{len(secret._REGISTRY)}"] = {"key": "other"}
        return super().__eq__(other)

    __hash__ = None


def test_a_secret_is_remembered_while_another_thread_does_it(monkeypatch):
    monkeypatch.setattr(secret, "_REGISTRY", {"a": Inserting(key="a"), "b": {"key": "b"}})
    assert secret.remember_secrets({"key": "b"}) == "b"
    number = secret.remember_secrets({"key": "c"})
    assert secret.known_secrets(number) == {"key": "c"}


def test_a_secret_beside_a_pickle_is_known_in_its_process_alone(monkeypatch):
    sent = secret.SentSecrets({"token": "hush"})
    pickled = pickle.dumps(sent)
    assert b"hush" not in pickled
    assert pickle.loads(pickled).reveal() == {"token": "hush"}
    monkeypatch.setattr(secret, "_REGISTRY", {})
    with pytest.raises(StorageError, match="did not come along"):
        pickle.loads(pickled).reveal()


HOUR_MS = 3_600_000


def test_keys_that_ended_are_forgotten_and_others_stay(monkeypatch):
    monkeypatch.setattr(secret, "_REGISTRY", {})
    monkeypatch.setattr(secret, "_ENDS", {})
    for_good = secret.remember_secrets({"key": "of the user"})
    hours = []
    for hour in range(100):  # of two tables, whose keys live for one hour and for a day
        secret.forget_ended(hour * HOUR_MS)
        for life in (1, 24):
            ends_ms = (hour + life) * HOUR_MS
            number = secret.remember_secrets({"key": f"{hour} {life}"}, ends_ms=ends_ms)
            assert secret.remember_secrets({"key": f"{hour} {life}"}) == number  # a copy
            hours.append((number, hour + life))
    known = [ends for number, ends in hours if secret.known_secrets(number)]
    assert min(known) == 99 - 1, "an hour longer: clocks differ"
    assert len(known) == sum(ends >= 98 for _, ends in hours)
    assert secret.known_secrets(for_good) == {"key": "of the user"}
    assert len(secret._ENDS) == len(known)


class Carried:
    def __init__(self, text):
        self.text = text

    def secrets(self):
        return {"key": self.text}


def test_a_process_of_tasks_keeps_the_sets_that_arrived_last(monkeypatch):
    """What it forgets comes along again with the next pickle."""
    monkeypatch.setattr(secret, "_REGISTRY", {})
    monkeypatch.setattr(secret._Carriers, "arrived", {})
    own = secret.remember_secrets({"key": "its own"})
    for n in range(secret.ARRIVED_MAX + 10):
        assert secret.carried_secrets(f"n{n}", Carried(f"{n}")) == {"key": f"{n}"}
        assert secret.carried_secrets("n0", Carried("0")) == {"key": "0"}, "in use"
    assert len(secret._Carriers.arrived) == secret.ARRIVED_MAX
    assert len(secret._REGISTRY) == secret.ARRIVED_MAX + 1
    assert secret.known_secrets(own) == {"key": "its own"}
    assert secret.known_secrets("n0") == {"key": "0"}
    assert secret.known_secrets("n1") is None
    assert secret.carried_secrets("n1", Carried("1")) == {"key": "1"}
