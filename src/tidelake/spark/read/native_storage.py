"""Which storages Spark's own Parquet scan reads, and how Spark names their files.

Files of a path that driver and executors see are read by Spark. Files of an object store or of HDFS
are read by Spark if it can, else by the Python workers of the executors, which need no jar and no
setting of Hadoop's. Option ``read.native`` says so, or leaves it to what is found:

1. The class of the scheme is on the driver: for S3, ``s3a`` of ``hadoop-aws``.
2. For S3: the user has configured it, by keys, a provider of keys, or an endpoint (``fs.s3a.*``).
   For Azure: there are settings of the account (``fs.azure.account.*``), which also name its host.
   Tidelake's own keys are never given to Hadoop, which shows its settings in many places.
3. Asked on the driver for a file of the first read from a store, it finds one of the same length.
   Names of files are unique, so another store whose bucket has the same name is not read in this
   one's place.

What was found is kept for each store, bucket and settings of the scheme: that Spark's scan reads
it, that a class is missing, that nothing is configured. Any other failure may pass, so it is
forgotten after a minute. The reason for Python workers stands in the plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.engine.scan import ReadContext, Split
from tidelake.engine.storage import FileIO, account_of, store_id
from tidelake.errors import UnsupportedError, shortened
from tidelake.options import declared

SPARK_SCHEMES = {"s3": "s3a", "gs": "gs", "az": "abfs", "hdfs": "hdfs"}
"""Scheme of ours -> the one of Hadoop's class."""
JARS = {
    "s3a": "hadoop-aws",
    "gs": "gcs-connector",
    "abfs": "hadoop-azure",
    "hdfs": "hadoop-client",
}
SETTINGS = {"abfs": "fs.azure."}
"""Prefix of the settings of a class, where it is not its scheme."""
AZURE_HOST = "dfs.core.windows.net"
_CONFIGURED_BY = (
    "access.key",
    "aws.credentials.provider",
    "security.credential.provider.path",
    "assumed.role.arn",
    "endpoint",
)
_DEFAULTS = "core-default.xml"
_QUICKLY = {
    # the question is answered or not: a read that waits for minutes helps nobody
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "10s",
    "fs.azure.io.retry.max.retries": "1",
    "fs.azure.http.connection.timeout": "5000",
    "fs.azure.http.read.timeout": "10000",
    "ipc.client.connect.timeout": "5000",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.max.retries.on.timeouts": "1",
}
HADOOP_ERRORS = (Py4JJavaError, PySparkException)
"""What Java raises comes as the first, but some of its classes as PySpark's own: a host that is
unknown is an ``IllegalArgumentException``."""
ERROR_TEXT_MAX = 160
FORGET_SECONDS = 60.0
"""For how long a failure that may pass is believed."""
_FOUND: dict[tuple[str, str, int, tuple[str, ...]], tuple[NativeStorage, float]] = {}
"""Answers by application, bucket, settings and store, each with the moment until which it holds."""


@dataclass(frozen=True, slots=True)
class NativeStorage:
    """What Spark's own scan can do with a storage.

    Parameters
    ----------
    root : str or None
        What Spark's name of a file has before the path: ``"s3a://bucket"``; None if Spark's scan
        does not read the storage.
    reason : str
        Why it does not.
    """

    root: str | None
    reason: str = ""

    @property
    def is_read(self) -> bool:
        """Whether Spark's scan reads files of it."""
        return self.root is not None

    def named(self, path: str) -> str:
        """Spark's name of a file. Requires: it reads the storage."""
        assert self.root is not None, self.reason
        return f"{self.root}{path}"


LOCAL = NativeStorage("")


def local_or_none(fileio: FileIO) -> NativeStorage:
    """What holds without a session: Spark reads paths that all machines see."""
    return NativeStorage(None, "the storage is remote") if fileio.is_remote else LOCAL


def native_storage(
    spark: SparkSession, context: ReadContext, splits: Iterable[Split]
) -> NativeStorage:
    """Find out whether Spark's own scan reads the files of a table.

    Parameters
    ----------
    context : ReadContext
        The table, with its option ``read.native``.

    Raises
    ------
    UnsupportedError
        ``read.native`` is ``always``, and Spark's scan does not reach the storage.

    Notes
    -----
    Runs on the driver. Sends at most one request: once for each store, bucket and its settings, or
    once a minute while it fails.
    """
    wanted = context.options.get(declared.READ_NATIVE)
    if wanted == "never":
        return NativeStorage(None, "read.native = never")
    if not context.fileio.is_remote:
        return LOCAL
    file = _some_file(context, splits)
    if file is None:
        return NativeStorage(None, "there is no file to read")
    found = _of_remote(spark, context, *file, is_asked=wanted == "always")
    if wanted == "always" and not found.is_read:
        message = (
            f"{context.uri} has 'read.native' = 'always', but Spark's own scan does not read its"
            f" files: {found.reason}. Give Spark the jars and settings of its file system, or set"
            " 'read.native' = 'auto'."
        )
        raise UnsupportedError(message, kind="native_read")
    return found


