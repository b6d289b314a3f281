"""Keys of a storage: every spelling, no surprise, and no secret shown."""

from __future__ import annotations

import pickle
import shutil
import ssl
import subprocess
import traceback

import pytest
from servers.s3 import S3Server
from unit.fileio.object_store.test_file_io import bucket

from tidelake.errors import InvalidInputError, StorageError, TidelakeError
from tidelake.fileio import secret
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, parse_settings
from tidelake.fileio.object_store.client import _client_options, open_clients
from tidelake.telemetry import Env

SECRET = "tide-secret-a1b2c3"


@pytest.mark.parametrize(
    "keys",
    [
        {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key": "k", "s3.secret-key": "s"},
        {
            "fs.s3a.endpoint": "http://127.0.0.1:9",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
        },
        {"s3a.endpoint": "http://127.0.0.1:9", "s3a.access-key": "k", "s3a.secret-key": "s"},
        {"endpoint": "http://127.0.0.1:9", "access_key_id": "k", "secret_access_key": "s"},
    ],
)
def test_the_spellings_of_paimon_hadoop_and_obstore_mean_the_same(keys):
    found = parse_settings("s3", {**keys, "azure.account-name": "of another storage"})
    assert found.text("endpoint") == "http://127.0.0.1:9"
    assert (found.text("access-key"), found.text("secret-key")) == ("k", "s")


@pytest.mark.parametrize(
    ("keys", "kind", "words"),
    [
        ({"s3.acess-key": "k"}, "storage_key", "Did you mean 's3.access-key'"),
        ({"s3.access-key": "k"}, "storage_key", "Give both"),
        ({"s3.secret-key": SECRET}, "storage_key", "Give both"),
        ({"s3.endpoint": "minio:9000"}, "storage_value", "must be a URL"),
        ({"s3.endpoint": "http://me:pw@minio"}, "storage_value", "without a user"),
        ({"s3.endpoint": "http://minio:9000"}, "http_not_allowed", "s3.allow-http"),
        ({"s3.path.style.access": "yes"}, "storage_value", "true or false"),
        ({"s3.timeout": "soon"}, "storage_value", "30 s"),
        ({"s3.region": ""}, "storage_value", "is empty"),
        ({"s3.session-token": f"{SECRET}\nb"}, "storage_value", "such as a line break"),
        ({"s3.access-key": "a\tb", "s3.secret-key": SECRET}, "storage_value", "line break"),
        ({"s3.access-key": "a", "s3.secret-key": f"{SECRET}\u200b"}, "storage_value", "line break"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_what_to_do(keys, kind, words):
    with pytest.raises(InvalidInputError) as caught:
        parse_settings("s3", keys)
    assert caught.value.kind == kind
    assert words in caught.value.message
    assert SECRET not in caught.value.message


def test_http_to_another_machine_needs_a_word():
    for word in ({"s3.allow-http": "true"}, {"s3.connection.ssl.enabled": "false"}):
        parse_settings("s3", {"s3.endpoint": "http://minio:9000", **word})


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_http_of_the_environment_needs_a_word_too(monkeypatch, name):
    keys = {"s3.access-key": "k", "s3.secret-key": SECRET}
    place = parse_location("s3://lake/w")
    monkeypatch.setenv(name, "http://localhost:pw@minio.example")
    with pytest.raises(InvalidInputError, match=f"{name} is not encrypted") as caught:
        open_clients(place, parse_settings("s3", keys))
    assert caught.value.kind == "http_not_allowed"
    assert "pw" not in caught.value.message
    for allowed in ({"s3.allow-http": "true"}, {"s3.endpoint": "https://other"}):
        open_clients(place, parse_settings("s3", {**keys, **allowed}))
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    open_clients(place, parse_settings("s3", keys))


def test_a_key_of_the_environment_that_no_request_can_carry_is_refused(monkeypatch):
    place, keys = parse_location("s3://lake/w"), {"s3.access-key": "k", "s3.secret-key": SECRET}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}\n")
    with pytest.raises(InvalidInputError, match="AWS_SECRET_ACCESS_KEY holds") as caught:
        open_clients(place, parse_settings("s3", {}))
    assert (caught.value.kind, SECRET in caught.value.message) == ("storage_value", False)
    open_clients(place, parse_settings("s3", keys))
    open_clients(place, parse_settings("s3", {"s3.anonymous": "true"}))
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{SECRET}\n")
    with pytest.raises(InvalidInputError, match="AWS_SESSION_TOKEN holds"):
        open_clients(place, parse_settings("s3", keys))


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("https://s3.example.com", "https://lake.s3.example.com"),
        ("https://s3.example.com:9000/x", "https://lake.s3.example.com:9000/x"),
        ("https://lake.s3.example.com", "https://lake.s3.example.com"),
        ("https://lake", "https://lake"),
    ],
)
def test_without_path_style_the_bucket_is_in_the_host(endpoint, host):
    keys = {"s3.endpoint": endpoint, "s3.path-style-access": "false"}
    place = parse_location("s3://lake/w")
    assert open_clients(place, parse_settings("s3", keys)).once.config["endpoint"] == host
    with_path = open_clients(place, parse_settings("s3", {"s3.endpoint": endpoint}))
    assert with_path.once.config["endpoint"] == endpoint


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "http://[::1]:9000"])
def test_an_address_without_names_takes_path_style_alone(endpoint):
    keys = {"s3.endpoint": endpoint, "s3.path-style-access": "false"}
    with pytest.raises(InvalidInputError, match=r"'s3.path-style-access' = 'true'"):
        open_clients(parse_location("s3://lake/w"), parse_settings("s3", keys))


