"""HDFS as a FileIO, over a name node in memory."""

from __future__ import annotations

import os
import pickle
import threading
from dataclasses import replace

import pytest
from servers.name_node import Fault, NameNode, library, rpc_error
from unit.fileio.hdfs.contract import HdfsContract

from tidelake.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)
from tidelake.fileio import _optional
from tidelake.fileio.hdfs import HdfsFileIO, HdfsSettings
from tidelake.fileio.hdfs.calls import WAITS_MS
from tidelake.fileio.location import parse_location
from tidelake.telemetry import Env

LOST = OSError("RPC listener disconnected")
STANDBY = rpc_error("org.apache.hadoop.ipc.StandbyException", "Operation category WRITE")
SAFE_MODE = rpc_error(
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
    "Cannot rename /w/a. Name node is in safe mode.\\nIt was turned on manually. Use ...",
)
STARTING = rpc_error(
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
    "Cannot rename /w/a. Name node is in safe mode.\\nThe reported blocks 0 needs additional 2",
)
NO_RIGHT = rpc_error(
    "org.apache.hadoop.security.AccessControlException",
    'Permission denied: user=ann, access=WRITE, inode=\\"/w\\":hdfs:supergroup:drwxr-xr-x',
)


@pytest.fixture
def node(monkeypatch):
    found = NameNode()
    monkeypatch.setattr(_optional, "hdfs_native", lambda: library(lambda _: found))
    return found


@pytest.fixture
def files(node):
    found = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), Env.seeded(1))
    assert not found.exists("/none")  # it answers
    return found


@pytest.fixture
def root():
    return "/w"


def names(node):
    return sorted(path for path, data in node.nodes.items() if data is not None)


class TestHdfs(HdfsContract):
    """Nothing differs from a real cluster."""


# publishing: each rename x each failure


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("rename", after=LOST),
        Fault("rename", again=True),  # "not found", though it took effect
        Fault("rename", before=LOST),
        Fault("rename", before=LOST, count=3),
        Fault("rename", before=STANDBY, count=2),
        Fault("create", after=LOST),
        Fault("create", again=True),  # "exists", and it is the own one
        Fault("create", before=STANDBY),
        Fault("close", after=LOST),
        Fault("write", before=LOST),
        Fault("get_file_info", before=LOST, count=4),
    ],
    ids=str,
)
def test_a_put_whose_answers_are_lost_is_put_once(node, files, fault, held):
    files.make_dirs("/w/t")
    place = files.open_dir("/w/t") if held else None
    node.faults.append(replace(fault))  # its count falls
    assert files.put_if_absent("/w/t/a", b"mine", within=place) is True
    if place is not None:
        place.close()
    assert node.nodes["/w/t/a"] == b"mine"
    assert files.put_if_absent("/w/t/a", b"other") is False
    shown = [s.name for s in files.list_dir("/w/t") if not s.name.startswith(".")]
    assert shown == ["a"]


@pytest.mark.parametrize("theirs", [b"other", b"mine"])
@pytest.mark.parametrize("failure", [None, LOST])
def test_another_s_file_is_never_taken_for_one_s_own(node, files, theirs, failure):
    """Not even one of the same bytes: two that create a table write the same text."""
    if failure is not None:
        node.faults.append(Fault("rename", before=failure))
    node.nodes["/w"] = None
    node.hooks["rename"] = lambda: node.nodes.update({"/w/a": theirs})
    assert files.put_if_absent("/w/a", b"mine") is False
    assert names(node) == ["/w/a"]


def test_a_rename_that_arrives_late_finds_nothing_to_move(node, files):
    """The first one is on its way while the name is taken and given up again."""
    sent = []

    def rename(client, source, target, overwrite=False):
        if target == "/w/a" and not sent:
            sent.append((source, target))
            raise LOST
        node.rename(source, target, overwrite=overwrite)

    client = files._calls._opened()
    type(client).rename, before = rename, type(client).rename
    try:
        assert files.put_if_absent("/w/a", b"mine") is True
    finally:
        type(client).rename = before
    files.delete("/w/a")
    with pytest.raises(FileNotFoundError):
        node.rename(*sent[0], overwrite=False)
    assert names(node) == []


