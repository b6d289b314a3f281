"""The failing storage keeps the contract without faults, and fails as planned with them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from unit.fileio.contract import FileIOContract

from tidelake.errors import AlreadyExistsError, NotFoundError, StorageError, StorageRefusedError
from tidelake.fileio import MemoryFileIO, put_new
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash


class TestFaultyFileIOWithoutFaults(FileIOContract):
    @pytest.fixture
    def files(self):
        return FaultyFileIO(MemoryFileIO())

    @pytest.fixture
    def root(self):
        return "/root-of-the-test"


@pytest.fixture
def inner():
    return MemoryFileIO()


def test_an_error_before_leaves_no_effect_and_one_after_does(inner):
    files = FaultyFileIO(inner, {1: FaultMode.EIO_BEFORE, 2: FaultMode.EIO_AFTER})
    with pytest.raises(StorageError):
        files.put_if_absent("/a", b"1")
    with pytest.raises(StorageError):
        files.put_if_absent("/b", b"1")
    assert not inner.exists("/a")
    assert inner.read_bytes("/b") == b"1"
    assert files.put_if_absent("/a", b"1") is True


def test_an_error_after_hides_what_the_storage_would_have_answered(inner):
    files = FaultyFileIO(inner, {1: FaultMode.EIO_AFTER})
    with pytest.raises(StorageError, match="fault of call 1"):
        files.size("/missing")
    with pytest.raises(NotFoundError):
        files.size("/missing")


@pytest.mark.parametrize(
    ("mode", "there"), [(FaultMode.CRASH_BEFORE, False), (FaultMode.CRASH_AFTER, True)]
)
def test_after_a_crash_every_call_is_refused(inner, mode, there):
    files = FaultyFileIO(inner, {2: mode})
    output = files.open_output("/o")
    with pytest.raises(SimulatedCrash):
        files.put_if_absent("/a", b"1")
    assert inner.exists("/a") is there
    for call in (
        lambda: files.delete("/a"),
        lambda: files.exists("/a"),
        lambda: output.write(b"x"),
        output.close,
        output.abort,
    ):
        with pytest.raises(SimulatedCrash):
            call()
    assert inner.exists("/a") is there
    assert len(files.trace) == 2


def test_a_crash_is_no_exception():
    assert not issubclass(SimulatedCrash, Exception)


def test_a_torn_write_leaves_half_but_a_torn_put_nothing_under_the_name(inner):
    with pytest.raises(SimulatedCrash):
        FaultyFileIO(inner, {1: FaultMode.TORN}).write_once("/w", b"12345678")
    with pytest.raises(SimulatedCrash):
        FaultyFileIO(inner, {1: FaultMode.TORN}).replace("/hint", b"12345678")
    with pytest.raises(SimulatedCrash):
        FaultyFileIO(inner, {1: FaultMode.TORN}).put_if_absent("/p", b"12345678")
    assert inner.read_bytes("/w") == b"1234"
    assert inner.read_bytes("/hint") == b"1234"
    assert not inner.exists("/p")
    assert any(s.name.startswith(".torn") for s in inner.list_dir("/"))


def test_a_torn_output_is_there_in_half(inner):
    files = FaultyFileIO(inner, {2: FaultMode.TORN})
    output = files.open_output("/o")
    output.write(b"12345678")
    with pytest.raises(SimulatedCrash):
        output.close()
    assert inner.read_bytes("/o") == b"1234"


def test_a_full_disk_while_writing_can_be_cleaned_up(inner):
    files = FaultyFileIO(inner, {2: FaultMode.ENOSPC})
    output = files.open_output("/o")
    output.write(b"12345678")
    with pytest.raises(StorageError) as caught:
        output.close()
    assert caught.value.kind == "no_space"
    output.abort()
    assert not inner.exists("/o")


def test_a_full_disk_refuses_a_put_and_an_error_does_not_say(inner):
    files = FaultyFileIO(inner, {1: FaultMode.ENOSPC, 2: FaultMode.EIO_BEFORE})
    with pytest.raises(StorageRefusedError):
        files.put_if_absent("/a", b"1")
    with pytest.raises(StorageError) as caught:
        files.put_if_absent("/a", b"1")
    assert not isinstance(caught.value, StorageRefusedError)


def test_calls_within_a_directory_that_is_held_fail_as_others_do(inner):
    inner.make_dirs("/d")
    files = FaultyFileIO(inner, {3: FaultMode.EIO_BEFORE})
    with files.open_dir("/d") as held:
        files.put_if_absent("/d/a", b"1", within=held)
        with pytest.raises(StorageError):
            files.exists("/d/a", within=held)
        files.delete("/d/a", within=held)
    assert [(e.op, e.path) for e in files.trace] == [
        ("open_dir", "/d"),
        ("put_if_absent", "/d/a"),
        ("exists", "/d/a"),
        ("delete", "/d/a"),
    ]


def test_a_replayed_put_sees_its_own_file(inner):
    files = FaultyFileIO(inner, {1: FaultMode.DUP, 2: FaultMode.DUP})
    assert files.put_if_absent("/a", b"1") is False
    assert inner.read_bytes("/a") == b"1"
    assert files.delete("/a") is False
    assert not inner.exists("/a")


def test_listings_can_be_old_or_empty(inner):
    plan = {3: FaultMode.STALE_LIST, 4: FaultMode.EMPTY_LIST}
    files = FaultyFileIO(inner, plan)
    files.write_once("/d/a", b"1")
    files.write_once("/d/b", b"1")
    assert [s.name for s in files.list_dir("/d")] == ["a"]
    assert files.list_dir("/d") == []
    assert len(files.list_dir("/d")) == 2


def test_a_conflict_is_reported_where_nothing_is_and_nothing_happens(inner):
    inner.make_dirs("/d")
    files = FaultyFileIO(inner, dict.fromkeys((1, 2, 3, 6), FaultMode.CONFLICT))
    assert files.put_if_absent("/a", b"1") is False
    with pytest.raises(AlreadyExistsError):
        files.write_once("/b", b"1")
    with pytest.raises(AlreadyExistsError):
        files.move_dir("/d", "/e")
    output = files.open_output("/o")
    output.write(b"1")
    with pytest.raises(AlreadyExistsError):
        output.close()
    output.abort()
    assert [status.name for status in inner.list_dir("/")] == ["d"]
    assert files.put_if_absent("/a", b"2") is True


@pytest.mark.parametrize("late_calls", [1, 3])
def test_a_late_effect_comes_after_so_many_calls_that_see_nothing(inner, late_calls):
    files = FaultyFileIO(inner, {1: FaultMode.LATE}, late_calls=late_calls)
    with pytest.raises(StorageError) as caught:
        files.put_if_absent("/a", b"1")
    assert not isinstance(caught.value, StorageRefusedError)
    assert [files.exists("/a") for _ in range(late_calls)] == [False] * late_calls
    assert files.put_if_absent("/a", b"2") is False
    assert inner.read_bytes("/a") == b"1"
    assert files.settle() is False


def test_a_late_put_overwrites_nothing_and_a_late_file_comes_though_it_was_aborted(inner):
    files = FaultyFileIO(inner, dict.fromkeys((1, 5), FaultMode.LATE), late_calls=99)
    with pytest.raises(StorageError):
        files.put_if_absent("/a", b"1")
    assert files.put_if_absent("/a", b"2") is True
    output = files.open_output("/o")
    output.write(b"whole")
    with pytest.raises(StorageError):
        output.close()
    output.abort()
    assert not inner.exists("/o")
    assert files.settle() is True
    assert (inner.read_bytes("/a"), inner.read_bytes("/o")) == (b"2", b"whole")


def test_a_late_put_into_an_open_directory_goes_to_its_path(inner):
    inner.make_dirs("/d")
    files = FaultyFileIO(inner, {2: FaultMode.LATE}, late_calls=99)
    with files.open_dir("/d") as held, pytest.raises(StorageError):
        files.put_if_absent("/d/a", b"1", within=held)
    inner.delete_dir("/d")
    files.settle()
    assert inner.read_bytes("/d/a") == b"1"


def test_a_name_that_is_called_taken_is_looked_at(inner):
    files = FaultyFileIO(inner, {1: FaultMode.CONFLICT})
    assert put_new(files, "/a", b"1") is True
    assert put_new(files, "/a", b"2") is False
    lies = FaultyFileIO(inner, dict.fromkeys(range(1, 9), FaultMode.CONFLICT))
    with pytest.raises(StorageError, match="does not show it") as caught:
        put_new(lies, "/b", b"1")
    assert caught.value.kind == "name_contradicted"
    assert not inner.exists("/b")


def test_a_mode_that_makes_no_sense_leaves_the_call_alone(inner):
    plan = {1: FaultMode.STALE_LIST, 2: FaultMode.DUP, 3: FaultMode.TORN}
    files = FaultyFileIO(inner, plan)
    assert files.put_if_absent("/a", b"1")
    assert files.exists("/a")
    assert files.size("/a") == 1
    assert [entry.mode for entry in files.trace] == [None, None, None]


def test_the_trace_numbers_every_call_and_writes_come_in_blocks(inner):
    files = FaultyFileIO(inner)
    output = files.open_output("/o")
    for _ in range(1000):
        output.write(b"x" * 1000)
    output.close()
    files.exists("/o")
    assert [(e.call, e.op) for e in files.trace] == [
        (1, "open_output"),
        (2, "write"),
        (3, "close"),
        (4, "exists"),
    ]


@pytest.mark.parametrize("mode", [FaultMode.CRASH_BEFORE, FaultMode.EIO_BEFORE])
def test_a_fault_passes_through_arrow_unchanged(inner, mode):
    files = FaultyFileIO(inner, {2: mode})
    output = files.open_output("/o")
    sink = pa.PythonFile(output, mode="w")
    expected = SimulatedCrash if mode is FaultMode.CRASH_BEFORE else StorageError
    with pytest.raises(expected):
        sink.write(bytes(5 << 20))
