"""TLS, mutual TLS and tokens, over real connections."""

from __future__ import annotations

import hashlib
import json

import grpc
import pytest
from unit.service.certificates import Authority
from unit.service.service_kit import Asked, made_table, refusal, request_of

from tidelake.service.address.security import Security

TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("tls"))
    stranger = Authority(tmp_path_factory.mktemp("stranger"))
    return {
        "ca": authority.ca,
        "server": authority.signed("server"),
        "client": authority.signed("client"),
        "stranger": stranger.signed("stranger"),
        "stranger ca": stranger.ca,
    }


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def channel(address, roots, pair=None):
    own = (None, None) if pair is None else (contents(pair[1]), contents(pair[0]))
    credentials = grpc.ssl_channel_credentials(contents(roots), *own)
    return grpc.secure_channel(address, credentials)


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.json"
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    entries = [{"name": "reader", "sha256": digest, "tables": ["db.t"]}]
    path.write_text(json.dumps({"tokens": entries}))
    return str(path)


def test_with_tls_and_tokens_only_who_has_both_is_answered(catalog, serve, certificates, tokens):
    table = made_table(catalog)
    made_table(catalog, "db.secret")
    cert, key = certificates["server"]
    security = Security(tls_cert=cert, tls_key=key, tokens=tokens)
    service = serve("db.t", "db.secret", security=security)
    roots = certificates["ca"]
    for address, ask in (
        (service.server.address, lambda a, name: a.locate(name)),
        (
            service.executors[0].address,
            lambda a, name: a.lookup(request_of(table, [1], table=name)),
        ),
    ):
        with Asked(address, channel=channel(address, roots), token=TOKEN) as asked:
            ask(asked, "db.t")
            found = refusal(lambda a=asked, f=ask: f(a, "db.secret"))
            assert found[:2] == ("PERMISSION_DENIED", "table-not-allowed")
            # a table that is not served looks the same: its name is not told
            found = refusal(lambda a=asked, f=ask: f(a, "db.none"))
            assert found[:2] == ("PERMISSION_DENIED", "table-not-allowed")
        for token, reason in ((None, "no-token"), ("guessed-token", "wrong-token")):
            with Asked(address, channel=channel(address, roots), token=token) as asked:
                found = refusal(lambda a=asked, f=ask: f(a, "db.t"))
                assert found[:2] == ("UNAUTHENTICATED", reason)
        with Asked(address, token=TOKEN) as plain:
            assert refusal(lambda a=plain, f=ask: f(a, "db.t"))[0] == "UNAVAILABLE"
        with Asked(address, channel=channel(address, certificates["stranger ca"])) as wrong:
            assert refusal(lambda a=wrong, f=ask: f(a, "db.t"))[0] == "UNAVAILABLE"


def test_mutual_tls_lets_in_whom_the_authority_signed(catalog, serve, certificates):
    made_table(catalog)
    cert, key = certificates["server"]
    ca = certificates["ca"]
    service = serve(count=1, security=Security(tls_cert=cert, tls_key=key, tls_ca=ca))
    address = service.server.address
    with Asked(address, channel=channel(address, ca, certificates["client"])) as asked:
        assert asked.locate().executors_count == 1
    for pair in (None, certificates["stranger"]):
        with Asked(address, channel=channel(address, ca, pair)) as asked:
            assert refusal(asked.locate)[0] == "UNAVAILABLE"