@pytest.mark.parametrize(
    ("refusal", "kind"), [(SAFE_MODE, "safe_mode"), (NO_RIGHT, "no_permission")]
)
@pytest.mark.parametrize("call", ["create", "rename"])
def test_a_refused_put_has_changed_nothing(node, files, refusal, kind, call):
    node.faults.append(Fault(call, before=refusal, count=100))
    with pytest.raises(StorageRefusedError) as caught:
        files.put_if_absent("/w/a", b"1")
    assert caught.value.kind == kind
    assert names(node) == []


def test_a_name_node_that_is_gone_after_the_rename_leaves_the_outcome_open(node, files):
    node.faults.append(Fault("rename", after=LOST))
    node.faults.append(Fault("rename", before=LOST, count=100))
    node.hooks["rename"] = lambda: node.faults.append(
        Fault("get_file_info", before=LOST, count=500)
    )
    with pytest.raises(StorageError) as caught:
        files.put_if_absent("/w/a", b"1")
    assert caught.value.kind == "outcome_unknown"
    assert not isinstance(caught.value, StorageRefusedError)
    assert names(node) == ["/w/a"]


def test_a_directory_that_goes_between_writing_and_renaming_leaves_the_outcome_open(node, files):
    """The client may have sent the rename twice, so "not found" is no proof that it failed."""
    files.make_dirs("/w/t")
    with files.open_dir("/w/t") as held:
        node.hooks["rename"] = lambda: node.delete("/w/t", recursive=True)
        with pytest.raises(StorageError) as caught:
            files.put_if_absent("/w/t/a", b"1", within=held)
    assert caught.value.kind == "outcome_unknown"


@pytest.mark.parametrize(
    "fault", [Fault("rename", after=LOST), Fault("rename", again=True)], ids=str
)
def test_a_hint_and_a_delete_whose_answers_are_lost_are_done(node, files, fault):
    files.make_dirs("/w/t")
    with files.open_dir("/w/t") as held:
        files.replace("/w/t/hint", b"1", within=held)
        node.faults.append(fault)
        if fault.again:
            files.replace("/w/t/hint", b"2", within=held)
            fault.count = 1
        assert files.delete("/w/t/hint", within=held) is True
    assert not files.exists("/w/t/hint")


@pytest.mark.parametrize(
    "fault", [Fault("rename", after=LOST), Fault("rename", again=True)], ids=str
)
def test_a_directory_whose_rename_is_not_answered_has_its_new_name(node, files, fault):
    files.write_once("/w/t/a", b"1")
    node.faults.append(fault)
    files.move_dir("/w/t", "/w/u")
    assert names(node) == ["/w/u/a"]
    assert [s.name for s in files.list_dir("/w/u")] == ["a"]
    assert not [path for path in node.nodes if "held" in path]


def test_a_directory_whose_rename_was_lost_keeps_its_name(node, files):
    files.write_once("/w/t/a", b"1")
    node.faults.append(Fault("rename", before=LOST))
    with pytest.raises(StorageError):
        files.move_dir("/w/t", "/w/u")
    assert names(node) == ["/w/t/a"]


# waiting


def test_a_failover_is_waited_for(node, files):
    node.faults.append(Fault("get_file_info", before=STANDBY, count=len(WAITS_MS)))
    assert files.exists("/w") is False
    node.faults.append(Fault("get_file_info", before=STANDBY, count=1 + len(WAITS_MS)))
    with pytest.raises(StorageError, match="no name node is active") as caught:
        files.exists("/w")
    assert caught.value.kind == "name_node_standby"


def test_a_name_node_that_has_just_started_is_waited_for(node, files):
    node.faults.append(Fault("rename", before=STARTING, count=5))
    assert files.put_if_absent("/w/a", b"1") is True


NO_NODES = rpc_error(
    "java.io.IOException",
    "File /w/a could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s)",
)


