"""The memory storage keeps the contract."""

from __future__ import annotations

import pytest
from unit.fileio.contract import FileIOContract

from tidelake.fileio import MemoryFileIO


class TestMemoryFileIO(FileIOContract):
    @pytest.fixture
    def files(self):
        return MemoryFileIO()

    @pytest.fixture
    def root(self):
        return "/root-of-the-test"


def test_a_file_never_closed_stays_empty_under_its_name():
    files = MemoryFileIO()
    files.open_output("/a").write(b"lost")
    assert files.read_bytes("/a") == b""
