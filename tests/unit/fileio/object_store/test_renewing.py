"""Keys that end: asked for before each request, and renewed when the store calls them expired."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidelake.errors import NotFoundError, StorageError, StorageRefusedError, UnsupportedError
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import Credentials
from tidelake.fileio.object_store.output import PART_BYTES
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env

SECRET = "vended-secret-"
HOUR_MS = 3_600_000


class Source:
    """Gives keys by number; fails once there are no more of them."""

    def __init__(self, keys_max=100):
        self.number, self.keys_max, self.asked = 0, keys_max, 0
        self._keys, self._lock = None, threading.Lock()

    def current(self):
        self.asked += 1
        return self._keys or self.renewed(None)

    def renewed(self, old):
        with self._lock:
            if self._keys is not old:
                return self._keys
            if self.number == self.keys_max:
                message = "The server gives no keys today."
                raise StorageError(message)
            self.number += 1
            options = {
                "fs.s3a.access.key": f"vended-{self.number}",
                "fs.s3a.secret.key": f"{SECRET}{self.number}",
                "fs.s3a.session.token": f"session-{self.number}",
            }
            self._keys = Credentials(options, 1 << 60)
            return self._keys

    @property
    def secrets(self):
        return tuple(f"{SECRET}{n}" for n in range(1, self.number + 1))


class EndingAt:
    """The session tokens that have ended: that of the nth request that has one, from then on."""

    def __init__(self, nth):
        self.left, self.ended = nth, set()

    def __contains__(self, token):
        if token:
            self.left -= 1
            if self.left == 0:
                self.ended.add(token)
        return token in self.ended


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def files(s3, source):
    keys = {"s3.endpoint": s3.url, "s3.retries": "2"}
    made = open_storage(parse_location("s3://lake/w"), keys, Env.system(), credentials=source)
    made.write_once("/w/first", b"1")  # the place is checked
    s3.forget()
    return made


def work(files, number):
    """Call each operation once."""
    place = f"/w/t{number}"
    files.make_dirs(place)
    files.write_once(f"{place}/a", b"abc")
    assert files.put_if_absent(f"{place}/b", b"b") is True
    assert files.put_if_absent(f"{place}/b", b"c") is False
    files.replace(f"{place}/hint", b"1")
    output = files.open_output(f"{place}/data")
    output.write(b"0123456789")
    output.close()
    assert files.read_bytes(f"{place}/a") == b"abc"
    assert [bytes(part) for part in files.read_ranges(f"{place}/data", [(1, 2), (5, 1)])] == [
        b"12",
        b"5",
    ]
    assert files.open_input(f"{place}/data").read() == b"0123456789"
    assert files.size(f"{place}/a") == 3
    assert files.exists(f"{place}/a")
    assert not files.exists(f"{place}/none")
    assert sorted(entry.name for entry in files.list_dir(place)) == ["a", "b", "data", "hint"]
    assert files.delete(f"{place}/hint") is True
    files.delete_dir(place)
    assert files.list_dir(place) == []
    with pytest.raises(NotFoundError):
        files.read_bytes(f"{place}/a")


@pytest.mark.parametrize("status", [400, 403])
def test_each_request_may_find_its_keys_expired(s3, files, source, status):
    s3.expired_status = status
    work(files, 0)
    count = s3.count()
    assert source.number == 1
    for nth in range(1, count + 1):
        s3.expired_tokens = EndingAt(nth)
        work(files, nth)
        assert source.number == nth + 1
    assert {request.key_id for request in s3.requests} == {
        f"vended-{n}" for n in range(1, count + 2)
    }


def test_a_listing_goes_on_behind_the_last_name(s3, files, source):
    names = [f"w/t/{n:03d}" for n in range(25)]
    for name in names:
        s3.bucket().put(name, b"", 0)
    s3.page_keys = 10
    s3.expired_tokens = EndingAt(2)  # the second page
    files.delete_dir("/w/t")
    assert s3.listing("w/t") == []
    assert source.number == 2


def test_a_store_that_has_forgotten_the_keys_gets_others(s3, files, source):
    s3.key_ids = {"vended-2"}
    assert files.read_bytes("/w/first") == b"1"
    assert source.number == 2


def test_a_right_that_is_missing_is_told_after_one_renewal(s3, files, source):
    s3.fault("status", "GET", "first", status=403, code="AccessDenied", count=9)
    with pytest.raises(StorageRefusedError, match="no right"):
        files.read_bytes("/w/first")
    assert source.number == 1  # a reason was given, and it was another
    s3.fault("status", "HEAD", "first", status=403, count=9)
    for _ in range(3):
        with pytest.raises(StorageRefusedError):
            files.size("/w/first")
    assert source.number == 2  # an answer to HEAD says no reason: once it may be the keys


def test_keys_that_are_refused_again_and_keys_that_are_not_given(s3, files, source):
    s3.expired_tokens = {f"session-{n}" for n in range(100)}
    with pytest.raises(
        StorageRefusedError, match="the catalog's server gave have expired"
    ) as refused:
        files.put_if_absent("/w/t/snapshot-1", b"x")
    assert refused.value.kind == "credentials"
    source.keys_max = source.number
    for change in (files.put_if_absent, files.write_once, files.replace):
        with pytest.raises(StorageRefusedError, match="server gives no keys today") as refused:
            change("/w/t/snapshot-1", b"x")
        assert refused.value.kind == "credentials"
    assert s3.listing("w/t") == []
    assert SECRET not in str(refused.value) + repr(refused.value.__cause__) + repr(files)


@pytest.mark.parametrize("mode", ["lost", "defer"])
def test_a_put_in_doubt_stays_in_doubt_when_the_keys_end(s3, files, source, mode):
    """The first put may have its effect: that a later one was refused does not undo it."""
    source.keys_max = 1
    s3.fault(mode, "PUT", "snapshot-1", after=1000)
    s3.expired_tokens = EndingAt(2)
    with pytest.raises(StorageError, match="unknown whether it is there") as unknown:
        files.put_if_absent("/w/t/snapshot-1", b"x")
    assert not isinstance(unknown.value, StorageRefusedError)


def test_a_long_upload_gets_new_keys_in_time(s3, files, source):
    output = files.open_output("/w/t/long")
    output.write(b"x" * 2 * PART_BYTES)
    give_up = time.monotonic() + 60
    while not part_keys(s3):  # the thread that uploads may be late
        assert time.monotonic() < give_up, "no part was sent"
        time.sleep(0.01)
    source.renewed(source.current())
    output.write(b"x" * 2 * PART_BYTES)
    output.close()
    assert len(s3.bucket().get("w/t/long").data) == 4 * PART_BYTES
    assert part_keys(s3) == {"vended-1", "vended-2"}


def part_keys(s3):
    """The keys that parts of uploads came with."""
    return {request.key_id for request in s3.requests if "partNumber" in request.target}


def test_an_upload_whose_keys_end_at_once_fails_and_shows_nothing(s3, files, source):
    output = files.open_output("/w/t/long")
    s3.expired_tokens = EndingAt(3)  # after looking for the name, and the beginning

    def go_on():
        for _ in range(4):
            output.write(b"x" * PART_BYTES)
        output.close()

    with pytest.raises(StorageRefusedError, match="expired: try again"):
        go_on()
    output.abort()
    assert s3.listing("w/t") == []
    assert source.number == 2
    files.write_once("/w/t/long", b"x")


def test_of_many_threads_one_renews(s3, files, source):
    s3.expired_tokens = {"session-1"}
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda _: files.read_bytes("/w/first"), range(32)))
    assert read == [b"1"] * 32
    assert source.number == 2


def test_keys_of_other_storages_are_named_and_not_shown():
    with pytest.raises(UnsupportedError, match=r"fs\.oss\.accessKeyId") as raised:
        Credentials({"fs.oss.accessKeyId": "hidden"}, 1).s3_keys()
    assert "hidden" not in str(raised.value)
