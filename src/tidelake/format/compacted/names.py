"""Names of changelog files that are parts of another file.

A file of several buckets is their changelog files, one after the other, byte for byte. The metadata
names each part as a file of its own bucket:

- ``bucket-3/compacted-changelog-<uuid>$3-<length>.cc-parquet`` is the file itself; its first
  `length` bytes are the part of bucket 3;
- ``bucket-5/compacted-changelog-<uuid>$3-<length>-<offset>-<part length>.cc-parquet`` is not a file
  of its own: it names bytes of the file above.

Java's ``CompactedChangelogPathResolver`` has the same rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.fileio import parent_of

PREFIX = "compacted-changelog-"
_NAME = re.compile(
    r"(?P<stem>compacted-changelog-[^$/.]+)\$(?P<bucket>\d+)-(?P<first>\d+)"
    r"(?:-(?P<offset>\d+)-(?P<length>\d+))?\.cc-(?P<format>[a-z]+)"
)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of a file's bytes that is a data file by itself."""

    path: str
    offset_bytes: int
    length_bytes: int


def whole_name(uuid: str, bucket: int, first_bytes: int, file_format: str) -> str:
    """Make the name of a new file.

    Parameters
    ----------
    uuid : str
        Any unique text without ``$``, ``.`` and ``/``.
    bucket : int
        The bucket of the first part, in whose directory the file lies.
    first_bytes : int
        Length of the first part.

    Examples
    --------
    >>> whole_name("6f2c", 3, 1000, "parquet")
    'compacted-changelog-6f2c$3-1000.cc-parquet'
    """
    return f"{PREFIX}{uuid}${bucket}-{first_bytes}.cc-{file_format}"


def part_name(whole: str, offset_bytes: int, length_bytes: int) -> str:
    """Make the name of a part; the first part has the file's own name.

    Examples
    --------
    >>> part_name("compacted-changelog-6f2c$3-1000.cc-parquet", 1000, 250)
    'compacted-changelog-6f2c$3-1000-1000-250.cc-parquet'
    """
    if offset_bytes == 0:
        return whole
    stem, _, suffix = whole.rpartition(".")
    return f"{stem}-{offset_bytes}-{length_bytes}.{suffix}"


def slice_of(path: str) -> FileSlice | None:
    """Find the bytes that a path names; None for the path of an ordinary file.

    Examples
    --------
    >>> slice_of("/t/bucket-5/compacted-changelog-6f2c$3-1000-1000-250.cc-parquet")
    FileSlice(path='/t/bucket-3/compacted-changelog-6f2c$3-1000.cc-parquet', offset_bytes=1000, \
length_bytes=250)
    >>> slice_of("/t/bucket-5/changelog-6f2c-0.parquet") is None
    True
    """
    directory, _, name = path.rpartition("/")
    if not name.startswith(PREFIX) or (found := _NAME.fullmatch(name)) is None:
        return None
    if found["offset"] is None:
        return FileSlice(path, 0, int(found["first"]))
    whole = f"{found['stem']}${found['bucket']}-{found['first']}.cc-{found['format']}"
    owner = f"{parent_of(directory)}/bucket-{found['bucket']}/{whole}"
    return FileSlice(owner, int(found["offset"]), int(found["length"]))
