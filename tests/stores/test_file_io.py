"""MinIO and Azurite keep the promises of a FileIO, as our own S3 of the unit tests does."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from unit.fileio.object_store import test_file_io

from tidelake.errors import (
    CorruptError,
    InvalidInputError,
    StorageError,
    TidelakeError,
)
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env

PART = test_file_io.PART


def opened(store, uri, **more):
    return open_storage(parse_location(uri), store.storage(**more), Env.seeded(1))


@pytest.fixture
def place(store):
    """A URI below which nothing is."""
    return store.fresh()


@pytest.fixture
def files(store, place):
    return opened(store, place)


@pytest.fixture
def root(place):
    return parse_location(place).path


class TestRealStore(test_file_io.TestObjectStore):
    """Nothing differs."""


def test_a_large_file_is_uploaded_in_parts_and_shows_when_it_is_whole(files, root):
    piece = os.urandom(1 << 20)
    output = files.open_output(f"{root}/big")
    for _ in range(20):
        output.write(piece)
    assert not files.exists(f"{root}/big")
    output.close()
    assert files.size(f"{root}/big") == 20 << 20
    found = files.read_ranges(f"{root}/big", [(0, 256), (PART - 100, 200), ((20 << 20) - 256, 256)])
    expected = [piece[:256], piece[-100:] + piece[:100], piece[-256:]]
    assert [bytes(part) for part in found] == expected
    aborted = files.open_output(f"{root}/none")
    aborted.write(bytes(2 * PART))
    aborted.abort()
    assert [status.name for status in files.list_dir(root)] == ["big"]


def test_a_listing_has_all_pages(files, root):
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda i: files.write_once(f"{root}/d/{i:04d}", b""), range(1_100)))
    files.write_once(f"{root}/dd/x", b"")
    assert len(files.list_dir(f"{root}/d")) == 1_100
    files.delete_dir(f"{root}/d")
    assert [status.name for status in files.list_dir(root)] == ["dd"]


def test_what_is_wrong_is_said_and_no_key_with_it(store):
    secret = next(
        value for key, value in store.options.items() if key.endswith(("t-key", "nt-key"))
    )

    def refused(call, kinds):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.kind in kinds
        assert secret not in str(caught.value)
        return caught.value

    uri = f"{store.scheme}://none/w"
    refused(lambda: opened(store, uri).list_dir("/w"), {"bucket_not_found"})
    wrong = {"s3": {"secret-key": "wrong"}, "az": {"account-key": "d3Jvbmc="}}[store.scheme]
    files = opened(store, store.fresh(), **wrong)
    # Azurite answers as to a key without the right
    refused(
        lambda: files.exists("/x"), {"credentials" if store.scheme == "s3" else "no_permission"}
    )
    broken = {"s3": {}, "az": {"account-key": "no base64!"}}[store.scheme]
    if broken:
        with pytest.raises(InvalidInputError):
            opened(store, store.fresh(), **broken).exists("/x")


def test_a_short_range_is_refused_wherever_it_begins(files, root):
    files.write_once(f"{root}/a", b"0123456789")
    for offset, length in ((8, 4), (10, 1), (11, 5)):
        with pytest.raises(CorruptError):
            files.read_range(f"{root}/a", offset, length)


def test_a_put_that_lost_says_so_however_often(files, root):
    """And by one thread of many, over and over."""
    for i in range(20):
        with ThreadPoolExecutor(8) as threads:
            won = list(
                threads.map(
                    lambda who, i=i: files.put_if_absent(f"{root}/n/{i}", bytes([who])), range(8)
                )
            )
        assert won.count(True) == 1
        assert files.read_bytes(f"{root}/n/{i}") == bytes([won.index(True)])
    with pytest.raises(TidelakeError):
        files.write_once(f"{root}/n/0", b"x")
