"""A warehouse in memory for each test: histories are long, and disks slow."""

from __future__ import annotations

import pytest

import tidelake
from tidelake.fileio import MemoryFileIO


@pytest.fixture
def catalog():
    return tidelake.open("/warehouse", fileio=MemoryFileIO())
