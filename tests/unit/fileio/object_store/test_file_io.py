"""A bucket keeps the promises of a FileIO; where it cannot, it refuses or says what differs."""

from __future__ import annotations

import os

import obstore
import pytest
from unit.fileio.contract import FileIOContract

from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, file_io, output, parse_settings
from tidelake.telemetry import Env

PART = 8 << 20


def bucket(s3, *, root="s3://lake/w", **more):
    settings = parse_settings("s3", s3.storage(**more))
    return ObjectStoreFileIO(parse_location(root), settings, Env.seeded(1))


@pytest.fixture
def files(s3):
    return bucket(s3)


@pytest.fixture
def root():
    return "/w"


class TestObjectStore(FileIOContract):
    """What no bucket can do is said in place of the common test."""

    def test_a_written_file_is_never_written_over(self, files, root):
        files.write_once(f"{root}/a", b"1")
        with pytest.raises(AlreadyExistsError, match=f"{root}/a"):
            files.write_once(f"{root}/a", b"2")
        output = files.open_output(f"{root}/a")
        output.write(b"3")
        with pytest.raises(AlreadyExistsError):
            output.close()
        large = files.open_output(f"{root}/a")
        with pytest.raises(AlreadyExistsError):
            large.write(bytes(PART + 1))
        assert files.read_bytes(f"{root}/a") == b"1"

    def test_a_directory_is_held_where_there_is_one_or_its_parent(self, files, root):
        files.make_dirs(root)
        for make in (False, True):
            with pytest.raises(NotFoundError, match="none") as caught:
                files.open_dir(f"{root}/none/snapshot", make=make)
            assert caught.value.kind == "directory_not_found"
        with pytest.raises(NotFoundError):
            files.open_dir(f"{root}/snapshot")
        assert files.list_dir(root) == []
        files.open_dir(f"{root}/snapshot", make=True).close()

    def test_nothing_is_put_into_a_directory_that_was_removed(self, files, root):
        """It is: commits check the table's schema before and after a put."""
        files.make_dirs(f"{root}/t/snapshot")
        held = files.open_dir(f"{root}/t/snapshot")
        files.delete_dir(f"{root}/t")
        assert files.put_if_absent(f"{root}/t/snapshot/a", b"1", within=held) is True
        with pytest.raises(NotFoundError):
            files.open_dir(f"{root}/u/snapshot")

    def test_a_directory_that_is_held_is_the_same_under_another_name(self, files, root):
        files.write_once(f"{root}/d/a", b"1")
        with pytest.raises(UnsupportedError, match="cannot be renamed"):
            files.move_dir(f"{root}/d", f"{root}/e")

    def test_move_dir_takes_all_below_and_writes_over_nothing(self, files, root):
        with pytest.raises(UnsupportedError) as caught:
            files.move_dir(f"{root}/d", f"{root}/e")
        assert caught.value.kind == "no_atomic_move"

    def test_listing_a_file_is_refused(self, files, root):
        files.write_once(f"{root}/a", b"1")
        assert files.list_dir(f"{root}/a") == []

    def test_delete_of_a_directory_is_refused(self, files, root):
        files.make_dirs(f"{root}/d")
        assert files.delete(f"{root}/d") is False
        assert files.exists(f"{root}/d")

    def test_make_dirs_twice_is_fine_but_not_over_a_file(self, files, root):
        files.make_dirs(f"{root}/a/b")
        files.make_dirs(f"{root}/a/b")
        assert [status.name for status in files.list_dir(f"{root}/a")] == ["b"]

    def test_the_name_of_an_open_output_is_taken(self, files, root):
        """It is free until the file is whole: names of files are unique."""
        output = files.open_output(f"{root}/o")
        output.write(b"1")
        assert not files.exists(f"{root}/o")
        output.abort()


def test_a_large_file_is_uploaded_in_parts_and_shows_when_it_is_whole(s3, files):
    output = files.open_output("/w/big")
    piece = bytes(range(256)) * 4096
    for _ in range(20):
        output.write(piece)
    assert s3.listing("w/big") == []
    assert output.tell() == 20 << 20
    output.close()
    assert s3.bucket().get("w/big").data == piece * 20
    assert s3.uploads == []
    assert s3.count("PUT", "partNumber") == 3


