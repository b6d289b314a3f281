"""Keys of storages in pickles that go to executors: a number, and a broadcast beside it."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.core import broadcast as pyspark_broadcast
from servers.s3 import SECRET, S3Server

import tidelake
from tidelake.errors import StorageError
from tidelake.fileio import secret
from tidelake.spark.sessions import secret_broadcast


class FakeContext:
    """What the carriers need of a SparkContext."""

    _jsc = object()
    _encryption_enabled = False

    def __init__(self):
        self.sent, self.along = [], []
        self.directory = None

    def broadcast(self, value):
        self.sent.append(value)
        number = len(self.sent)
        java = SimpleNamespace(id=lambda: number)
        path = "" if self.directory is None else str(self.directory / f"broadcast{number}")
        if path:
            Path(path).write_bytes(pickle.dumps(value))
        return FakeBroadcast(java, value, self.along, path)


class FakeBroadcast:
    def __init__(self, java, value, along, path):
        self._jbroadcast, self.value, self._along, self._path = java, value, along, path

    def __reduce__(self):
        self._along.append(self._jbroadcast.id())
        return (int, (0,))


@pytest.fixture
def context(monkeypatch):
    """An application runs, and storages send their keys by its broadcasts."""
    made = FakeContext()
    monkeypatch.setattr(SparkContext, "_active_spark_context", made)
    monkeypatch.setattr(secret._Carriers, "make", None)
    monkeypatch.setattr(secret._Carriers, "arrived", {})
    monkeypatch.setattr(secret_broadcast._Application, "sent", None)
    secret_broadcast.carry_secrets()
    return made


@pytest.fixture
def store():
    with S3Server() as server:
        yield server


@pytest.fixture
def files(store):
    return tidelake.open("s3://lake/w", storage=store.storage()).fileio


def elsewhere(monkeypatch, values):
    """Another process, to which these broadcasts came."""
    monkeypatch.setattr(secret, "_REGISTRY", {})
    monkeypatch.setattr(secret._Carriers, "make", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    came = {number: SimpleNamespace(value=value) for number, value in values.items()}
    monkeypatch.setattr(pyspark_broadcast, "_broadcastRegistry", came)


def test_a_pickle_names_a_broadcast_that_is_made_once_and_goes_along(context, files):
    first, second = pickle.dumps(files), pickle.dumps({"again": files})
    assert len(context.sent) == 1
    assert context.along == [1, 1]
    assert SECRET.encode() not in first + second
    assert SECRET.encode() in pickle.dumps(context.sent[0])
    assert SECRET not in f"{context.sent[0]!r} {context.sent[0]}"


def test_the_keys_are_found_in_the_process_of_a_task_and_in_the_one_after_it(
    context, files, monkeypatch
):
    sent = pickle.dumps(files)
    arrived = {1: pickle.loads(pickle.dumps(context.sent[0]))}
    elsewhere(monkeypatch, arrived)
    copy = pickle.loads(sent)
    copy.write_once("/w/a", b"1")
    onward = pickle.dumps(copy)  # a process that plans sends what executors get
    assert SECRET.encode() not in onward
    elsewhere(monkeypatch, arrived)
    monkeypatch.setattr(secret._Carriers, "arrived", {})
    assert pickle.loads(onward).read_bytes("/w/a") == b"1"


def test_a_process_that_is_no_task_says_that_keys_are_missing(context, files, monkeypatch):
    sent = pickle.dumps(files)
    elsewhere(monkeypatch, {})
    with pytest.raises(StorageError, match="did not come along") as caught:
        pickle.loads(sent).list_dir("/w")
    assert caught.value.kind == "secrets_left_out"


def test_a_process_of_the_drivers_machine_finds_the_file_of_the_broadcast(
    context, files, monkeypatch, tmp_path
):
    """PySpark gives no broadcasts to the process that plans a stream."""
    context.directory = tmp_path
    sent = pickle.dumps(files)
    elsewhere(monkeypatch, {})
    copy = pickle.loads(sent)
    copy.write_once("/w/a", b"1")
    onward = pickle.dumps(copy)
    assert SECRET.encode() not in sent + onward
    (tmp_path / "broadcast1").write_bytes(b"another file")
    elsewhere(monkeypatch, {})
    monkeypatch.setattr(secret._Carriers, "arrived", {})
    with pytest.raises(StorageError, match="did not come along"):
        pickle.loads(onward).list_dir("/w")


def test_a_file_that_spark_encrypts_is_not_named(context, files, tmp_path):
    context.directory, context._encryption_enabled = tmp_path, True
    assert str(tmp_path).encode() not in pickle.dumps(files)


def test_each_application_sends_its_own_broadcast_and_none_where_none_runs(
    context, files, monkeypatch
):
    pickle.dumps(files)
    after = FakeContext()
    monkeypatch.setattr(SparkContext, "_active_spark_context", after)
    pickle.dumps(files)
    assert (len(context.sent), len(after.sent)) == (1, 1)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert pickle.loads(pickle.dumps(files)).list_dir("/w") == []


def test_storages_without_keys_send_nothing(context, store):
    open_to_all = {"s3.endpoint": store.url, "s3.anonymous": "true"}
    pickle.dumps(tidelake.open("s3://lake/w", storage=open_to_all).fileio)
    assert context.sent == []


def test_broadcasts_of_keys_that_ended_are_let_go(context, monkeypatch):
    """Spark's cleaner removes one that no plan names any more."""
    monkeypatch.setattr(secret, "_REGISTRY", {})
    monkeypatch.setattr(secret, "_ENDS", {})
    for_good = secret.SentSecrets({"key": "of the user"})
    pickle.dumps(for_good)
    for hour in range(10):
        secret.forget_ended(hour * 3_600_000)
        number = secret.remember_secrets({"key": f"{hour}"}, ends_ms=(hour + 1) * 3_600_000)
        secret.carrier_of(number)
    assert len(context.sent) == 11
    kept = secret_broadcast._Application.sent.carriers
    assert {for_good.number, number} <= set(kept)
    assert len(kept) == 4
    pickle.dumps(for_good)
    assert len(context.sent) == 11
