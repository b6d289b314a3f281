"""A position moves anywhere behind 0, and reads end where the file does."""

from __future__ import annotations

import io

import pyarrow as pa

from tidelake.fileio.files import PositionedFile, open_tailed

DATA = bytes(range(20))


class Bytes(PositionedFile):
    def __init__(self):
        super().__init__(len(DATA))
        self.asked = []

    def read_at(self, offset, length):
        self.asked.append((offset, length))
        return DATA[offset : offset + length]


def test_reads_are_ranges_within_the_file():
    file = Bytes()
    assert file.read(3) == DATA[:3]
    assert file.seek(-4, io.SEEK_END) == 16
    assert file.read(9) == DATA[16:]
    assert file.read() == b""
    assert file.seek(30) == file.tell() == 30
    assert file.read(1) == b""
    assert file.seek(-90, io.SEEK_CUR) == 0, "else it would read before its first byte"
    assert file.read() == file.read() + DATA
    assert file.asked == [(0, 3), (16, 4), (0, 20)]
    with pa.PythonFile(Bytes(), mode="r") as source:
        assert source.size() == len(DATA)
        source.seek(5)
        assert source.read(2) == DATA[5:7]


def test_the_end_of_a_file_that_came_with_its_opening_is_not_asked_for():
    asked = []

    def read(offset, length):
        asked.append((offset, length))
        return DATA[offset : offset + length]

    with open_tailed(len(DATA), DATA[12:], read) as source:
        source.seek(12)
        assert source.read(5) == DATA[12:17]
        assert source.read() == DATA[17:]
        source.seek(11)
        assert source.read(3) == DATA[11:14]
    assert asked == [(11, 3)]
