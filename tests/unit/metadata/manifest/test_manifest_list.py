"""Manifest lists that are not what they should be are refused."""

import pytest
from unit.metadata.made import (
    PATHS,
    written,
)

from tidelake.errors import CorruptError
from tidelake.metadata.manifest.manifest_list import read_manifest_list, write_manifest_list


def test_a_list_of_another_size_is_refused():
    fileio, _, file = written()
    _, size = write_manifest_list(fileio, PATHS, "l", [file])
    assert read_manifest_list(fileio, PATHS, "l", size_bytes=size) == (file,)
    with pytest.raises(CorruptError, match=f"{size} bytes but should have {size + 1}"):
        read_manifest_list(fileio, PATHS, "l", size_bytes=size + 1)
