"""A real HDFS keeps the promises of a FileIO, as the name node in memory of the unit tests does."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import hdfs_native
import pytest
from unit.fileio.hdfs.contract import HdfsContract

from tidelake.errors import NotFoundError, StorageError, StorageRefusedError
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env

RACERS, NAMES = 4, 100


def opened(hdfs, **storage):
    return open_storage(parse_location(hdfs.uri("/")), storage, Env.system())


@pytest.fixture
def files(hdfs):
    return opened(hdfs)


class TestRealHdfs(HdfsContract):
    """Nothing differs."""


# what is refused


def test_safe_mode_refuses_changes_and_serves_reads(hdfs, files, root):
    files.write_once(f"{root}/a", b"1")
    hdfs.do("safemode enter")
    try:
        for change in (
            lambda: files.put_if_absent(f"{root}/b", b"1"),
            lambda: files.write_once(f"{root}/b", b"1"),
            lambda: files.delete(f"{root}/a"),
            lambda: files.open_output(f"{root}/b"),
            lambda: files.move_dir(root, f"{root}-2"),
        ):
            with pytest.raises(StorageError, match="safe mode") as caught:
                change()
            assert caught.value.kind == "safe_mode"
        assert files.read_bytes(f"{root}/a") == b"1"
    finally:
        hdfs.do("safemode leave")
    assert files.put_if_absent(f"{root}/b", b"1") is True


def test_a_quota_that_is_used_up_refuses_a_put(hdfs, files, root):
    files.make_dirs(root)
    hdfs.do(f"quota {root} 2 {1 << 40}")
    assert files.put_if_absent(f"{root}/a", b"1") is True
    with pytest.raises(StorageRefusedError, match="quota") as caught:
        files.put_if_absent(f"{root}/b", b"1")
    assert caught.value.kind == "no_space"
    files.make_dirs(f"{root}-2")
    hdfs.do(f"quota {root}-2 100 1000")
    with pytest.raises(StorageRefusedError) as caught:
        files.put_if_absent(f"{root}-2/b", b"1")
    assert caught.value.kind == "no_space"
    assert files.list_dir(f"{root}-2") == []


def test_files_on_an_executor_are_those_of_spark_s_user(hdfs, root, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "")
    monkeypatch.setenv("SPARK_USER", "ann")
    path = f"/ann{root.replace('/', '-')}/a"  # above `root` is what another test's user made
    opened(hdfs).write_once(path, b"1")
    assert os.environ["HADOOP_USER_NAME"] == "ann"
    assert hdfs_native.Client(hdfs.uri()).get_file_info(path).owner == "ann"


def test_another_user_has_no_right(hdfs, files, root, monkeypatch):
    files.make_dirs(root)  # else it has the rights of its parent, where everyone may write
    files.write_once(f"{root}/a", b"1")
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    stranger = opened(hdfs)
    assert stranger.read_bytes(f"{root}/a") == b"1"
    with pytest.raises(StorageRefusedError, match="user=stranger") as caught:
        stranger.put_if_absent(f"{root}/b", b"1")
    assert caught.value.kind == "no_permission"
    with pytest.raises(StorageError, match="user=stranger"):
        stranger.delete(f"{root}/a")
    assert [s.name for s in files.list_dir(root)] == ["a"]


def test_no_data_node_is_said(hdfs, files, root):
    files.write_once(f"{root}/a", b"1")
    hdfs.do("datanode stop")
    try:
        with pytest.raises(StorageError, match="data nodes") as caught:
            files.read_bytes(f"{root}/a")
    finally:
        hdfs.do("datanode start")
    assert caught.value.kind == "no_data_node"
    assert files.read_bytes(f"{root}/a") == b"1"


def test_new_files_are_made_as_the_keys_say(hdfs, root):
    given = {"fs.permissions.umask-mode": "007", "dfs.blocksize": "2m", "dfs.replication": "2"}
    files = opened(hdfs, **given)
    files.make_dirs(root)
    files.write_once(f"{root}/a", b"1")
    found = files._status(f"{root}/a")
    assert (found.permission, found.blocksize, found.replication) == (0o660, 2 << 20, 2)
    assert files._status(root).permission == 0o770


# processes


RACER = """
import sys
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env

files = open_storage(parse_location({uri!r}), {{}}, Env.system())
with files.open_dir({place!r}) as held:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range({names}):
        if files.put_if_absent(f"{place}/{{i}}", b"{who}", within=held):
            print(i, flush=True)
