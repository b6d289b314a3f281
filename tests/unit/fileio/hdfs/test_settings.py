"""Keys of HDFS: ours, Hadoop's, and those of its configuration files."""

from __future__ import annotations

import getpass
import os
import pickle

import pytest
from servers.name_node import NameNode, library

import tidelake
from tidelake.cli.main import main
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.fileio import _optional
from tidelake.fileio.hdfs import HdfsFileIO, parse_hdfs_settings, user_name
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage, split_options
from tidelake.telemetry import Env

SERVICE = {
    "dfs.nameservices": "prod",
    "dfs.ha.namenodes.prod": "a,b",
    "dfs.namenode.rpc-address.prod.a": "one:8020",
    "dfs.namenode.rpc-address.prod.b": "two:8020",
    "dfs.client.failover.proxy.provider.prod": "org.apache.hadoop.x.ConfiguredFailover",
}


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


def site(directory, **properties):
    entries = "".join(
        f"<property><name>{name}</name><value> {value} </value><final>true</final></property>"
        for name, value in properties.items()
    )
    text = f'<?xml version="1.0"?><!-- by hand --><configuration>{entries}</configuration>'
    (directory / "hdfs-site.xml").write_text(text)


def test_hadoop_s_keys_are_taken_in_its_spelling_and_in_paimon_s():
    plain = parse_hdfs_settings(SERVICE)
    assert plain.config == SERVICE
    assert parse_hdfs_settings({f"hadoop.{key}": value for key, value in SERVICE.items()}) == plain
    secure = parse_hdfs_settings({"hadoop.security.authentication": "kerberos"})
    assert secure.is_secure
    assert not plain.is_secure


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("dfs.replicaton", "Did you mean 'dfs.replication'"),
        ("hdfs.time-out", "Did you mean 'hdfs.timeout'"),
        ("dfs.client.read.shortcircuit", "Known are: hdfs.conf-dir"),
        ("hdfs.user", "HADOOP_USER_NAME"),
        ("dfs.ha.namenodes.", "unknown"),
    ],
)
def test_a_key_that_the_client_would_ignore_is_refused(key, words):
    with pytest.raises(InvalidInputError, match="unknown") as caught:
        parse_hdfs_settings({key: "1"})
    assert words in str(caught.value)
    assert caught.value.kind == "storage_key"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dfs.replication", "many"),
        ("dfs.replication", "0"),
        ("dfs.blocksize", "128 MiB"),
        ("fs.permissions.umask-mode", "u=rwx,g=rx"),
        ("hdfs.timeout", "30"),
        ("hdfs.conf-dir", "/none/there"),
        ("hdfs.kerberos-keytab", "/none/there"),
        ("hdfs.conf-dir", " "),
    ],
)
def test_a_wrong_value_is_refused(key, value):
    with pytest.raises(InvalidInputError, match=key) as caught:
        parse_hdfs_settings({key: value})
    assert caught.value.kind == "storage_value"


def test_half_of_a_login_is_refused():
    with pytest.raises(InvalidInputError, match="both"):
        parse_hdfs_settings({"security.kerberos.login.principal": "ann"})


def test_keys_of_other_storages_are_left_aside():
    given = {"s3.access-key": "k", "gs.endpoint": "x", "hadoop-conf-dir": "/tmp"}
    assert parse_hdfs_settings(given).values == {"conf-dir": "/tmp"}
    assert split_options({**given, **SERVICE, "table-default.bucket": "1"})[0] == {
        "table-default.bucket": "1"
    }


