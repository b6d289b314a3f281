"""Keys of a storage that the server gives are renewed before they end."""

from __future__ import annotations

import pickle

import pytest
from servers.rest_catalog import RestCatalogServer
from unit.catalog.rest.rest_world import client_of

from tidelake.catalog.rest.vended_credentials import VendedCredentials
from tidelake.errors import InvalidInputError, StorageError, StorageRefusedError
from tidelake.fileio import MemoryFileIO, secret
from tidelake.fileio.object_store.credentials import Credentials
from tidelake.telemetry import Env


class Vending:
    def __init__(self, life_ms):
        self.server = RestCatalogServer("/wh", fileio=MemoryFileIO(), vends=True)
        self.env = Env.seeded(1)
        client = client_of(self.server, env=self.env)
        client.create_database("db")
        fields = [{"id": 0, "name": "k", "type": "INT"}]
        schema = {"fields": fields, "primaryKeys": [], "partitionKeys": [], "options": {}}
        client.create_table("db", "t", schema)
        assert client.options["data-token.enabled"] == "true"
        self.keys = VendedCredentials(client, "db", "t", env=self.env)
        self.server.token_life_ms = life_ms
        self.pass_ms(0)

    def pass_ms(self, ms):
        self.env.clock.sleep_ms(ms)
        self.server.now_ms = self.env.clock.now_ms()


def test_keys_are_kept_while_they_live_and_renewed_before_they_end():
    vending = Vending(10_000)
    first = vending.keys.current().s3_keys()
    assert first == ("key-1", "secret-1", None)
    vending.pass_ms(7_900)
    assert vending.keys.current().s3_keys() == first
    vending.pass_ms(200)  # four fifths are over
    assert vending.keys.current().s3_keys()[0] == "key-2"
    assert vending.server.count("/token") == 2


def test_long_lived_keys_are_renewed_an_hour_before_they_end():
    vending = Vending(12 * 3_600_000)
    vending.keys.current()
    vending.pass_ms(11 * 3_600_000 - 60_000)
    assert vending.keys.current().s3_keys()[0] == "key-1"
    vending.pass_ms(120_000)
    assert vending.keys.current().s3_keys()[0] == "key-2"


def test_old_keys_go_on_while_the_server_gives_no_new_ones():
    vending = Vending(10_000_000)
    vending.keys.current()
    vending.server.fault("status", "GET", "/token", status=503, count=1000)
    vending.pass_ms(8_500_000)
    assert vending.keys.current().s3_keys()[0] == "key-1"
    vending.pass_ms(2_000_000)
    with pytest.raises(StorageError, match="503"):
        vending.keys.current()


def test_a_storage_that_calls_keys_expired_gets_new_ones():
    vending = Vending(10_000)
    first = vending.keys.current()
    assert vending.keys.renewed(first).s3_keys()[0] == "key-2"
    assert vending.keys.renewed(first) is vending.keys.current()  # as of two threads
    assert vending.keys.secrets == ("secret-1", "secret-2")


def test_keys_that_have_expired_already_are_refused():
    vending = Vending(-1)
    with pytest.raises(StorageRefusedError, match="expired already"):
        vending.keys.current()


def test_keys_are_not_shown_and_not_in_a_pickle():
    vending = Vending(10_000)
    keys = vending.keys.current()
    assert "secret" not in repr(keys) + repr(vending.keys)
    assert b"secret-1" not in pickle.dumps(vending.keys)


def test_copies_begin_with_the_keys_of_their_moment_and_are_one_in_a_process():
    vending = Vending(10_000)
    first = pickle.loads(pickle.dumps(vending.keys))
    assert first.current().s3_keys() == ("key-1", "secret-1", None)
    vending.pass_ms(9_000)
    assert vending.keys.current().s3_keys()[0] == "key-2"
    second = pickle.loads(pickle.dumps(vending.keys))
    assert second is first
    assert first.current().s3_keys()[0] == "key-2", "the newer ones that came along"
    assert vending.server.count("/token") == 2
    elsewhere = VendedCredentials(
        vending.keys._client, "db", "t", env=vending.env, place="s3://lake/another"
    )
    assert pickle.loads(pickle.dumps(elsewhere)) is not first
    assert vending.server.count("/token") == 3


def test_the_keys_of_copies_leave_the_registry_of_secrets(monkeypatch):
    """A query that runs for weeks pickles its storage at each batch."""
    monkeypatch.setattr(secret, "_REGISTRY", {})
    monkeypatch.setattr(secret, "_ENDS", {})
    vending = Vending(3_600_000)
    for _ in range(60):
        pickle.loads(pickle.dumps(vending.keys))
        vending.pass_ms(1_800_000)
    assert vending.server.count("/token") > 20
    assert len(secret._REGISTRY) <= 4  # the token too


def test_keys_that_no_request_can_carry_are_refused():
    for name in ("s3.access-key", "s3.session-token"):
        options = {"s3.access-key": "k", "s3.secret-key": "tide-secret", name: "tide-secret\nb"}
        with pytest.raises(InvalidInputError, match=f"'{name}' holds characters") as caught:
            Credentials(options, expires_at_ms=1).check()
        assert "tide-secret" not in caught.value.message
