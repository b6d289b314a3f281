"""The S3 of the tests does what S3 does, and fails as ordered."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError
from obstore.store import GCSStore, S3Store
from servers.s3 import KEY_ID, SECRET, S3Server
from waiting import until

ONCE = {"max_retries": 0}
QUICK = {"max_retries": 3, "backoff": {"init_backoff": timedelta(milliseconds=1)}}


def client(s3, *, retries=ONCE, bucket="lake", key_id=KEY_ID, timeout="60s", **more):
    return S3Store(
        bucket,
        endpoint=s3.url,
        region="us-east-1",
        access_key_id=key_id,
        secret_access_key=SECRET,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True, "timeout": timeout},
        retry_config=retries,
        **more,
    )


def create(store, key, data):
    """Put with a condition; the name of the error, or 'done'."""
    try:
        obstore.put(store, key, data, mode="create", use_multipart=False)
    except BaseError as error:
        return type(error).__name__
    return "done"


def test_what_was_put_is_read_whole_and_by_ranges(s3):
    store = client(s3)
    for key in ("a/b c/ü#?=%2F&<x>", "plain"):
        obstore.put(store, key, b"0123456789")
        assert bytes(obstore.get(store, key).bytes()) == b"0123456789"
        assert bytes(obstore.get_range(store, key, start=3, length=4)) == b"3456"
        assert obstore.head(store, key)["size"] == 10
    tail = obstore.get(store, "plain", options={"range": {"suffix": 3}})
    assert bytes(tail.bytes()) == b"789"
    assert s3.listing() == ["a/b c/ü#?=%2F&<x>", "plain"]
    obstore.delete(store, ["plain", "a/b c/ü#?=%2F&<x>"])
    assert s3.listing() == []
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "plain")
    with pytest.raises(FileNotFoundError):
        obstore.get(client(s3, bucket="none"), "plain")


def test_one_of_many_conditional_puts_wins(s3):
    store = client(s3)
    won = []

    def race(me):
        for i in range(40):
            if create(store, f"r/{i}", b"%d" % me) == "done":
                won.append((i, me))

    threads = [threading.Thread(target=race, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(i for i, _ in won) == list(range(40))
    assert all(s3.bucket().get(f"r/{i}").data == b"%d" % me for i, me in won)


def test_listings_come_by_pages(s3):
    s3.page_keys = 3
    store = client(s3)
    keys = [f"d/{i}" for i in range(7)] + [f"d/s{i}/{j}" for i in range(4) for j in range(5)]
    for key in [*keys, "e/x"]:
        s3.bucket().put(key, b"1", 0)
    listed = [entry["path"] for page in obstore.list(store, "d") for entry in page]
    assert listed == sorted(keys)
    found = obstore.list_with_delimiter(store, "d")
    assert [entry["path"] for entry in found["objects"]] == [f"d/{i}" for i in range(7)]
    assert found["common_prefixes"] == [f"d/s{i}" for i in range(4)]
    s3.fault("last_page", "GET", "list-type")
    assert len([e for page in obstore.list(store, "d") for e in page]) == 3


def test_an_upload_in_parts_shows_nothing_until_it_is_complete(s3):
    store = client(s3)
    data = bytes(range(256)) * (11 << 12)
    with obstore.open_writer(store, "big", buffer_size=5 << 20, max_concurrency=2) as writer:
        writer.write(data)
        assert s3.listing() == []
    assert s3.bucket().get("big").data == data
    assert s3.uploads == []
    s3.fault("status", "PUT", "partNumber=2", status=403, code="AccessDenied")
    with pytest.raises(BaseError):
        obstore.put(store, "other", data, chunk_size=5 << 20, use_multipart=True)
    assert s3.listing() == ["big"]


@pytest.mark.parametrize(
    ("mode", "more", "said", "there"),
    [
        ("lost", {}, "GenericError", True),
        ("drop", {}, "GenericError", False),
        ("dup", {}, "AlreadyExistsError", True),
        ("late", {"ms": 1_000}, "GenericError", True),
        ("hang", {"ms": 1_000}, "GenericError", None),
        ("defer", {}, "GenericError", False),
        (
            "status",
            {"status": 409, "code": "ConditionalRequestConflict"},
            "AlreadyExistsError",
            False,
        ),
        ("status", {"status": 412, "code": "PreconditionFailed"}, "AlreadyExistsError", False),
        ("status", {"status": 500, "code": "InternalError"}, "GenericError", False),
        ("status_after", {"status": 500, "code": "InternalError"}, "GenericError", True),
        ("status", {"status": 403, "code": "AccessDenied"}, "PermissionDeniedError", False),
        ("status", {"status": 501, "code": "NotImplemented"}, "GenericError", False),
    ],
)
def test_a_put_meets_the_fault_that_was_ordered(s3, mode, more, said, there):
    s3.fault(mode, "PUT", "snap", nth=1, count=1, **more)
    store = client(s3, timeout="150ms" if "ms" in more else "60s")
    assert create(client(s3), "other", b"1") == "done"
    assert create(store, "snap", b"1") == said
    if there:
        until(lambda: "snap" in s3.listing())
    elif there is not None:
        assert "snap" not in s3.listing()
    s3.settle()
    if mode == "defer":
        assert "snap" in s3.listing()


def test_a_deferred_effect_comes_after_so_many_requests(s3):
    store = client(s3)
    s3.fault("defer", "PUT", "snap", after=2)
    assert create(store, "snap", b"1") == "GenericError"
    for there in (False, True):
        with pytest.raises(FileNotFoundError):
            obstore.head(store, "none")
        assert ("snap" in s3.listing()) is there


def test_reads_are_cut_short_or_spoilt_on_order(s3):
    s3.bucket().put("a", b"0123456789", 0)
    store = client(s3, retries=QUICK)
    s3.fault("cut", "GET")
    assert bytes(obstore.get(store, "a").bytes()) == b"0123456789"  # the client resumes
    s3.forget()
    s3.fault("short", "GET")
    assert bytes(obstore.get_range(store, "a", start=0, length=8)) == b"0123"
    s3.forget()
    s3.fault("flip", "GET")
    assert bytes(obstore.get(store, "a").bytes()) == b"0123446789"


def test_conditions_may_be_ignored_or_refused(s3):
    store = client(s3)
    s3.conditions = "ignored"
    assert [create(store, "a", b"1"), create(store, "a", b"2")] == ["done", "done"]
    s3.conditions = "refused"
    assert create(store, "b", b"1") == "GenericError"
    assert s3.listing() == ["a"]


def test_keys_regions_and_clocks_are_checked_if_told(s3):
    s3.read_only = {"reader"}
    assert create(client(s3, key_id="reader"), "a", b"1") == "PermissionDeniedError"
    s3.key_ids = {KEY_ID}
    with pytest.raises(PermissionDeniedError, match="InvalidAccessKeyId"):
        obstore.get(client(s3, key_id="nobody"), "a")
    s3.region = "eu-west-1"
    with pytest.raises(BaseError, match="expecting 'eu-west-1'"):
        obstore.get(client(s3), "a")
    s3.region = None
    s3.clock_offset_s = 3600
    with pytest.raises(BaseError, match="RequestTimeTooSkewed"):
        obstore.get(client(s3), "a")


def test_gcs_puts_with_its_own_condition(s3):
    fields = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    key = json.dumps({"gcs_base_url": s3.url, "disable_oauth": True, **fields})
    store = GCSStore("lake", service_account_key=key, client_options={"allow_http": True})
    assert create(store, "a", b"1") == "done"
    assert create(store, "a", b"2") == "AlreadyExistsError"
    assert s3.bucket().get("a").data == b"1"


def test_requests_are_counted_in_rounds_and_in_flight(s3):
    s3.latency_ms = 20
    store = client(s3)
    for i in range(3):
        obstore.put(store, f"k{i}", b"12345678" * 100)
    assert (s3.count("PUT"), s3.rounds, s3.in_flight_max) == (3, 3, 1)
    s3.forget()
    s3.latency_ms = 500  # on a busy machine the three are sent over some time
    parts = obstore.get_ranges(store, "k0", starts=[0, 100, 300], lengths=[8, 8, 8], coalesce=0)
    assert len(parts) == 3
    assert (s3.count("GET", "k0"), s3.rounds, s3.in_flight_max) == (3, 1, 3)


def test_two_servers_know_nothing_of_each_other():
    with S3Server(["one"]) as one, S3Server(["two"]) as two:
        obstore.put(client(one, bucket="one"), "a", b"1")
        assert one.listing(bucket="one") == ["a"]
        assert two.listing(bucket="two") == []
        with pytest.raises(AlreadyExistsError):
            obstore.put(client(one, bucket="one"), "a", b"1", mode="create")
