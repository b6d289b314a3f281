"""The local storage keeps the contract, publishes by link, and says what the system said."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys

import pytest
from unit.fileio.contract import FileIOContract

from tidelake.errors import StorageError, StorageRefusedError
from tidelake.fileio import LocalFileIO
from tidelake.telemetry import SeededIds

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@pytest.fixture
def files():
    return LocalFileIO(SeededIds(1))


@pytest.fixture
def root(tmp_path):
    return str(tmp_path)


class TestLocalFileIO(FileIOContract):
    pass


def _failing(code):
    def call(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    return call


def test_it_pickles(files, root):
    copy = pickle.loads(pickle.dumps(LocalFileIO()))
    copy.write_once(f"{root}/a", b"1")
    assert files.read_bytes(f"{root}/a") == b"1"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_directory_that_may_not_be_written_is_told_from_one_that_fails(
    files, root, monkeypatch, code
):
    files.open_dir(f"{root}/there", make=True).close()
    monkeypatch.setattr(os, "mkdir", _failing(code))
    with pytest.raises(StorageRefusedError, match=os.strerror(code)) as caught:
        files.open_dir(f"{root}/new", make=True)
    assert caught.value.kind == "not_writable"
    monkeypatch.setattr(os, "open", _failing(code))
    with pytest.raises(StorageError, match=os.strerror(code)) as caught:
        files.open_dir(f"{root}/there")
    assert caught.value.kind == "storage"


NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


@pytest.mark.parametrize("code", [*NO_LINKS, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_link_that_is_refused_certainly_changed_nothing(files, root, monkeypatch, code):
    monkeypatch.setattr(os, "link", _failing(code))
    with pytest.raises(StorageRefusedError, match=os.strerror(code)) as caught:
        files.put_if_absent(f"{root}/snapshot-1", b"1")
    is_full = code in {errno.ENOSPC, errno.EDQUOT}
    other = "no_space" if is_full else "not_writable"
    assert caught.value.kind == ("no_hard_links" if code in NO_LINKS else other)
    assert files.list_dir(root) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.EINTR])
def test_a_link_without_an_answer_may_have_changed_something(files, root, monkeypatch, code):
    monkeypatch.setattr(os, "link", _failing(code))
    with pytest.raises(StorageError, match="publish") as caught:
        files.put_if_absent(f"{root}/snapshot-1", b"1")
    assert not isinstance(caught.value, StorageRefusedError)


def test_a_name_that_may_not_be_durable_was_put(files, root, monkeypatch):
    synced, fsync = [], os.fsync

    def fails_on_the_directory(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "no space")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fails_on_the_directory)
    with pytest.raises(StorageError) as caught:
        files.put_if_absent(f"{root}/snapshot-1", b"1")
    assert not isinstance(caught.value, StorageRefusedError)
    assert files.read_bytes(f"{root}/snapshot-1") == b"1"


def test_a_link_that_was_replayed_counts_as_won(files, root, monkeypatch):
    link = os.link

    def replayed(*args, **kwargs):
        link(*args, **kwargs)
        link(*args, **kwargs)

    monkeypatch.setattr(os, "link", replayed)
    assert files.put_if_absent(f"{root}/snapshot-1", b"1") is True
    assert [s.name for s in files.list_dir(root)] == ["snapshot-1"]


def test_losing_between_look_and_link_gives_false(files, root, monkeypatch):
    link = os.link

    def late(*args, **kwargs):
        LocalFileIO().write_once(f"{root}/snapshot-1", b"theirs")
        link(*args, **kwargs)

    monkeypatch.setattr(os, "link", late)
    assert files.put_if_absent(f"{root}/snapshot-1", b"mine") is False
    assert files.read_bytes(f"{root}/snapshot-1") == b"theirs"
    assert len(files.list_dir(root)) == 1


def test_a_directory_of_new_files_is_synced_when_asked(files, root, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(_name_of(fd)), fsync(fd)))
    for name in ("x", "y"):
        output = files.open_output(f"{root}/d/e/{name}")
        output.write(b"1")
        output.close()
    assert synced == [f"{root}/d/e/x", f"{root}/d/e/y"]
    files.sync_dir(f"{root}/d/e")
    assert synced[2:] == [f"{root}/d/e"]
    files.write_once(f"{root}/f/z", b"1")
    assert synced[3:] == [root, f"{root}/f/z", f"{root}/f"]
    with pytest.raises(StorageError, match="sync"):
        files.sync_dir(f"{root}/none")


def _name_of(descriptor):
    return os.readlink(f"/proc/self/fd/{descriptor}")


def test_a_full_disk_is_named_and_leaves_nothing(files, root, monkeypatch):
    monkeypatch.setattr(os, "fsync", _failing(errno.ENOSPC))
    with pytest.raises(StorageError) as caught:
        files.put_if_absent(f"{root}/a", b"1")
    assert caught.value.kind == "no_space"
    with pytest.raises(StorageError):
        files.write_once(f"{root}/b", b"1")
    assert files.list_dir(root) == []


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("put_if_absent", "open"),
        ("put_if_absent", "fsync"),
        ("put_if_absent", "link"),
        ("replace", "open"),
        ("replace", "replace"),
        ("write_once", "fsync"),
    ],
)
def test_an_interrupt_leaves_no_part_of_a_file(files, root, monkeypatch, verb, call):
    real = getattr(os, call)

    def interrupted(*arguments, **options):
        answer = real(*arguments, **options)
        if arguments[-1] == _DIRECTORY:
            return answer
        raise KeyboardInterrupt

    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(files, verb)(f"{root}/a", b"1")
    assert [one.size_bytes for one in files.list_dir(root) if one.name != "a"] == []
    if call not in ("link", "replace"):
        assert files.list_dir(root) == []


def test_a_really_full_disk_is_named(files):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    from tidelake.fileio.local import _LocalOutputFile

    output = _LocalOutputFile("/dev/full", os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(StorageError) as caught:
        output.write(bytes(4 << 20))
    assert caught.value.kind == "no_space"


def test_a_link_planted_under_the_name_is_not_followed(files, root):
    os.symlink(f"{root}/victim", f"{root}/a")
    with pytest.raises(Exception, match=f"{root}/a"):
        files.write_once(f"{root}/a", b"1")
    assert not os.path.lexists(f"{root}/victim")


def test_a_name_that_is_too_long_is_a_storage_error(files, root):
    with pytest.raises(StorageError):
        files.write_once(f"{root}/{'n' * 300}", b"1")
    with pytest.raises(StorageError):
        files.exists(f"{root}/{'n' * 300}")


def test_delete_dir_does_not_follow_links(files, root):
    files.write_once(f"{root}/keep/a", b"1")
    files.make_dirs(f"{root}/d")
    os.symlink(f"{root}/keep", f"{root}/d/link")
    files.delete_dir(f"{root}/d")
    assert files.exists(f"{root}/keep/a")


@pytest.mark.parametrize("relative", [False, True])
def test_a_directory_that_is_a_link_goes_with_what_it_points_to(files, root, relative):
    files.write_once(f"{root}/disk/t/a/b", b"1")
    files.make_dirs(f"{root}/db")
    os.symlink("../disk/t" if relative else f"{root}/disk/t", f"{root}/db/t")
    files.move_dir(f"{root}/db/t", f"{root}/far/off/aside")
    assert files.read_bytes(f"{root}/far/off/aside/a/b") == b"1"
    assert files.list_dir(f"{root}/db") == []
    files.delete_dir(f"{root}/far/off/aside")
    assert files.list_dir(f"{root}/far/off") == files.list_dir(f"{root}/disk") == []


def test_a_directory_is_deleted_though_others_make_files_in_it(files, root, monkeypatch):
    files.write_once(f"{root}/d/e/a", b"1")
    rmdir, made = os.rmdir, []

    def busy(path, **kwargs):
        if len(made) < 5:
            made.append(f"{root}/d/e/{len(made)}")
            files.write_once(made[-1], b"1")
        rmdir(path, **kwargs)

    monkeypatch.setattr(os, "rmdir", busy)
    files.delete_dir(f"{root}/d")
    assert len(made) == 5
    assert files.list_dir(root) == []


_RACER = """
import sys
from tidelake.fileio import LocalFileIO
files, root, me = LocalFileIO(), sys.argv[1], sys.argv[2]
print(sum(files.put_if_absent(f"{root}/snapshot-{i}", me.encode() * 500) for i in range(300)))
"""


def test_processes_racing_for_names_win_each_once(files, root):
    command = [sys.executable, "-c", _RACER, root]
    racers = [
        subprocess.Popen(
            [*command, str(i)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"}
        )
        for i in range(3)
    ]
    wins = [int(racer.communicate(timeout=120)[0]) for racer in racers]
    assert sum(wins) == 300
    held = [files.read_bytes(f"{root}/{s.name}") for s in files.list_dir(root)]
    assert sorted(held.count(str(i).encode() * 500) for i in range(3)) == sorted(wins)
