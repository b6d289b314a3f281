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
