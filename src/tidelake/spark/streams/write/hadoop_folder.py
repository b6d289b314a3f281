"""The folder of a checkpoint in a store, by the file system of Hadoop that Spark itself uses.

Spark writes a checkpoint by Hadoop's class for the scheme, with Hadoop's settings: in S3 ``s3a`` of
``hadoop-aws``, in HDFS the class that Spark has already. So the sink reads it by the same class and
the same settings, through the JVM of the query's session. Tidelake's own keys are not used: they
may reach another store.

A new file takes a free name, whole:

- An object is there from the close of its stream on. It is created on the condition that its name
  is free, which ``s3a`` sends to the store (Hadoop 3.4.2; an older one is refused).
- A file of a file system, such as HDFS, is there from its creation on, still empty. So it is
  written under a hidden name and renamed, which replaces nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from tidelake.engine.env import SystemIds
from tidelake.errors import StorageError, UnsupportedError, shortened

T = TypeVar("T")
ALIASES = {"s3": "s3a"}
"""Schemes that users write for one of Hadoop's."""
JARS = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "gcs-connector"}
WHOLE_AT_CLOSE = frozenset({"gs", "s3", "s3a"})
"""Schemes whose files are there from the close of their stream on."""
CONDITION = "fs.option.create.conditional.overwrite"
S3A = "S3AFileSystem"
ABORTABLE = "fs.capability.outputstream.abortable"
ERROR_TEXT_MAX = 200
_MISSING = (
    "java.io.FileNotFoundException",
    "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
)
_TAKEN = (
    "org.apache.hadoop.fs.FileAlreadyExistsException",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException",  # the store refused the condition
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True, slots=True)
class HadoopFolder:
    """A folder in a store; for the methods see ``CheckpointFolder``."""

    uri: str
    _system: Any = field(repr=False, compare=False)
    _jvm: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, spark: SparkSession, given: str, *, table: str, may_rename: bool) -> HadoopFolder:
        """Find the file system of a folder.

        Parameters
        ----------
        may_rename : bool
            Whether the query gets the URI from here, so that ``s3://`` may become ``s3a://``.

        Raises
        ------
        UnsupportedError
            Hadoop has no class for the scheme.
        StorageError
            The file system cannot be opened.
        """
        jvm: Any = spark._jvm
        # as Spark makes it for its own files
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        found = _SCHEME.match(given)
        assert found is not None, "a path is no URI"
        scheme = found[1].lower()
        named = scheme
        if not _has_class(jvm, conf, scheme):
            named = ALIASES.get(scheme, scheme)
            if named == scheme or not _has_class(jvm, conf, named):
                raise _no_class(given, named, table)
            if not may_rename:
                message = (
                    f"The checkpoint {given} of a stream into table '{table}': Spark knows this"
                    f" storage as '{named}'. Write {named}://..."
                )
                raise UnsupportedError(message, kind="checkpoint_storage", table=table)
        uri = f"{named}{given[len(scheme) :]}".rstrip("/")

        def opened() -> Any:
            return jvm.org.apache.hadoop.fs.Path(uri).getFileSystem(conf)

        return cls(uri, _asked(opened, uri, "reached"), jvm)

    @property
    def shown(self) -> str:
        """The URI."""
        return self.uri

    def read(self, name: str) -> str | None:
        """Read a file."""

        def data() -> str | None:
            try:
                stream = self._system.open(self._path(name))
            except Py4JJavaError as error:
                if _is_a(error, _MISSING):
                    return None
                raise
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

        return _asked(data, self.uri, "read")

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(_asked(lambda: self._system.exists(self._path(name)), self.uri, "read"))

    def names(self, name: str) -> Sequence[str]:
        """List a folder below."""

        def listed() -> list[str]:
            try:
                return [str(s.getPath().getName()) for s in self._system.listStatus(path)]
            except Py4JJavaError as error:
                if _is_a(error, _MISSING):
                    return []
                raise

        path = self._path(name)
        return _asked(listed, self.uri, "read")

    def put_new(self, name: str, text: str) -> bool:
        """Write a file whose name is free.

        Raises
        ------
        UnsupportedError
            The ``s3a`` is too old to tell the store the condition.
        """
        is_object = self.uri.partition(":")[0].lower() in WHOLE_AT_CLOSE

        def put() -> bool:
            try:
                if not is_object:
                    return self._put_by_rename(name, text)
                self._check_condition(name)
                self._write(name, text, overwrite=False)
            except Py4JJavaError as error:
                if _is_a(error, _TAKEN):
                    return False
                raise
            return True

        return _asked(put, self.uri, "written")

    def _check_condition(self, name: str) -> None:
        system = self._system
        if system.getClass().getSimpleName() != S3A or system.hasPathCapability(
            self._path(name), CONDITION
        ):
            return
        message = (
            f"The checkpoint {self.uri} is not supported: two queries could begin in it at once,"
            " since Spark's hadoop-aws cannot ask the store whether a name is free. Give Spark"
            " hadoop-aws 3.4.2 or later, and leave fs.s3a.create.conditional.enabled as it is."
        )
        raise UnsupportedError(message, kind="checkpoint_storage", path=self.uri)

    def _put_by_rename(self, name: str, text: str) -> bool:
        """Write under a hidden name, then rename; False if the name is taken."""
        hidden, is_named = f".{name}.{SystemIds().uuid()}", False
        if self._system.exists(self._path(name)):
            return False
        try:
            self._write(hidden, text, overwrite=False)
            is_named = bool(self._system.rename(self._path(hidden), self._path(name)))
        finally:
            if not is_named:
                self._system.delete(self._path(hidden), False)
        if not is_named and not self._system.exists(self._path(name)):
            message = f"{hidden} was not renamed to {name}"
            raise OSError(message)
        return is_named

    def replace(self, name: str, text: str) -> None:
        """Write or overwrite a file."""
        _asked(lambda: self._write(name, text, overwrite=True), self.uri, "written")

    def remove(self, name: str) -> None:
        """Remove a file."""
        _asked(lambda: self._system.delete(self._path(name), False), self.uri, "written")

    def _write(self, name: str, text: str, *, overwrite: bool) -> None:
        builder = self._system.createFile(self._path(name)).overwrite(overwrite).recursive()
        if not overwrite:
            builder = builder.opt(CONDITION, "true")  # left aside where it is not known
        stream = builder.build()
        try:
            stream.write(text.encode())
        except BaseException:  # an interrupt too
            if stream.hasCapability(ABORTABLE):
                stream.abort()  # else the close makes an object of what was written
            stream.close()
            raise
        stream.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}")