def test_an_aborted_or_failed_upload_leaves_nothing(s3, files):
    output = files.open_output("/w/big")
    output.write(bytes(2 * PART))
    output.abort()
    assert (s3.listing("w/big"), s3.uploads) == ([], [])
    s3.fault("status", "PUT", "partNumber=2", status=403, code="AccessDenied")
    output = files.open_output("/w/big")
    with pytest.raises(StorageError, match="no right") as caught:  # noqa: PT012
        for _ in range(4):
            output.write(bytes(PART))
        output.close()
    assert caught.value.kind == "no_permission"
    output.abort()
    assert (s3.listing("w/big"), s3.uploads) == ([], [])


class Panic(BaseException):
    """As a client's compiled part ends."""


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (RuntimeError("can't start new thread"), StorageError),
        (Panic("index out of bounds"), StorageError),
        (MemoryError("no room"), MemoryError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_upload_that_ends_by_whatever_error_is_not_whole(
    s3, files, monkeypatch, failure, expected
):
    original = output._Upload._iterate

    def iterate(upload):
        yield from original(upload)
        raise failure

    monkeypatch.setattr(output._Upload, "_iterate", iterate)
    file = files.open_output("/w/big")
    file.write(bytes(PART + 5))
    with pytest.raises(expected, match=str(failure)):
        file.close()
    assert not file.closed
    file.abort()
    assert (s3.listing("w/big"), s3.uploads) == ([], [])


def test_an_upload_whose_last_answer_is_lost_is_whole(s3):
    files = bucket(s3, **{"s3.retries": "1"})
    s3.fault("lost", "POST", "uploadId")
    output = files.open_output("/w/big")
    output.write(bytes(PART + 5))
    output.close()
    assert files.size("/w/big") == PART + 5


def test_what_a_store_gives_short_is_damage_not_data(s3, files):
    s3.bucket().put("w/a", b"0123456789" * 20_000, 0)
    s3.fault("short", "GET", "w/a", count=9)
    for read in (
        lambda: files.read_range("/w/a", 0, 10),
        lambda: files.read_ranges("/w/a", [(0, 10), (20, 10)]),
    ):
        with pytest.raises(CorruptError) as caught:
            read()
        assert caught.value.kind == "file_truncated"
    with pytest.raises(StorageError, match="/w/a"):
        files.open_input("/w/a")


def test_a_range_past_the_end_is_said_without_what_the_client_shows(s3, files, monkeypatch):
    s3.bucket().put("w/a", b"0123456789", 0)
    monkeypatch.setattr(file_io.Bucket, "cause", lambda *_: None)
    with pytest.raises(CorruptError) as caught:
        files.read_range("/w/a", 100, 10)
    assert caught.value.__cause__ is None


def test_an_opened_file_has_its_end_from_one_request(s3, files):
    data = bytes(i % 251 for i in range(200_000))
    s3.bucket().put("w/a", data, 0)
    s3.bucket().put("w/empty", b"", 0)
    files.exists("/w/a")
    s3.forget()
    with files.open_input("/w/a") as file:
        assert file.size() == len(data)
        file.seek(-1000, 2)
        assert file.read(1000) == data[-1000:]
        assert s3.count() == 1
        file.seek(10)
        assert file.read(20) == data[10:30]
        assert file.read() == data[30:]
    with files.open_input("/w/empty") as file:
        assert (file.size(), file.read()) == (0, b"")


def test_a_listing_has_all_pages_and_no_marker(s3, files):
    s3.page_keys = 3
    keys = [f"w/d/f{i}" for i in range(8)] + [f"w/d/s{i}/x" for i in range(5)]
    for key in [*keys, "w/d/.tidelake-directory", "w/d/s1/"]:
        s3.bucket().put(key, b"", 0)
    found = {(status.name, status.is_dir) for status in files.list_dir("/w/d")}
    assert found == {(f"f{i}", False) for i in range(8)} | {(f"s{i}", True) for i in range(5)}
    files.delete_dir("/w/d")
    assert s3.listing("w/d") == ["w/d/s1/"]  # the client cannot name what others make of it


def test_a_delete_of_a_directory_whose_request_failed_asks_again(s3, files):
    """The client sends it once, and a store may have closed the connection meanwhile."""
    for name in "abc":
        files.write_once(f"/w/d/{name}", b"1")
    s3.fault("drop", "POST")
    s3.fault("partial", "POST")
    files.delete_dir("/w/d")
    assert s3.listing("w/d") == []
    files.write_once("/w/d/a", b"1")
    s3.fault("status", "POST", status=403, code="AccessDenied")
    with pytest.raises(StorageRefusedError, match="no right"):
        files.delete_dir("/w/d")


def test_a_table_made_again_after_a_failed_delete_is_kept(s3, files, monkeypatch):
    files.write_once("/w/t/schema/schema-0", b"old")
    delete = obstore.delete

    def fail_and_replace(store, keys):
        monkeypatch.setattr(obstore, "delete", delete)
        s3.bucket().put("w/t/schema/schema-0", b"new", 1)
        raise obstore.exceptions.GenericError("connection reset")

    monkeypatch.setattr(obstore, "delete", fail_and_replace)
    with pytest.raises(StorageRefusedError, match="created again"):
        files.delete_dir("/w/t")
    assert s3.bucket().get("w/t/schema/schema-0").data == b"new"


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda files: [status.name for status in files.list_dir("/w/d")], ["a"]),
        (lambda files: files.exists("/w/d"), True),
        (lambda files: files.read_bytes("/w/d/a"), b"12345"),
        (lambda files: files.read_bytes("/w/d/none"), NotFoundError),
        (lambda files: files.read_range("/w/d/a", 1, 2), b"23"),
        (lambda files: files.read_range("/w/d/none", 1, 2), NotFoundError),
        (lambda files: files.open_input("/w/d/a").read(), b"12345"),
        (lambda files: files.open_input("/w/d/none"), NotFoundError),
        (lambda files: files.delete_dir("/w/d"), None),
    ],
    ids=["list", "exists", "read", "404", "range", "range 404", "open", "open 404", "delete_dir"],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_question_whose_answer_breaks_off_is_asked_again(s3, files, ask, expected, times):
    """A connection that is reset in the middle of a listing, of a file, or of a 404."""
    files.write_once("/w/d/a", b"12345")
    s3.forget()
    s3.fault("cut", "GET", count=times)
    if expected is NotFoundError:
        with pytest.raises(NotFoundError):
            ask(files)
    else:
        assert ask(files) == expected
    assert s3.count("GET") > times


