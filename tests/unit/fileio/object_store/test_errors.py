"""What a store refuses is said in words: what is wrong, where, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.fileio.object_store.test_file_io import bucket

from tidelake.errors import InvalidInputError, StorageError, TidelakeError
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store.errors import Bucket, refusal_of, translated


def refused(call, kind, words):
    with pytest.raises(TidelakeError, match=words) as caught:
        call()
    assert caught.value.kind == kind
    assert "Debug source" not in caught.value.message


def test_a_bucket_that_is_missing(s3):
    files = bucket(s3, root="s3://none/w")
    for call in (files.list_dir, files.exists, files.open_input):
        refused(lambda call=call: call("/w/a"), "bucket_not_found", "'?s3://none.*create it")


def test_another_region(s3):
    s3.region = "eu-west-1"
    refused(lambda: bucket(s3).exists("/w"), "wrong_region", "'s3.region' = 'eu-west-1'")
    s3.region = None
    s3.fault("status", "GET", status=301, code="PermanentRedirect")
    refused(lambda: bucket(s3).exists("/w"), "wrong_region", "another region")


def test_clocks_that_differ(s3):
    s3.clock_offset_s = 7200
    refused(lambda: bucket(s3).exists("/w"), "clock_skew", "clocks of this machine")


def test_unknown_keys(s3):
    s3.key_ids = {"other"}
    refused(lambda: bucket(s3).exists("/w"), "credentials", "InvalidAccessKeyId")


def test_a_lookup_says_why_though_the_place_answered_before(s3):
    files = bucket(s3)
    assert not files.exists("/w/a")
    s3.clock_offset_s = 7200
    refused(lambda: files.exists("/w/a"), "clock_skew", "clocks of this machine")
    s3.clock_offset_s = 0
    s3.key_ids = {"other"}
    refused(lambda: files.size("/w/a"), "credentials", "InvalidAccessKeyId")
    refused(lambda: bucket(s3).exists("/w/a"), "credentials", "InvalidAccessKeyId")


def test_no_right_to_write(s3):
    s3.read_only = {"tide-key"}
    files = bucket(s3)
    assert files.list_dir("/w") == []
    for call in (files.write_once, files.put_if_absent, files.replace):
        refused(
            lambda call=call: call("/w/a", b"1"), "no_permission", "no right to it in s3://lake"
        )


def test_a_token_that_expires_in_the_middle(s3):
    files = bucket(s3, **{"s3.session-token": "old"})
    files.write_once("/w/a", b"1")
    s3.expired_tokens = {"old"}
    refused(lambda: files.put_if_absent("/w/b", b"1"), "credentials", "have expired: renew")
    assert s3.listing() == ["w/a"]


@pytest.mark.parametrize(
    ("status", "code"), [(400, "InvalidArgument"), (409, "OperationAborted"), (503, "SlowDown")]
)
def test_an_answer_is_told_by_its_code_and_message_without_its_xml(s3, status, code):
    files = bucket(s3, **{"s3.retries": "0"})
    files.write_once("/w/a", b"1")
    s3.fault("status", status=status, code=code, count=99)
    words = rf"s3://lake at {s3.url} answered {status} \({code}: injected\)\. Check the store"
    for call in (files.read_bytes, files.list_dir, files.delete_dir):
        refused(lambda call=call: call("/w/b"), "storage", words)
    with pytest.raises(StorageError) as caught:
        files.write_once("/w/b", b"1")
    assert code in caught.value.message
    assert "<" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "code"), [(403, "SecondLevelDomainForbidden"), (400, "PathStyleDomainForbidden")]
)
def test_a_store_that_wants_the_bucket_in_the_host_is_told_how(s3, status, code):
    s3.fault("status", "GET", status=status, code=code, count=99)
    words = rf"{code}.*'s3\.path-style-access' = 'false'"
    refused(lambda: bucket(s3).list_dir("/w"), "storage", words)
    s3.forget()
    s3.fault("status", "GET", status=301, code="PermanentRedirect", count=99)
    refused(lambda: bucket(s3).list_dir("/w"), "wrong_region", "'s3.path-style-access' = 'false'")


def test_a_store_that_wants_the_bucket_in_the_path_is_told_how(s3):
    """A bucket's host that nobody knows; and one where the store looks for another bucket."""
    at = {"s3.path-style-access": "false", "s3.retries": "0", "s3.allow-http": "true"}
    hint = r"'s3\.path-style-access' = 'true'"
    nowhere = bucket(s3, **at, **{"s3.endpoint": "http://store.invalid:9"})
    refused(lambda: nowhere.list_dir("/w"), "unreachable", hint)
    there = Bucket("s3://lake", "https://store.example", is_path_style=False)
    text = "status code: 404 Not Found: <Error><Code>NoSuchBucket</Code></Error>"
    found = translated(OSError(text), there, "/w/a", "read")
    assert found.message.endswith("set 's3.path-style-access' = 'true'.")
    no_hint = translated(OSError(text), Bucket("s3://lake", "https://e"), "/w/a", "read")
    assert "path-style" not in no_hint.message


