"""What is asked of the client, step by step; each function is one call of ours.

They raise the client's errors. ``client`` is an ``hdfs_native.Client``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.fileio import _optional
from tidelake.fileio.file_io import (
    ByteRange,
    FileStatus,
    check_range,
    file_too_large,
    range_missing,
)


@dataclass(frozen=True, slots=True)
class NewFile:
    """How files are created.

    Parameters
    ----------
    replication, block_bytes : int or None
        None leaves it to the name node.
    umask : int
        Rights that they do not get.
    """

    replication: int | None
    block_bytes: int | None
    umask: int

    @property
    def directory_mode(self) -> int:
        """Rights of a new directory."""
        return 0o777 & ~self.umask

    def options(self, *, create_parent: bool) -> Any:
        """The client's options; a file that exists is never overwritten."""
        return _optional.hdfs_native().WriteOptions(
            block_size=self.block_bytes,
            replication=self.replication,
            permission=0o666 & ~self.umask,
            overwrite=False,
            create_parent=create_parent,
        )


def is_there(client: Any, path: str) -> bool:
    """Whether a file or directory exists."""
    try:
        client.get_file_info(path)
    except FileNotFoundError:
        return False
    return True


def read_all(client: Any, path: str, bytes_max: int) -> bytes:
    """Read a whole file; its length comes first."""
    reader = client.read(path)
    size = len(reader)
    if size > bytes_max:
        raise file_too_large(path, size, bytes_max)
    data = bytes(reader.read_range(0, size)) if size else b""
    if len(data) != size:
        raise range_missing(path, 0, size, len(data))
    return data


def check_ranges(path: str, size: int, ranges: Sequence[ByteRange]) -> None:
    """Refuse ranges beyond a file's end, at which the client would panic."""
    for offset, length in ranges:
        if offset + length > size:
            raise range_missing(path, offset, length, max(0, size - offset))


def read_part(reader: Any, path: str, offset: int, length: int) -> bytes:
    """Read a range of an open file, exactly."""
    if not length:
        return b""
    data = bytes(reader.read_range(offset, length))
    check_range(path, offset, length, len(data))
    return data


def list_all(client: Any, path: str) -> list[FileStatus]:
    """List a directory; a file lists as itself alone, with an empty name."""
    prefix = path.rstrip("/")
    return [
        FileStatus(
            name=found.path[len(prefix) :].lstrip("/"),
            size_bytes=0 if found.isdir else found.length,
            is_dir=found.isdir,
            modified_ms=found.modification_time,
        )
        for found in client.list_status(path, False)
    ]


def create_file(client: Any, path: str, new: NewFile, *, create_parent: bool) -> Any:
    """Open a new file."""
    return client.create(path, new.options(create_parent=create_parent))


def close_file(writer: Any, data: bytes, length: int) -> None:
    """Write what is left and close a file, its bytes on the disks of its data nodes.

    Erasure-coded files cannot be synced: closing makes them whole, and the data nodes' systems
    write them back as they like.
    """
    if data:
        writer.write(data)
    if length:
        with contextlib.suppress(NotImplementedError):
            writer.hsync()
    writer.close()


def write_file(client: Any, path: str, data: bytes, new: NewFile, *, create_parent: bool) -> None:
    """Write a whole new file, durably."""
    writer = create_file(client, path, new, create_parent=create_parent)
    close_file(writer, data, len(data))
