"""A file of a unique name is written once, however often the storage sends it."""

import pytest

from tidelake.errors import AlreadyExistsError
from tidelake.fileio import FaultMode, FaultyFileIO, MemoryFileIO
from tidelake.metadata.unique_file import write_unique


def test_a_put_that_the_storage_sent_twice_is_no_error():
    fileio = FaultyFileIO(MemoryFileIO(), {1: FaultMode.DUP})
    write_unique(fileio, "/t/a", b"ours")
    with pytest.raises(AlreadyExistsError):
        write_unique(fileio, "/t/a", b"another's")