def _has_class(jvm: Any, conf: Any, scheme: str) -> bool:
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
    except Py4JJavaError:
        return False
    return True


def _no_class(given: str, scheme: str, table: str) -> UnsupportedError:
    jar = f" ({JARS[scheme]})" if scheme in JARS else ""
    if scheme == "az":
        jar = "; Hadoop writes it abfs://container@account.dfs.core.windows.net (hadoop-azure)"
    message = (
        f"The checkpoint {given} of a stream into table '{table}' is not supported: Spark writes"
        f" checkpoints by a file system of Hadoop's, and has none for '{scheme}'{jar} on its class"
        " path. Give Spark its jar and settings, or the checkpoint a path that the driver sees."
    )
    return UnsupportedError(message, kind="checkpoint_storage", table=table)


def _asked(call: Callable[[], T], uri: str, verb: str) -> T:
    """Call Hadoop; its errors become ours.

    Raises
    ------
    StorageError
        The call failed.
    """
    try:
        return call()
    except Py4JJavaError as error:
        # not as the cause: it holds a stack of Java's
        said = shortened(str(error.java_exception.toString()).partition("\n")[0], ERROR_TEXT_MAX)
        message = f"The checkpoint {uri} cannot be {verb}: {said}."
        raise StorageError(message, path=uri) from None
    except (Py4JError, OSError, UnicodeDecodeError) as error:
        message = f"The checkpoint {uri} cannot be {verb}: {error}."
        raise StorageError(message, path=uri) from error


def _is_a(error: Py4JJavaError, names: Sequence[str]) -> bool:
    """Whether the exception of Java's, or a cause of it, has one of some names."""
    found = error.java_exception
    for _ in range(5):
        if found is None:
            return False
        if str(found.getClass().getName()) in names:
            return True
        found = found.getCause()
    return False