"""


def test_of_four_processes_one_wins_each_name_and_its_bytes_are_there(hdfs, files, root):
    place = f"{root}/race"
    files.make_dirs(place)
    racers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                RACER.format(uri=hdfs.uri("/"), place=place, names=NAMES, who=who),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(RACERS)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    won = [[int(line) for line in racer.communicate()[0].split()] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * RACERS
    assert sorted(i for each in won for i in each) == list(range(NAMES))
    for who, each in enumerate(won):
        for i in each:
            assert files.read_bytes(f"{place}/{i}") == str(who).encode()
    assert len(files.list_dir(place)) == NAMES


WRITER = """
import os
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env

files = open_storage(parse_location({uri!r}), {{}}, Env.system())
output = files.open_output({path!r})
output.write(bytes(3 << 20))
held = files.open_dir({root!r})
print("written", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_writer_that_is_killed_leaves_nothing_that_passes_for_whole(hdfs, files, root):
    files.make_dirs(root)
    program = WRITER.format(uri=hdfs.uri("/"), path=f"{root}/o", root=root)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=False
    )
    assert done.stdout == b"written\n", done.stderr
    assert [s.name for s in files.list_dir(root)] == ["o"], "what held the directory is hidden"
    assert files.put_if_absent(f"{root}/o", b"1") is False, "the name stays taken"
    assert files.delete(f"{root}/o") is True, "whoever is sure may delete it, lease or not"
    files.delete_dir(root)
    assert not files.exists(root)


# a name node that is away


def test_a_name_node_that_starts_again_is_waited_for(hdfs, files, root):
    files.write_once(f"{root}/before", b"1")
    done = []

    def write():
        for i in range(1000):
            files.write_once(f"{root}/d/{i}", b"1")
            done.append(i)
            if ended.is_set():
                break

    ended = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    hdfs.do("restart")
    ended.set()
    writer.join(90)
    assert not writer.is_alive()
    found = {int(s.name) for s in files.list_dir(f"{root}/d")}
    assert found == set(done)
    assert done


def test_a_name_node_that_hangs_is_given_up_in_time(hdfs, files, root):
    files.write_once(f"{root}/a", b"1")
    hdfs.stop()
    try:
        began = time.monotonic()
        with pytest.raises(StorageError, match="did not answer in") as caught:
            opened(hdfs, **{"hdfs.timeout": "500 ms"}).read_bytes(f"{root}/a")
        assert time.monotonic() - began < 5
    finally:
        hdfs.go_on()
    assert caught.value.kind == "unreachable"
    assert files.read_bytes(f"{root}/a") == b"1"


def test_a_failover_between_two_name_nodes_is_survived(two_name_nodes, root):
    storage = two_name_nodes.service("both")
    files = open_storage(parse_location("hdfs://both/"), storage, Env.system())
    files.write_once(f"{root}/a", b"1")
    assert files.uri_of(f"{root}/a") == f"hdfs://both{root}/a"
    two_name_nodes.do("failover 0 1")
    assert files.read_bytes(f"{root}/a") == b"1"
    with files.open_dir(root) as held:
        assert files.put_if_absent(f"{root}/b", b"2", within=held) is True
        two_name_nodes.do("standby 1")
        late = threading.Timer(2, two_name_nodes.do, ["active 0"])
        late.start()  # for two seconds none is active
        assert files.put_if_absent(f"{root}/c", b"3", within=held) is True
        late.join()
    assert sorted(s.name for s in files.list_dir(root)) == ["a", "b", "c"]
    only = open_storage(parse_location(two_name_nodes.uri("/", name_node=1)), {}, Env.seeded(1))
    with pytest.raises(StorageError, match="no name node is active") as caught:
        only.read_bytes(f"{root}/a")
    assert caught.value.kind == "name_node_standby"


def test_a_host_that_is_none_is_said_at_once(root):
    for uri in ("hdfs://no-such-host.invalid:8020/", "hdfs://127.0.0.1:1/"):
        files = open_storage(parse_location(uri), {}, Env.system())
        began = time.monotonic()
        with pytest.raises(StorageError, match=uri) as caught:
            files.exists(root)
        assert caught.value.kind == "unreachable"
        assert not isinstance(caught.value, NotFoundError)
        assert time.monotonic() - began < 10
