"""What a folder of Hadoop's asks its file system for, where a driver dies or the store refuses."""

from __future__ import annotations

import posixpath

import pytest

from tidelake.errors import StorageError, UnsupportedError
from tidelake.spark.streams.write.hadoop_folder import HadoopFolder


class Died(BaseException):
    """The driver dies."""


class Stream:
    """A file that is written: it is there at once, or with its close."""

    def __init__(self, system, path):
        self.system, self.path, self.data, self.is_open = system, path, b"", True
        if system.is_there_at_once:
            system.files[path] = b""

    def write(self, data):
        if self.system.write_fails is not None:
            raise self.system.write_fails
        self.data = bytes(data)

    def hasCapability(self, name):
        return name == "fs.capability.outputstream.abortable" and not self.system.is_there_at_once

    def abort(self):
        self.is_open = False

    def close(self):
        if self.is_open:
            self.system.files[self.path] = self.data
        self.is_open = False


class Builder:
    def __init__(self, system, path):
        self.system, self.path = system, path

    def overwrite(self, _):
        return self

    def opt(self, name, value):
        self.system.options[name] = value
        return self

    def recursive(self):
        return self

    def build(self):
        found = Stream(self.system, self.path)
        self.system.streams.append(found)
        return found


class System:
    """A file system of Hadoop's, and its own class and JVM."""

    def __init__(self, name="DistributedFileSystem", *, is_there_at_once=True, conditions=False):
        self.name, self.is_there_at_once, self.conditions = name, is_there_at_once, conditions
        self.files, self.streams, self.options, self.write_fails = {}, [], {}, None
        self.before_rename = lambda: None
        self.fs = self.hadoop = self.apache = self.org = self

    def Path(self, text):
        return text

    def getClass(self):
        return self

    def getSimpleName(self):
        return self.name

    def hasPathCapability(self, path, name):
        return self.conditions and name == "fs.option.create.conditional.overwrite"

    def createFile(self, path):
        return Builder(self, path)

    def exists(self, path):
        return path in self.files

    def rename(self, old, new):
        self.before_rename()
        if new in self.files:
            return False
        self.files[new] = self.files.pop(old)
        return True

    def delete(self, path, _):
        return self.files.pop(path, None) is not None


def folder(system, uri="hdfs://nn/ck"):
    return HadoopFolder(uri, system, system)


def test_a_file_of_a_file_system_is_whole_or_missing_where_the_driver_dies():
    system = System()
    system.write_fails = Died()
    with pytest.raises(Died):
        folder(system).put_new("mark.json", "{}")
    assert "hdfs://nn/ck/mark.json" not in system.files
    system.write_fails = None
    assert folder(system).put_new("mark.json", "{}")
    assert system.files == {"hdfs://nn/ck/mark.json": b"{}"}
    assert not folder(system).put_new("mark.json", "other")
    assert system.files == {"hdfs://nn/ck/mark.json": b"{}"}
    assert len(system.streams) == 2, "a name that is taken costs no file"


def test_of_two_drivers_one_names_the_file_and_nothing_is_left():
    system = System()
    system.before_rename = lambda: system.files.setdefault("hdfs://nn/ck/mark.json", b"first")
    assert not folder(system).put_new("mark.json", "second")
    assert system.files == {"hdfs://nn/ck/mark.json": b"first"}


def test_a_rename_that_is_refused_without_a_reason_is_an_error():
    system = System()
    system.rename = lambda *_: False
    with pytest.raises(StorageError, match=r"hdfs://nn/ck cannot be written: .*mark\.json"):
        folder(system).put_new("mark.json", "{}")
    assert system.files == {}


def test_a_hidden_file_is_hidden_from_what_lists_the_folder():
    system = System()
    system.before_rename = lambda: seen.extend(map(posixpath.basename, system.files))
    seen = []
    folder(system).put_new("mark.json", "{}")
    assert [name.startswith(".mark.json.") for name in seen] == [True]


@pytest.mark.parametrize("uri", ["s3a://b/ck", "s3://b/ck"])
def test_a_store_creates_the_file_on_a_condition_and_a_failed_write_leaves_none(uri):
    system = System("S3AFileSystem", is_there_at_once=False, conditions=True)
    system.write_fails = OSError("no space")
    with pytest.raises(StorageError, match="cannot be written: no space"):
        folder(system, uri).put_new("mark.json", "{}")
    assert system.files == {}
    assert [stream.is_open for stream in system.streams] == [False]
    system.write_fails = None
    assert folder(system, uri).put_new("mark.json", "{}")
    assert system.files == {f"{uri}/mark.json": b"{}"}
    assert system.options == {"fs.option.create.conditional.overwrite": "true"}


def test_an_s3a_that_knows_no_condition_is_refused_before_it_writes():
    system = System("S3AFileSystem", is_there_at_once=False)
    with pytest.raises(UnsupportedError, match=r"hadoop-aws 3\.4\.2") as refused:
        folder(system, "s3a://b/ck").put_new("mark.json", "{}")
    assert refused.value.kind == "checkpoint_storage"
    assert system.streams == []
    folder(system, "s3a://b/ck").replace("run.json", "{}")
    assert system.files == {"s3a://b/ck/run.json": b"{}"}