def test_an_endpoint_for_people(s3):
    s3.fault("html", count=99)
    refused(lambda: bucket(s3).list_dir("/w"), "not_a_store", "check the endpoint")


def test_an_endpoint_that_nobody_serves(s3):
    s3.close()
    files = bucket(s3, **{"s3.retries": "0"})
    refused(lambda: files.list_dir("/w"), "unreachable", "cannot be reached")


@pytest.mark.parametrize(
    ("url", "lacks"),
    [
        ("http://169.254.169.254/latest/api/token", True),
        ("http://169.254.170.2/v2/credentials/1", True),
        ("http://169.254.170.23/v1/credentials", True),
        ("http://metadata.google.internal/computeMetadata/v1/instance", True),
        ("http://169.254.169.254/metadata/identity/oauth2/token?x=1", True),
        ("http://169.254.7.7:9000/lake/w/t/snapshot/snapshot-7", False),
        ("http://minio:9000/lake/metadata.google/InstanceProfile", False),
    ],
)
def test_only_an_agent_that_is_asked_for_keys_means_that_there_are_none(url, lacks):
    text = f"Generic S3 error: Error performing PUT {url} in 1s - error sending request"
    assert refusal_of(OSError(text)).is_definite is lacks


@pytest.mark.parametrize(
    ("text", "past"),
    [
        ("Server returned non-2xx status code: 416 Range Not Satisfiable", True),
        ("Wanted range starting at 10, but object was only 10 bytes long", True),
        ('Failed to parse value for CONTENT_RANGE header: "bytes 0--1/0"', True),
        ("Server returned non-2xx status code: 404 Not Found", False),
    ],
)
def test_a_range_past_the_end_is_known_by_each_store_s_words(text, past):
    assert refusal_of(OSError(f"Generic error: {text}")).is_past_end is past


def test_no_page_of_a_listing_is_guessed(s3):
    files = bucket(s3, **{"s3.retries": "1"})
    files.write_once("/w/a", b"1")
    s3.fault("status", "GET", "list-type", count=9)
    with pytest.raises(StorageError):
        files.list_dir("/w")


def test_a_bulk_delete_that_leaves_some_says_so(s3):
    files = bucket(s3, **{"s3.retries": "1"})
    for name in "abc":
        files.write_once(f"/w/d/{name}", b"1")
    s3.fault("partial", "POST", count=6)  # three passes, each sent twice
    with pytest.raises(StorageError, match="Could not delete s3://lake/w/d"):
        files.delete_dir("/w/d")
    files.delete_dir("/w/d")
    assert s3.listing() == []


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3n://lake", "Did you mean 's3'"),
        ("s3://", "names no bucket"),
        ("s3:///w", "names no bucket"),
        ("s3://key:secret@lake/w", "credentials do not belong"),
        ("s3://key:a/secret@lake/w", "credentials do not belong"),
        ("s3://key/a/secret@lake/w:1/../b", r"holds '\.\.'"),
        ("s5://key:a/secret@lake/w", "unknown storage"),
        ("gs://key:secret", "credentials do not belong"),
        ("az://lake:secret/w", "credentials do not belong"),
        ("abfs://lake:a/secret@acme.dfs.core.windows.net/w", "credentials do not belong"),
        ("s3://lake/a/../b", r"holds '\.\.'"),
        ("s3://lake/a//b", r"'//'"),
        ("s3:/lake/w", "'s3://'"),
        ("S3:lake/w", "'s3://'"),
        ("s3:/key:secret@lake/w", "'s3://'"),
        (Path("s3://lake/w"), "'s3://'"),
        ("abfs://lake@acme.dfs.core.usgovcloudapi.net/w", "azure.endpoint"),
        ("abfss://lake@onelake.dfs.fabric.microsoft.com/w", "azure.endpoint"),
        ("az://lake@acme/w", "azure.endpoint"),
        ("az://lake@/w", "azure.endpoint"),
        ("", "is empty"),
        (7, "is not a path"),
    ],
)
def test_a_uri_that_is_wrong(uri, words):
    """Keys of AWS may hold ``/``."""
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_location(uri)
    assert "secret" not in caught.value.message


def test_hdfs_as_hadoop_prints_it_is_no_local_directory():
    assert parse_location("hdfs:/w") == parse_location("hdfs:///w")
    assert parse_location("hdfs:/w").scheme == "hdfs"


def test_an_azure_host_may_be_written_in_capitals():
    assert parse_location("abfs://lake@Acme.DFS.core.windows.net/w").account == "acme"
