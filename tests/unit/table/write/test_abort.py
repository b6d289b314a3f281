"""A write that is given up while its threads work: the true error, and no file comes after it."""

from __future__ import annotations

import _thread
import pathlib
import signal
import threading
import time
import traceback

import pyarrow as pa
import pytest
from proving.paused import PausedFileIO

import tidelake
from tidelake import StorageError
from tidelake.table.handle.handle import TableHandle

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
OPTIONS = {"bucket": "4", "bucket-key": "k"}
ROWS = pa.table({"k": range(2_000), "v": ["a"] * 2_000}, schema=SCHEMA)
PAUSE_S = 0.4
INTERRUPTS = 40
WRITES_MEASURED = 3


def files_of(table) -> list[pathlib.Path]:
    place = pathlib.Path(table.paths.location)
    return [p for p in place.rglob("bucket-*/*") if p.is_file()]


def made(tmp_path, keys, fileio=None):
    return tidelake.open(str(tmp_path), fileio=fileio).create_table(
        "db.t", SCHEMA, primary_keys=keys, options=OPTIONS
    )


@pytest.fixture(params=["keyed", "appended"])
def keys(request):
    return ["k"] if request.param == "keyed" else []


def test_a_bucket_that_fails_gives_its_error_and_no_other_bucket_writes_later(tmp_path, keys):
    paused = PausedFileIO(lambda p: "bucket-3/" in p, lambda p: "bucket-1/" in p)
    table = made(tmp_path, keys, paused)

    def let_go():
        assert paused.reached.wait(20)
        time.sleep(PAUSE_S)
        paused.released.set()

    threading.Thread(target=let_go).start()
    with pytest.raises(StorageError, match="a test says so"):
        table.write(ROWS)
    assert paused.released.is_set()
    assert files_of(table) == []
    time.sleep(2 * PAUSE_S)
    assert files_of(table) == []


@pytest.mark.parametrize("interrupts", [1, 2, 5])
def test_an_interrupt_is_raised_as_such_when_no_thread_writes_any_more(tmp_path, keys, interrupts):
    paused = PausedFileIO(lambda p: "bucket-2/" in p)
    table = made(tmp_path, keys, paused)

    def interrupt():
        assert paused.reached.wait(20)
        for _ in range(interrupts):
            _thread.interrupt_main()
            time.sleep(PAUSE_S / interrupts)
        paused.released.set()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        table.write(ROWS)
    assert paused.released.is_set()
    assert files_of(table) == []
    time.sleep(PAUSE_S)
    assert files_of(table) == []
    assert table.latest_snapshot_id is None


def test_a_bucket_that_was_ready_is_given_up_with_one_that_fails(tmp_path, keys):
    """The files that its message names were nobody's."""
    paused = PausedFileIO(lambda p: "bucket-0/" in p, lambda p: "bucket-3/" in p)
    paused.released.set()
    table = made(tmp_path, keys, paused)
    with pytest.raises(StorageError, match="a test says so"):
        table.write(ROWS)
    assert files_of(table) == []


def test_interrupts_at_any_moment_leave_no_file_behind(tmp_path, keys, monkeypatch):
    """Real signals. One that comes while the commit is published may leave its files."""
    table = made(tmp_path, keys)
    published = []
    committer = TableHandle.committer

    def noted(handle):
        published.append(1)
        return committer(handle)

    monkeypatch.setattr(TableHandle, "committer", noted)
    spans = []
    for _ in range(WRITES_MEASURED):
        began = time.perf_counter()
        table.write(ROWS)
        spans.append(time.perf_counter() - began)
    span = min(spans)  # one that waited for a core would let most interrupts come too late
    interrupted, acknowledged = 0, WRITES_MEASURED
    for n in range(INTERRUPTS):
        before = set(files_of(table))
        published.clear()
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, span * (n + 1) / INTERRUPTS)
                table.write(ROWS)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            acknowledged += 1
        except KeyboardInterrupt as error:
            interrupted += 1
            where = "".join(traceback.format_exception(error))
            assert published or set(files_of(table)) == before, where
    assert interrupted > INTERRUPTS // 4
    commits, torn = divmod(table.count(), len(ROWS))
    assert not torn
    assert commits == 1 if keys else acknowledged <= commits <= acknowledged + interrupted


@pytest.fixture(autouse=True)
def _alarm_is_an_interrupt():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)