@pytest.mark.parametrize(
    "failure", [NO_NODES, RuntimeError('DataTransferError("Pipeline recovery failed")')], ids=str
)
def test_a_put_waits_some_seconds_for_data_nodes(node, files, failure):
    node.faults.append(Fault("close", before=failure, count=5))
    assert files.put_if_absent("/w/a", b"1") is True
    assert names(node) == ["/w/a"]
    node.faults.append(Fault("close", before=failure, count=99))
    with pytest.raises(StorageRefusedError):
        files.put_if_absent("/w/b", b"1")
    assert names(node) == ["/w/a"]


def test_a_name_node_that_never_answered_is_not_waited_for(node):
    node.faults.append(Fault("get_file_info", before=OSError("Connection refused"), count=2))
    files = HdfsFileIO(parse_location("hdfs://nn:8020/w"), HdfsSettings(), Env.seeded(1))
    with pytest.raises(StorageError, match=r"hdfs://nn:8020/w/a.*Connection refused.*port"):
        files.exists("/w/a")
    assert node.calls == ["get_file_info"]


def test_a_name_node_that_hangs_is_given_up_in_time(node, files):
    slow = HdfsFileIO(
        parse_location("hdfs://nn:8020/w"), HdfsSettings({"timeout": "50"}), Env.seeded(1)
    )

    released = threading.Event()

    def hang(client, path):
        released.wait(60)

    client = slow._calls._opened()
    type(client).get_file_info, before = hang, type(client).get_file_info
    try:
        with pytest.raises(StorageError, match=r"did not answer in 0\.05 s") as caught:
            slow.exists("/w/a")
    finally:
        type(client).get_file_info = before
        released.set()
    assert caught.value.kind == "unreachable"


# the rest


def test_a_file_of_a_dead_writer_does_not_pass_for_whole(node, files):
    output = files.open_output("/w/o")
    output.write(b"1" * 100)
    assert files.size("/w/o") == 0
    node.faults.append(Fault("close", before=LOST))
    with pytest.raises(StorageError):
        output.close()
    with pytest.raises(StorageError):
        output.close()
    output.abort()
    assert names(node) == []


@pytest.mark.parametrize("other", [False, True])
def test_a_new_file_whose_creation_was_not_answered_is_not_said_to_exist(node, files, other):
    """After a lost answer "exists" may mean the own file; it is left alone, as it may not be."""
    node.nodes["/w"] = None
    node.faults.append(Fault("create", **({"before": LOST} if other else {"after": LOST})))
    if other:
        node.hooks["create"] = lambda: node.nodes.update({"/w/o": b"theirs"})
    with pytest.raises(StorageError, match=r"hdfs://nn:8020/w/o.*not answered") as caught:
        files.open_output("/w/o")
    assert caught.value.kind == "creation_unknown"
    assert node.calls.count("create") == 2
    assert names(node) == ["/w/o"]
    with pytest.raises(AlreadyExistsError):
        files.open_output("/w/o")


def test_what_was_refused_says_so_in_our_words(node, files):
    node.faults.append(Fault("delete", before=NO_RIGHT))
    with pytest.raises(StorageError, match=r"user=ann.*HADOOP_USER_NAME") as caught:
        files.delete_dir("/w")
    assert "Server.java" not in str(caught.value)


def test_a_taken_target_and_a_missing_source_are_told_apart(files):
    files.make_dirs("/w/d")
    files.make_dirs("/w/taken")
    with pytest.raises(AlreadyExistsError):
        files.move_dir("/w/d", "/w/taken")
    with pytest.raises(NotFoundError):
        files.move_dir("/w/none", "/w/taken")
    assert files.list_dir("/w/d") == files.list_dir("/w/taken") == []


def test_a_copy_reaches_the_same_place(files):
    again = pickle.loads(pickle.dumps(files))
    assert again.uri_of("/w/a") == files.uri_of("/w/a") == "hdfs://nn:8020/w/a"
    assert repr(again) == "HdfsFileIO('hdfs://nn:8020/w')"


def test_a_forked_process_is_told(files):
    with files.open_dir("/") as held:
        child = os.fork()
        if child == 0:
            try:
                files.exists("/w")
            except TidelakeError as error:
                held.close()
                os._exit(0 if "forked" in error.kind else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert files.put_if_absent("/a", b"1", within=held) is True
