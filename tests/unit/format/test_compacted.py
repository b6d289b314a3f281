"""A part of a file reads as a file of its own."""

from __future__ import annotations

import io

import pytest

from tidelake.errors import CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.format.compacted import FileSlice, open_slice, part_name, slice_of, whole_name

WHOLE = "/t/bucket-1/compacted-changelog-u$1-4.cc-orc"


@pytest.fixture
def fileio():
    files = MemoryFileIO()
    files.write_once(WHOLE, b"0123456789")
    return files


def test_it_has_its_own_beginning_and_end(fileio):
    with open_slice(fileio, FileSlice(WHOLE, 4, 3)) as part:
        assert part.size() == 3
        assert part.read() == b"456"
        assert part.read() == b""
        part.seek(1)
        assert (part.tell(), part.read(1)) == (1, b"5")
        part.seek(-1, io.SEEK_END)
        assert part.read(10) == b"6"


def test_the_file_must_hold_it(fileio):
    with pytest.raises(CorruptError, match="10 bytes long and a part of it ends at byte 11"):
        open_slice(fileio, FileSlice(WHOLE, 4, 7))


def test_names_of_partitions_and_buckets_lead_to_the_file():
    whole = whole_name("u", 1, 4, "orc")
    assert slice_of(f"/t/p=1/bucket-1/{whole}") == FileSlice(f"/t/p=1/bucket-1/{whole}", 0, 4)
    part = part_name(whole, 4, 6)
    assert slice_of(f"/t/p=1/bucket-7/{part}") == FileSlice(f"/t/p=1/bucket-1/{whole}", 4, 6)


@pytest.mark.parametrize(
    "name",
    [
        "changelog-u-0.parquet",
        "compacted-changelog-u-0.parquet",  # a prefix that a user chose
        "compacted-changelog-u$1.cc-parquet",
        "compacted-changelog-u$1-4-2.cc-parquet",
        "compacted-changelog-u$1-4.parquet",
    ],
)
def test_other_names_are_of_ordinary_files(name):
    assert slice_of(f"/t/bucket-0/{name}") is None