def test_the_configuration_files_say_how_files_are_made(tmp_path, monkeypatch):
    site(
        tmp_path,
        **{
            "dfs.replication": "2",
            "dfs.blocksize": "64m",
            "fs.permissions.umask-mode": "027",
            "dfs.client.read.shortcircuit": "true",
        },
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = parse_hdfs_settings({})
    assert (found.replication, found.block_bytes, found.umask) == (2, 64 << 20, 0o027)
    given = parse_hdfs_settings({"dfs.replication": 3})
    assert given.replication == 3
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert parse_hdfs_settings({}).replication is None
    assert parse_hdfs_settings({"hdfs.conf-dir": str(tmp_path)}).block_bytes == 64 << 20


def test_a_copy_knows_the_name_services_of_files_that_it_does_not_see(tmp_path):
    site(tmp_path, **SERVICE, **{"dfs.datanode.data.dir": "/data"})
    settings = parse_hdfs_settings({"hdfs.conf-dir": str(tmp_path)})
    copy = pickle.loads(pickle.dumps(settings))
    assert copy.url("prod") == "hdfs://prod"
    found = copy.client_config("prod")
    assert found["dfs.namenode.rpc-address.prod.b"] == "two:8020"
    assert found["dfs.client.failover.max.attempts"] == "1"
    assert "dfs.datanode.data.dir" not in found


def test_a_broken_configuration_file_is_named(tmp_path):
    (tmp_path / "core-site.xml").write_text("<configuration><property>")
    with pytest.raises(InvalidInputError, match=r"core-site\.xml cannot be read"):
        parse_hdfs_settings({"hdfs.conf-dir": str(tmp_path)})


def test_the_name_node_is_the_uri_s_or_the_configuration_s(tmp_path):
    assert parse_hdfs_settings({}).url("nn:9000") == "hdfs://nn:9000"
    assert parse_hdfs_settings({}).url("nn") == "hdfs://nn:8020"
    assert parse_hdfs_settings(SERVICE).url("prod") == "hdfs://prod"
    assert parse_hdfs_settings({"fs.defaultFS": "hdfs://nn:9000/"}).url("") == "hdfs://nn:9000"
    assert parse_hdfs_settings({"fs.defaultFS": "hdfs://prod", **SERVICE}).url("") == "hdfs://prod"
    for storage in ({}, {"fs.defaultFS": "file:///"}):
        with pytest.raises(InvalidInputError, match="names no name node"):
            tidelake.open("hdfs:///house", storage=storage)


def test_a_warehouse_is_shown_as_it_was_given():
    location = parse_location("hdfs:///house")
    files = open_storage(location, {"fs.defaultFS": "hdfs://nn"}, Env.seeded(1))
    assert isinstance(files, HdfsFileIO)
    assert files.uri_of(location.path) == str(location)


def test_kerberos_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr(_optional, "has_gssapi", lambda: False)
    catalog = tidelake.open(
        "hdfs://nn:8020/house", storage={"hadoop.security.authentication": "kerberos"}
    )
    with pytest.raises(UnsupportedError, match="libgssapi-krb5-2") as caught:
        catalog.list_databases()
    assert caught.value.kind == "library_missing"


def test_without_the_client_its_extra_is_named(monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(module)

    monkeypatch.setattr(_optional.importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"tidelake\[hdfs\]"):
        tidelake.open("hdfs://nn:8020/house").list_databases()


@pytest.mark.parametrize(
    ("user", "of_spark", "expected"),
    [("ann", "bob", "ann"), ("ann", None, "ann"), ("", "bob", "bob"), (None, "bob", "bob")],
)
def test_the_user_is_the_environment_s_or_spark_s(monkeypatch, user, of_spark, expected):
    """On an executor Spark names the driver's user, and its own scan reads as that one."""
    for name, value in (("HADOOP_USER_NAME", user), ("SPARK_USER", of_spark)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    assert user_name() == expected
    seen = []

    def client(url, *_, **__):
        seen.append(os.environ["HADOOP_USER_NAME"])
        return NameNode()

    monkeypatch.setattr(_optional, "hdfs_native", lambda: library(client))
    assert tidelake.open("hdfs://nn:8020/house").list_databases() == []
    assert seen == [expected]


def test_doctor_says_that_nobody_answers(capsys):
    assert main(["doctor", "storage", "-w", "hdfs://127.0.0.1:1/house"]) == 1
    shown = capsys.readouterr().out
    assert "pass  credentials: user '" in shown
    assert "FAIL  answers: Could not look up hdfs://127.0.0.1:1/house" in shown
    assert "Connection refused" in shown


def test_a_user_without_a_name_is_told_what_to_set(monkeypatch):
    def fail():
        raise KeyError("getpwuid(): uid not found: 4242")

    for variable in ("HADOOP_USER_NAME", "SPARK_USER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(getpass, "getuser", fail)
    with pytest.raises(InvalidInputError, match="set HADOOP_USER_NAME"):
        user_name()
