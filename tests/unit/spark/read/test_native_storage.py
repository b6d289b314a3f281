"""Whether Spark's own scan reads a remote storage, by what Hadoop's classes answer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from unit.spark.read.test_native_changes import APPEND, context_of, file, split

from tidelake.errors import UnsupportedError
from tidelake.fileio import CachedFileIO, MemoryFileIO
from tidelake.fileio.location import Location
from tidelake.fileio.opening import open_storage, store_id
from tidelake.options import Options
from tidelake.spark.read import native_storage as module
from tidelake.spark.read.native_storage import LOCAL, native_storage
from tidelake.telemetry import Env, ManualClock


class Bucket(MemoryFileIO):
    is_remote = True
    scheme = "s3"

    def uri_of(self, path):
        return f"{self.scheme}://lake{path}"


class JavaProblem(Py4JJavaError):
    def __init__(self, said):
        self.java_exception = SimpleNamespace(toString=lambda: said)


class Hadoop:
    """What the driver's Hadoop has: settings, classes, files; and how often it was asked."""

    def __init__(self, settings, schemes=("s3a",), files=None):
        self.settings, self.schemes, self.files = dict(settings), schemes, files or {}
        self.asked = 0
        self.refusal = None

    # a Configuration, of which each session's call makes a copy

    def newHadoopConf(self):
        return Hadoop.Conf(self)

    class Conf:
        def __init__(self, hadoop):
            self.hadoop, self.own = hadoop, dict(hadoop.settings)

        def get(self, name):
            return self.own.get(name)

        def set(self, name, value):
            self.own[name] = value

        def getPropertySources(self, name):
            return ["core-default.xml"] if self.own[name] == "default" else ["programmatically"]

        def getPropsWithPrefix(self, prefix):
            found = [(k, v) for k, v in sorted(self.own.items()) if k.startswith(prefix)]
            return Props((k.removeprefix(prefix), v) for k, v in found)

    # FileSystem

    def getFileSystemClass(self, scheme, conf):
        if scheme not in self.schemes:
            raise JavaProblem("No FileSystem for scheme")

    def newInstance(self, uri, conf):
        if self.refusal is not None:
            raise self.refusal
        return self

    def getFileStatus(self, path):
        self.asked += 1
        if path not in self.files:
            raise JavaProblem(f"java.io.FileNotFoundException: No such file: {path}\n\tat x")
        return SimpleNamespace(getLen=lambda: self.files[path])

    def close(self):
        pass


class Props(dict):
    def hashCode(self):
        return hash(tuple(self.items()))


class Name(str):
    def toUri(self):
        return self


def session_of(hadoop):
    files = SimpleNamespace(FileSystem=hadoop, Path=Name)
    jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=files)))
    )
    return SimpleNamespace(
        _jsparkSession=SimpleNamespace(sessionState=lambda: hadoop),
        _jvm=jvm,
        sparkContext=SimpleNamespace(applicationId=str(id(hadoop))),
    )


def context(wanted="auto", *, scheme="s3"):
    files = Bucket()
    files.scheme = scheme
    options = Options.parse({"read.native": wanted})
    return replace(context_of(APPEND), fileio=files, options=options)


SPLITS = [split(file("a.parquet", size=10))]
NAME = "s3a://lake/w/t/bucket-0/a.parquet"
KEYS = {"fs.s3a.access.key": "k"}


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    monkeypatch.setattr(module, "_FOUND", {})


def test_a_name_service_that_sparks_hadoop_does_not_know_is_read_by_python_workers():
    """Java's IllegalArgumentException is one of PySpark's own errors, and no Py4JJavaError."""
    hadoop = Hadoop({}, schemes=("hdfs",))
    hadoop.refusal = IllegalArgumentException("java.net.UnknownHostException: prod\n\nJVM stack")
    found = native_storage(session_of(hadoop), context(scheme="hdfs"), SPLITS)
    assert not found.is_read
    assert found.reason.endswith("did not find a file of it (java.net.UnknownHostException: prod)")


def test_the_bucket_is_read_where_hadoop_finds_a_file_of_this_read():
    hadoop = Hadoop(KEYS, files={NAME: 10})
    found = native_storage(session_of(hadoop), context(), SPLITS)
    assert found.named("/w/x") == "s3a://lake/w/x"
    assert native_storage(session_of(hadoop), context("always"), SPLITS) == found
    assert hadoop.asked == 1


