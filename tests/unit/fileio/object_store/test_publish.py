"""A conditional put that meets a fault: never a wrong answer, and never a lost one."""

from __future__ import annotations

import pytest
from unit.fileio.object_store.test_file_io import bucket

from tidelake.errors import StorageError, StorageRefusedError

NAME = "/w/t/snapshot/snapshot-1"
STATUS = {
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
    400: "RequestTimeout",
    403: "AccessDenied",
    501: "NotImplemented",
}
DEFINITE = {403, 501}
TIMEOUT_MS = 500
"""Long enough for an honest answer on a machine that is busy."""
LATE_MS = 1000


def faults():
    """(mode, more arguments) of every fault on the wire."""
    for mode in ("lost", "drop", "dup", "defer"):
        yield mode, {}
    yield "late", {"ms": LATE_MS}
    yield "hang", {"ms": LATE_MS}
    for status, code in STATUS.items():
        yield "status", {"status": status, "code": code}
    for status in (500, 503):
        yield "status_after", {"status": status, "code": STATUS[status]}
    yield "html", {}


def named(value):
    return value if isinstance(value, str) else "-".join(map(str, value.values()))


@pytest.fixture
def files(s3):
    made = bucket(s3, **{"s3.timeout": f"{TIMEOUT_MS} ms", "s3.retries": "2"})
    made.write_once("/w/first", b"1")  # the place is checked
    s3.forget()
    return made


@pytest.mark.parametrize(("mode", "more"), [*faults()], ids=named)
def test_a_put_that_meets_one_fault_says_what_is_true(s3, files, mode, more):
    s3.fault(mode, "PUT", "snapshot-1", **more)
    if more.get("status") in DEFINITE:
        with pytest.raises(StorageRefusedError):
            files.put_if_absent(NAME, b"ours")
        assert s3.listing("w/t") == []
        return
    assert files.put_if_absent(NAME, b"ours") is True
    s3.settle()
    assert s3.bucket().get(NAME[1:]).data == b"ours"


@pytest.mark.parametrize("word", ["InstanceProfile", "NoCredentials", "metadata.google"])
def test_a_name_is_not_taken_for_what_the_client_says(s3, files, word):
    """The client's text holds the URL of the request, and so the name of the table."""
    name = f"/w/{word}/snapshot/snapshot-1"
    s3.fault("lost", "PUT", "snapshot-1")
    assert files.put_if_absent(name, b"ours") is True


@pytest.mark.parametrize(("mode", "more"), [*faults()], ids=named)
def test_a_put_whose_name_is_anothers_is_lost_whatever_happens(s3, files, mode, more):
    s3.bucket().put(NAME[1:], b"theirs", 0)
    s3.fault(mode, "PUT", "snapshot-1", **more)
    if more.get("status") in DEFINITE:
        with pytest.raises(StorageRefusedError):
            files.put_if_absent(NAME, b"ours")
    else:
        assert files.put_if_absent(NAME, b"ours") is False
    s3.settle()
    assert s3.bucket().get(NAME[1:]).data == b"theirs"


def test_equal_bytes_of_another_are_anothers(s3, files):
    """The mark tells them apart: two creators of one schema write the same text."""
    assert files.put_if_absent(NAME, b"same") is True
    assert files.put_if_absent(NAME, b"same") is False
    assert files.put_if_absent(NAME, b"same") is False


def test_a_store_that_keeps_no_marks_is_judged_by_the_bytes(s3, files):
    s3.keeps_metadata = False
    s3.fault("lost", "PUT", "snapshot-1")
    assert files.put_if_absent(NAME, b"ours") is True
    assert files.put_if_absent(NAME, b"other") is False


def test_a_name_is_not_given_up_while_the_put_may_still_land(s3, files):
    """The first put lands after a read said absent; the second one is our own, refused."""
    s3.fault("defer", "PUT", "snapshot-1", after=2)
    assert files.put_if_absent(NAME, b"ours") is True
    assert s3.bucket().get(NAME[1:]).data == b"ours"


def test_a_put_that_never_comes_through_is_unknown_not_refused(s3, files):
    s3.fault("drop", "PUT", "snapshot-1", count=99)
    with pytest.raises(StorageError, match="unknown") as caught:
        files.put_if_absent(NAME, b"ours")
    assert not isinstance(caught.value, StorageRefusedError)
    assert caught.value.kind == "outcome_unknown"


def test_a_right_that_is_lost_after_an_unclear_put_is_no_refusal(s3, files):
    s3.fault("defer", "PUT", "snapshot-1", after=50)
    s3.fault("status", "PUT", "snapshot-1", nth=2, count=9, status=403, code="AccessDenied")
    with pytest.raises(StorageError) as caught:
        files.put_if_absent(NAME, b"ours")
    assert not isinstance(caught.value, StorageRefusedError)
    s3.settle()
    assert s3.bucket().get(NAME[1:]).data == b"ours"


def test_a_put_is_one_request_and_a_lost_race_two(s3, files):
    assert files.put_if_absent(NAME, b"ours")
    assert s3.count() == 1
    assert not files.put_if_absent(NAME, b"other")
    assert s3.count() == 3


@pytest.mark.parametrize("conditions", ["ignored", "refused"])
def test_a_store_without_conditions_is_refused_before_anything_is_written(s3, conditions):
    s3.conditions = conditions
    files = bucket(s3)
    for write in (files.write_once, files.put_if_absent):
        with pytest.raises(StorageRefusedError, match="conditional writes") as caught:
            write("/w/a", b"1")
        assert caught.value.kind == "store_not_safe"
        assert caught.value.message.endswith(
            "'commit.lock' = 'catalog', which is as safe as Java's lock and no safer."
        )
    assert s3.listing() == []


def test_a_place_is_tested_once_in_a_process(s3):
    files = bucket(s3)
    files.write_once("/w/a", b"1")
    before = s3.count()
    files.write_once("/w/b", b"1")
    bucket(s3).write_once("/w/c", b"1")
    assert s3.count() == before + 2
    assert s3.listing() == ["w/a", "w/b", "w/c"]


def test_the_test_of_a_place_lists_no_more_than_its_own(s3):
    s3.page_keys = 2
    for i in range(9):
        s3.bucket().put(f"w/{i}", b"", 0)
    bucket(s3).write_once("/w/a", b"1")
    assert s3.count("GET", "list-type") == 2
    assert s3.listing() == [*(f"w/{i}" for i in range(9)), "w/a"]