def test_an_answer_that_breaks_off_each_time_is_an_error(s3, files):
    files.write_once("/w/d/a", b"1")
    s3.fault("cut", "GET", count=100)
    with pytest.raises(StorageError, match="Could not list"):
        files.list_dir("/w/d")


def test_an_empty_file_is_opened_as_minio_answers(s3, files):
    s3.empty_range = "bytes 0--1/0"
    s3.bucket().put("w/empty", b"", 0)
    with files.open_input("/w/empty") as file:
        assert (file.size(), file.read()) == (0, b"")


def put_after_the_first_delete(s3, monkeypatch, key, data):
    delete, calls = obstore.delete, []

    def then_put(store, keys):
        delete(store, keys)
        calls.append(keys)
        if len(calls) == 1:
            s3.bucket().put(key, data, 0)

    monkeypatch.setattr(obstore, "delete", then_put)


def test_a_delete_of_a_directory_takes_no_table_that_was_made_meanwhile(s3, files, monkeypatch):
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        files.write_once(f"/w/t/{name}", b"old")
    put_after_the_first_delete(s3, monkeypatch, "w/t/schema/schema-0", b"new")
    with pytest.raises(StorageRefusedError, match="created again") as caught:
        files.delete_dir("/w/t")
    assert caught.value.kind == "directory_busy"
    assert s3.bucket().get("w/t/schema/schema-0").data == b"new"


def test_a_name_that_is_put_again_while_a_directory_is_deleted_is_deleted_too(
    s3, files, monkeypatch
):
    files.write_once("/w/t/snapshot/LATEST", b"1")
    put_after_the_first_delete(s3, monkeypatch, "w/t/snapshot/LATEST", b"2")
    files.delete_dir("/w/t")
    assert s3.listing("w/t") == []


def test_keys_with_odd_characters_are_the_names(s3, files):
    names = ["a b", "ü", "x%2Fy", "p=1", "q?", "h#", "k=a%20b", "'", "+", "~"]
    for name in names:
        files.write_once(f"/w/odd/{name}/f", b"1")
    assert sorted(s3.listing("w/odd")) == sorted(f"w/odd/{name}/f" for name in names)


def test_a_forked_child_is_refused_at_once(files):
    files.write_once("/w/a", b"1")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"hangs or works"
        try:
            bucket_again = files.read_bytes("/w/a")
            said = b"read " + bucket_again
        except StorageError as error:
            said = error.kind.encode()
        os.write(write_end, said)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    assert os.read(read_end, 100) == b"forked"
    assert files.read_bytes("/w/a") == b"1"