@pytest.mark.parametrize(
    ("hadoop", "reason"),
    [
        (Hadoop(KEYS, schemes=()), r"no file system 's3a' \(hadoop-aws\)"),
        (Hadoop({}), "no keys and no endpoint"),
        (Hadoop({"fs.s3a.aws.credentials.provider": "default"}), "no keys and no endpoint"),
        (Hadoop(KEYS), "did not find a file of it .*FileNotFound[^\n]*$"),
        (Hadoop({"fs.s3a.bucket.lake.endpoint": "x"}, files={NAME: 11}), "another store's"),
    ],
)
def test_what_is_missing_is_the_reason_and_with_always_an_error(hadoop, reason):
    found = native_storage(session_of(hadoop), context(), SPLITS)
    assert not found.is_read
    with pytest.raises(UnsupportedError, match=reason) as caught:
        native_storage(session_of(hadoop), context("always"), SPLITS)
    assert found.reason in caught.value.message
    assert caught.value.kind == "native_read"
    assert hadoop.asked <= 1


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"fs.azure.account.key.acme.dfs.core.windows.net": "k"}, "acme.dfs.core.windows.net"),
        ({"fs.azure.account.auth.type": "OAuth"}, "acme.dfs.core.windows.net"),
        ({"fs.azure.account.auth.type.acme.dfs.core.example": "x",
          "fs.azure.account.key.other.dfs.core.windows.net": "k"}, "acme.dfs.core.example"),
        ({"fs.azure.account.key.other.dfs.core.windows.net": "k"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_azure_is_named_by_the_host_in_hadoops_settings_of_its_account(settings, host):
    root = f"abfs://box@{host}"
    hadoop = Hadoop(settings, schemes=("abfs",), files={f"{root}/w/t/bucket-0/a.parquet": 10})
    given = {"azure.account-name": "acme", "azure.account-key": "aGVsbG8="}
    files = open_storage(Location("az", "box", "/w"), given, Env.seeded(1))
    found = native_storage(session_of(hadoop), replace(context(), fileio=files), SPLITS)
    assert found.root == (root if host else None)
    assert host or found.reason == "fs.azure.account.* has nothing of the storage account"


def test_settings_that_change_are_looked_at_again():
    hadoop = Hadoop({}, files={NAME: 10})
    assert not native_storage(session_of(hadoop), context(), SPLITS).is_read
    hadoop.settings |= KEYS
    assert native_storage(session_of(hadoop), context(), SPLITS).is_read


def test_stores_with_one_bucket_name_are_asked_each_for_itself():
    """Spark's settings reach the first store only; the other one's file is not there."""
    hadoop = Hadoop(KEYS, files={NAME: 10})
    session = session_of(hadoop)
    first, other = (
        replace(context(), fileio=open_storage(Location("s3", "lake", "/w"), given, Env.seeded(1)))
        for given in ({"s3.endpoint": "https://a.example"}, {"s3.endpoint": "https://b.example"})
    )
    assert native_storage(session, first, SPLITS).is_read
    there = [split(file("b.parquet", size=10))]
    assert not native_storage(session, other, there).is_read
    assert native_storage(session, first, there).is_read  # known
    assert hadoop.asked == 2


def test_the_name_of_a_store_holds_no_secret():
    given = {"s3.access-key": "id", "s3.secret-key": "s", "s3.endpoint": "https://a.example"}
    plain = open_storage(Location("s3", "lake", "/w"), given, Env.seeded(1))
    found = store_id(CachedFileIO(plain, "/nowhere", bytes_max=1 << 20))
    assert found == store_id(plain)
    assert "https://a.example" in found
    assert not {"id", "s"} & set(found)
    nodes = {"dfs.ha.namenodes.prod": "a", "dfs.namenode.rpc-address.prod.a": "one:8020"}
    prod = open_storage(Location("hdfs", "prod", "/w"), nodes, Env.seeded(1))
    assert "dfs.namenode.rpc-address.prod.a=one:8020" in store_id(prod)
    assert store_id(MemoryFileIO()) == ()


def test_a_failure_that_may_pass_is_asked_for_again_after_a_minute():
    clock = ManualClock()
    hadoop = Hadoop(KEYS)
    session = session_of(hadoop)
    own = context()
    own = replace(own, env=replace(own.env, clock=clock))
    assert not native_storage(session, own, SPLITS).is_read
    hadoop.files[NAME] = 10
    assert not native_storage(session, own, SPLITS).is_read
    clock.sleep_ms(61_000)
    assert native_storage(session, own, SPLITS).is_read
    hadoop.files.clear()
    clock.sleep_ms(10**9)
    assert native_storage(session, own, SPLITS).is_read
    assert hadoop.asked == 2


def test_other_storages_and_words():
    hadoop = Hadoop(KEYS, schemes=("s3a", "gs"), files={"gs://lake/w/t/bucket-0/a.parquet": 10})
    session = session_of(hadoop)
    assert native_storage(session, context(scheme="gs"), SPLITS).root == "gs://lake"
    assert "'ftp' is not supported" in native_storage(session, context(scheme="ftp"), SPLITS).reason
    assert native_storage(session, context("never"), SPLITS).reason == "read.native = never"
    assert native_storage(session, context("always"), []).reason == "there is no file to read"
    local = context_of(APPEND)
    assert native_storage(session, local, SPLITS) is LOCAL
    never = replace(local, options=Options.parse({"read.native": "never"}))
    assert not native_storage(session, never, SPLITS).is_read


def test_through_spark_connect_it_is_read_if_told():
    session = SimpleNamespace()
    assert "Spark Connect" in native_storage(session, context(), SPLITS).reason
    assert native_storage(session, context("always"), SPLITS).root == "s3a://lake"
