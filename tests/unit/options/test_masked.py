"""Secrets in options and locations."""

import re

import pytest

from tidelake.options.masked import HIDDEN, masked, masked_options, masked_text


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-key",
        "s3.access-key",
        "fs.oss.accessKeySecret",
        "fs.azure.account.key.box",
        "jdbc.password",
        "properties.sasl.jaas.config",
        "properties.ssl.key.password",
        "dlf.access-key-id",
        "token",
        "fs.azure.sas.fixed.token",
        "api_key",
        "google.credentials",
        "encryption-key",
        "jdbc.pwd",
        "header.Authorization",
        "http.auth",
        "x.bearer",
        "cookie",
        "partition.mark-done-action.http.params",
    ],
)
def test_a_secret_is_hidden_by_its_key(key):
    assert masked(key, "hush") == HIDDEN


@pytest.mark.parametrize(
    "key",
    ["bucket", "bucket-key", "sequence.field", "primary-key", "author", "oauth2-server", "path"],
)
def test_other_options_are_shown(key):
    assert masked(key, "4") == "4"


@pytest.mark.parametrize(
    "text",
    [
        "mysql://u:HUSH@host/db",
        "mysql://u:HU/SH@host/db",
        "jdbc:mysql://me:HU@SH@host",
        "user=me password=HUSH",
        "url;pwd=HUSH;x=1",
        "Bearer HUSH",
        "Basic HUSH==",
        '{"password": "HU SH"}',
        "s3.secret-key = HUSH, other",
        "https://box/x?sig=HUSH&se=1",
    ],
)
def test_a_secret_in_any_text_is_hidden(text):
    assert not {"HU", "SH"} & set(re.findall("HU|SH", masked("uri", text)))
    assert HIDDEN in masked("uri", text)


def test_what_is_no_secret_stays_in_a_message():
    words = "Table db.t: the primary key: id, bucket-key = 'a', at 10:03 by me@example.org"
    assert masked_text(words) == words


def test_a_secret_in_a_value_is_hidden():
    found = masked("uri", "postgresql://me:pw@db/lake?sslpassword=hush&sslmode=require")
    assert found == f"postgresql://{HIDDEN}@db/lake?sslpassword={HIDDEN}&sslmode=require"
    assert masked_text("s3://bucket/lake") == "s3://bucket/lake"
    assert masked_options({"b": "1", "a.secret": "x"}) == (("a.secret", HIDDEN), ("b", "1"))