def test_http_is_sent_to_this_machine_alone(s3, monkeypatch):
    """An endpoint that the client takes from elsewhere is not asked in clear."""
    keys = {"s3.access-key": "k", "s3.secret-key": SECRET}
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    files = ObjectStoreFileIO(
        parse_location("s3://lake/w"), parse_settings("s3", keys), Env.seeded(1)
    )
    files.write_once("/w/a", b"1")
    assert s3.listing() == ["w/a"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    options = _client_options(parse_settings("s3", keys))
    assert options["allow_http"] is False


def test_azure_takes_hadoops_key_with_the_account_in_it():
    found = parse_settings("az", {"fs.azure.account.key.acme.blob.core.windows.net": "a2V5"})
    assert (found.text("account-name"), found.text("account-key")) == ("acme", "a2V5")


def test_no_secret_is_shown_by_repr_pickle_or_error(s3):
    files = bucket(s3)
    s3.key_ids = set()
    seen = [repr(files), repr(files._settings), str(files._settings), repr(files._bucket)]
    for call in (files.read_bytes, files.list_dir, files.delete_dir):
        with pytest.raises(TidelakeError) as caught:
            call("/w/x")
        seen += [repr(caught.value), str(caught.value.context)]
        seen += traceback.format_exception(caught.value)
    assert not [text for text in seen if SECRET in text]
    for thing in (files, files._settings):
        assert SECRET.encode() not in pickle.dumps(thing)


def test_a_copy_in_the_same_process_has_its_keys_and_elsewhere_says_that_they_are_missing(
    s3, monkeypatch
):
    files = bucket(s3)
    files.write_once("/w/a", b"1")
    sent = pickle.dumps(files)
    assert pickle.loads(sent).read_bytes("/w/a") == b"1"
    carried = secret.export_secrets()
    monkeypatch.setattr(secret, "_REGISTRY", {})  # another process
    with pytest.raises(StorageError, match="did not come along") as caught:
        pickle.loads(sent).read_bytes("/w/a")
    assert caught.value.kind == "secrets_left_out"
    again = pickle.dumps(pickle.loads(sent))
    with pytest.raises(StorageError, match="did not come along"):  # nor further
        pickle.loads(again).read_bytes("/w/a")
    secret.adopt_secrets(carried)
    assert pickle.loads(sent).read_bytes("/w/a") == b"1"


def opened(s3, root="s3://lake/w", **keys):
    settings = parse_settings("s3", {"s3.endpoint": s3.url, **keys})
    return ObjectStoreFileIO(parse_location(root), settings, Env.seeded(1))


def test_keys_come_from_the_environment(s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    s3.key_ids = {"of-the-environment"}
    files = opened(s3)
    files.write_once("/w/a", b"1")
    assert pickle.loads(pickle.dumps(files)).read_bytes("/w/a") == b"1"


def test_a_container_gives_keys_and_renews_them(s3, monkeypatch, tmp_path):
    s3.vended = [{"id": "first", "ends": "2020-01-01T00:00:00Z"}, {"id": "second"}]
    s3.key_ids = {"first", "second"}
    (tmp_path / "token").write_text("agent-token")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{s3.url}/_credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    opened(s3).write_once("/w/a", b"1")
    assert s3.listing() == ["w/a"]
    assert s3.count("GET", "_credentials") > 2  # of two clients, one again


@pytest.fixture
def certificate(tmp_path):
    """A certificate of our own for 127.0.0.1, and its key: their files."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    made = (str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=lake"]
    words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", made[0], "-keyout", made[1]]
    subprocess.run([openssl, *words], check=True, capture_output=True)
    return made


def test_a_certificate_of_ones_own_is_trusted_if_told(certificate, monkeypatch, tmp_path):
    """And a web identity is exchanged for keys over it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    trusted = {"s3.ca-certificate": certificate[0]}
    with S3Server(tls=tls) as s3:
        given = {"s3.access-key": "k", "s3.secret-key": SECRET}
        with pytest.raises(StorageError, match="'ca-certificate'"):
            opened(s3, **given, **{"s3.retries": "0"}).exists("/w/a")
        opened(s3, **given, **trusted).write_once("/w/a", b"1")
        (tmp_path / "token").write_text("web-token")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.url)
        s3.vended = [{"id": "of-the-role"}]
        s3.key_ids = {"of-the-role"}
        opened(s3, **trusted).write_once("/w/b", b"1")
        assert s3.listing() == ["w/a", "w/b"]


@pytest.mark.parametrize(
    ("root", "keys", "words"),
    [
        ("s3://lake/w", {"s3.ca-certificate": "{broken}"}, "of 'ca-certificate'"),
        ("s3://lake/w", {"s3.ca-certificate": "{binary}"}, "is not a text file"),
        (
            "az://lake/w",
            {"azure.account-name": "acme", "azure.account-key": f"{SECRET}!"},
            "Invalid Access Key",
        ),
        ("az://lake/w", {}, "Account must be specified"),
        ("gs://lake/w", {"gs.service-account-key": SECRET}, "service account"),
    ],
)
def test_keys_that_the_client_refuses_are_said_in_our_errors(tmp_path, root, keys, words):
    (tmp_path / "broken").write_text(
        "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n"
    )
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    files = {name: str(tmp_path / name) for name in ("broken", "binary")}
    given = {key: value.format_map(files) for key, value in keys.items()}
    place = parse_location(root)
    made = ObjectStoreFileIO(place, parse_settings(place.scheme, given), Env.seeded(1))
    for call in (lambda: made.write_once("/w/a", b"1"), lambda: made.exists("/w/a")):
        with pytest.raises(InvalidInputError, match=words) as caught:
            call()
        assert caught.value.kind == "storage_value"
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_profile_that_is_missing():
    pytest.importorskip("boto3")
    made = ObjectStoreFileIO(
        parse_location("s3://lake/w"),
        parse_settings("s3", {"s3.profile": "none-such"}),
        Env.seeded(1),
    )
    with pytest.raises(InvalidInputError, match=r"profile 'none-such' .*could not be found"):
        made.write_once("/w/a", b"1")


def test_a_proxy_is_asked_for_the_store(s3):
    with S3Server() as proxy:  # it answers for the store, whose name nobody knows
        keys = {"s3.endpoint": "http://127.0.0.1:1", "s3.proxy": proxy.url}
        opened(s3, **{"s3.access-key": "k", "s3.secret-key": SECRET}, **keys).write_once(
            "/w/a", b"1"
        )
        assert proxy.listing() == ["w/a"]