def _some_file(context: ReadContext, splits: Iterable[Split]) -> tuple[str, int] | None:
    for split in splits:
        for file in split.files:
            path = context.paths.data_file(split.partition, split.bucket, file)
            return path, file.file_size_bytes
    return None


def _of_remote(
    spark: SparkSession, context: ReadContext, path: str, size_bytes: int, *, is_asked: bool
) -> NativeStorage:
    scheme, _, rest = context.fileio.uri_of("/").partition("://")
    theirs = SPARK_SCHEMES.get(scheme)
    if theirs is None:
        return NativeStorage(None, f"Spark's scan of '{scheme}' is not supported")
    bucket, account = rest.rstrip("/"), account_of(context.fileio)
    if not hasattr(spark, "_jsparkSession"):
        if is_asked:
            host = f"@{account}.{AZURE_HOST}" if scheme == "az" else ""
            return NativeStorage(f"{theirs}://{bucket}{host}")
        return NativeStorage(None, "through Spark Connect Hadoop's settings are not known")
    # with the session's own settings, as Spark's scan takes it; this copy is ours
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    if scheme == "az":
        of_account = _azure_host(conf, account)
        if of_account is None:
            return NativeStorage(None, "fs.azure.account.* has nothing of the storage account")
        bucket = f"{bucket}@{of_account}"
    root = f"{theirs}://{bucket}"
    settings = conf.getPropsWithPrefix(SETTINGS.get(theirs, f"fs.{theirs}.")).hashCode()
    application = spark.sparkContext.applicationId
    key = (application, root, int(settings), store_id(context.fileio))
    known = _FOUND.get(key)
    if known is not None and context.env.clock.monotonic_seconds() < known[1]:
        return known[0]
    problem, stays = _problem(spark._jvm, conf, root, f"{root}{path}", size_bytes)
    found = NativeStorage(None, problem) if problem else NativeStorage(root)
    now = context.env.clock.monotonic_seconds()
    _FOUND[key] = found, math.inf if stays else now + FORGET_SECONDS
    return found


def _problem(jvm: Any, conf: Any, root: str, name: str, size_bytes: int) -> tuple[str, bool]:
    """Why Hadoop's file system does not find a file, or an empty text; and whether that stays."""
    scheme, _, bucket = root.partition("://")
    systems = jvm.org.apache.hadoop.fs.FileSystem
    try:
        systems.getFileSystemClass(scheme, conf)
    except HADOOP_ERRORS:
        return f"there is no file system '{scheme}' ({JARS[scheme]}) on Spark's class path", True
    if scheme == "s3a" and not _is_configured(conf, bucket):
        return "fs.s3a.* has no keys and no endpoint", True
    for setting, value in _QUICKLY.items():
        conf.set(setting, value)
    path = jvm.org.apache.hadoop.fs.Path(name)
    try:
        system = systems.newInstance(path.toUri(), conf)
        try:
            length = int(system.getFileStatus(path).getLen())
        finally:
            system.close()
    except HADOOP_ERRORS as error:
        return f"'{scheme}' did not find a file of it ({_words_of(error)})", False
    return (
        ("", True) if length == size_bytes else (f"'{scheme}' finds another store's files", False)
    )


def _azure_host(conf: Any, account: str) -> str | None:
    """The host of a storage account in Hadoop's settings of it; None if there are none."""
    names = [str(name) for name in conf.getPropsWithPrefix("fs.azure.account.")]
    if not account or not names:
        return None
    found = (re.search(rf"\.({re.escape(account)}\..+)", name) for name in names)
    hosts = {match[1] for match in found if match}
    default = f"{account}.{AZURE_HOST}"
    of_all = any(name in {"auth.type", "key"} for name in names)  # of whatever account
    if default in hosts or (not hosts and of_all):
        return default
    return min(hosts, default=None)


def _is_configured(conf: Any, bucket: str) -> bool:
    """Whether a user set what makes ``s3a`` reach a store."""
    names = (
        f"fs.s3a.{scope}{name}" for scope in ("", f"bucket.{bucket}.") for name in _CONFIGURED_BY
    )
    return any(
        conf.get(name) and _DEFAULTS not in (conf.getPropertySources(name) or ()) for name in names
    )


def _words_of(error: Py4JJavaError | PySparkException) -> str:
    told = error.java_exception.toString() if isinstance(error, Py4JJavaError) else error
    said = str(told).partition("\n")[0]
    return shortened(said.rpartition("org.apache.hadoop.")[2], ERROR_TEXT_MAX)
