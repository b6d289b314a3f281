"""A file of a unique name is written once, however often the storage sends it."""

import pytest

from tidelake.errors import AlreadyExistsError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import unique_file
from tidelake.metadata.unique_file import TogetherFiles, write_unique
from tidelake.telemetry import SerialExecutor
from tidelake.testing import FaultMode, FaultyFileIO


def test_a_put_that_the_storage_sent_twice_is_no_error():
    fileio = FaultyFileIO(MemoryFileIO(), {1: FaultMode.DUP})
    write_unique(fileio, "/t/a", b"ours")
    with pytest.raises(AlreadyExistsError):
        write_unique(fileio, "/t/a", b"another's")


class Remote(MemoryFileIO):
    @property
    def is_remote(self):
        return True


def waiting(files):
    together = TogetherFiles(files, SerialExecutor())
    together.write_once("/t/a", b"aa")
    together.write_once("/t/b", b"bb")
    return together


def test_files_of_a_remote_storage_are_written_when_they_must_be_there():
    files = Remote()
    together = waiting(files)
    assert not files.list_dir("/t")
    together.finish()
    assert [s.name for s in files.list_dir("/t")] == ["a", "b"]
    together.finish()  # nothing waits


def test_a_near_storage_gets_each_at_once():
    files = MemoryFileIO()
    waiting(files)
    assert [s.name for s in files.list_dir("/t")] == ["a", "b"]


def test_files_that_are_forgotten_leave_the_others_waiting():
    files = Remote()
    together = waiting(files)
    together.forget(["/t/a", "/t/never-seen"])
    together.finish()
    assert [s.name for s in files.list_dir("/t")] == ["b"]


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(unique_file, "WAITING_BYTES_MAX", 5)
    files = Remote()
    together = waiting(files)
    together.forget(["/t/b"])
    together.write_once("/t/c", b"ccc")
    assert not files.list_dir("/t")
    together.write_once("/t/d", b"d")
    assert [s.name for s in files.list_dir("/t")] == ["a", "c", "d"]


def test_a_name_that_is_called_taken_where_nothing_is_is_written_again():
    fileio = FaultyFileIO(MemoryFileIO(), {1: FaultMode.CONFLICT})
    write_unique(fileio, "/t/a", b"ours")
    assert fileio.read_bytes("/t/a") == b"ours"
    lies = FaultyFileIO(MemoryFileIO(), dict.fromkeys(range(1, 9), FaultMode.CONFLICT))
    with pytest.raises(StorageError) as caught:
        write_unique(lies, "/t/a", b"ours")
    assert caught.value.kind == "name_contradicted"
