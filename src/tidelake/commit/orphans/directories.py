"""The directories of a table in which orphan files may be, and the files in them.

1. ``manifest``, ``index``, ``statistics`` and the directories of buckets hold only files that
   metadata names. Each file there may be an orphan.
2. ``snapshot`` and ``changelog`` hold files that are found by their names, hints, and checksums of
   these, which Hadoop's local file system keeps beside them. Others may be orphans.
3. In ``tag``, ``consumer``, ``schema``, ``upkeep``, directories of partitions and the table's own
   only temporary files may be orphans: those of a put or a replace that was killed.
4. A branch has directories of the kinds 2 and 3; its data is in the table's.

Whatever has another name is left alone: files that users put beside a table, ``_SUCCESS`` and other
marks of partitions, Iceberg's ``metadata``. Source: Paimon's ``OrphanFilesClean`` (1.3.1), which
looks at the kinds 1 and 2.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelake.fileio import FileIO, FileStatus
from tidelake.metadata.paths import BRANCH_PREFIX, TablePaths

BUCKET_PREFIX = "bucket-"
MANAGED_BLOB_SUFFIX = ".managed.blob"
"""Files that tables of Paimon 2.x share among themselves."""
_TEMPORARY = re.compile(r"\..+\.tmp(\.crc)?|\.tidelake-[0-9a-f-]{36}\.tmp")
"""``.tidelake-<uuid>.tmp`` of ours, ``.<name>.<uuid>.tmp`` of Java Paimon."""
_LOG = re.compile(r"(snapshot|changelog)-[0-9]+|EARLIEST|LATEST")
_CHECKSUM = re.compile(r"\.(.+)\.crc")

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
    ]
)
"""Files of a table; paths are relative to its directory."""


class DirectoryKind(enum.Enum):
    """Which of a directory's files may be orphans."""

    ALL = "all"
    LOG = "log"
    TEMPORARY = "temporary"
    PARTITION = "partition"
    """Temporary files; and partitions and buckets are below it."""


@dataclass(frozen=True, slots=True)
class Directory:
    """One directory to look at. Picklable; a task of the job.

    Parameters
    ----------
    path : str
        Relative to the table's directory.
    depth : int
        Of a partition: the levels of partitions below it.
    """

    path: str
    kind: DirectoryKind
    depth: int = 0

    @property
    def size_bytes(self) -> int:
        """What it weighs beside others; how many files it has is not known before."""
        return 1


def is_log_file(name: str) -> bool:
    """Whether a file of ``snapshot`` or ``changelog`` is found by its name.

    Examples
    --------
    >>> is_log_file("snapshot-12"), is_log_file("EARLIEST"), is_log_file("snapshot-12.tmp")
    (True, True, False)
    """
    return _LOG.fullmatch(name) is not None


def table_directories(fileio: FileIO, paths: TablePaths) -> list[Directory]:
    """The directories of a table, those of partitions and branches as far as the first level.

    Three listings: of the table, of its branches.

    Raises
    ------
    StorageError
        A listing failed.
    """
    found = [Directory(name, DirectoryKind.ALL) for name in ("manifest", "index", "statistics")]
    found += _logs("")
    levels = len(paths.partition_keys)
    for status in fileio.list_dir(paths.location):
        if not status.is_dir:
            continue
        if levels and "=" in status.name:
            found.append(Directory(status.name, DirectoryKind.PARTITION, levels - 1))
        elif not levels and status.name.startswith(BUCKET_PREFIX):
            found.append(Directory(status.name, DirectoryKind.ALL))
    for status in fileio.list_dir(paths.branch_dir):
        if status.is_dir and status.name.startswith(BRANCH_PREFIX):
            found += _logs(f"branch/{status.name}/")
    return found


def _logs(base: str) -> list[Directory]:
    """Directories of one history: of the table itself, or of a branch."""
    logs = [Directory(f"{base}{name}", DirectoryKind.LOG) for name in ("snapshot", "changelog")]
    temporary = ("tag", "consumer", "schema", *(() if base else ("upkeep",)))
    return logs + [Directory(f"{base}{name}", DirectoryKind.TEMPORARY) for name in temporary]


def files_below(
    fileio: FileIO, location: str, directory: Directory, *, older_than_ms: int
) -> pa.Table:
    """List the files of a directory that may be orphans, and that are old enough.

    Parameters
    ----------
    older_than_ms : int
        A file that was changed then or later is left out, by the clock of the storage.

    Returns
    -------
    pyarrow.Table
        With the columns of :data:`FILES`.

    Raises
    ------
    StorageError
        A listing failed: nothing may be concluded of the rest.
    """
    names: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    for base, status in _walk(fileio, location, directory):
        if status.modified_ms < older_than_ms:
            names.append(f"{base}/{status.name}")
            sizes.append(status.size_bytes)
            times.append(status.modified_ms)
    return pa.table([names, sizes, times], schema=FILES)


def _walk(fileio: FileIO, location: str, directory: Directory) -> Iterator[tuple[str, FileStatus]]:
    """Files that may be orphans, each with its directory."""
    base, kind = directory.path, directory.kind
    listed = list(fileio.list_dir(f"{location}/{base}"))
    there = {status.name for status in listed}
    for status in listed:
        name = status.name
        if status.is_dir:
            if kind is DirectoryKind.PARTITION:
                below = _below(directory, name)
                if below is not None:
                    yield from _walk(fileio, location, below)
        elif kind is DirectoryKind.ALL:
            if not name.endswith(MANAGED_BLOB_SUFFIX):
                yield base, status
        elif kind is DirectoryKind.LOG:
            checksum = _CHECKSUM.fullmatch(name)
            owner = name if checksum is None else checksum[1]
            if not (is_log_file(owner) and owner in there):
                yield base, status
        elif _TEMPORARY.fullmatch(name):
            yield base, status


def _below(directory: Directory, name: str) -> Directory | None:
    """A directory within one of a partition; None if it is none of the table's."""
    path = f"{directory.path}/{name}"
    if directory.depth and "=" in name:
        return Directory(path, DirectoryKind.PARTITION, directory.depth - 1)
    if not directory.depth and name.startswith(BUCKET_PREFIX):
        return Directory(path, DirectoryKind.ALL)
    return None
