"""What HDFS keeps of a FileIO's promises: all, but an open directory does not follow a rename."""

from __future__ import annotations

import pytest
from unit.fileio.contract import FileIOContract

from tidelake.errors import NotFoundError, StorageRefusedError


class HdfsContract(FileIOContract):
    """On the name node in memory, and on a real cluster (``tests/stores/hdfs``)."""

    def test_a_directory_is_held(self, files):
        assert files.is_remote
        assert files.holds_directories

    def check_nothing_is_in_it(self, files, path, held):
        """A name node does not say whether a directory was removed or moved."""
        with pytest.raises(StorageRefusedError, match="was moved or removed") as caught:
            files.exists(path, within=held)
        assert caught.value.kind == "directory_moved"

    def check_nothing_is_deleted(self, files, path, held):
        """And that is an error, since it may be there elsewhere."""
        with pytest.raises(StorageRefusedError, match="was moved or removed") as caught:
            files.delete(path, within=held)
        assert caught.value.kind == "directory_moved"

    def test_a_directory_that_is_held_is_the_same_under_another_name(self, files, root):
        """It is not known any more, and the one that has its path by then is left alone."""
        files.make_dirs(f"{root}/t/snapshot")
        with files.open_dir(f"{root}/t/snapshot") as held:
            files.put_if_absent(f"{root}/t/snapshot/a", b"1", within=held)
            files.move_dir(f"{root}/t", f"{root}/u")
            files.make_dirs(f"{root}/t/snapshot")
            with pytest.raises(NotFoundError, match="t/snapshot"):
                files.put_if_absent(f"{root}/t/snapshot/a", b"2", within=held)
            with pytest.raises(NotFoundError, match="t/snapshot"):
                files.replace(f"{root}/t/snapshot/a", b"2", within=held)
            self.check_nothing_is_deleted(files, f"{root}/t/snapshot/a", held)
        assert files.read_bytes(f"{root}/u/snapshot/a") == b"1"
        assert [s.name for s in files.list_dir(f"{root}/u/snapshot")] == ["a"]
        assert files.list_dir(f"{root}/t/snapshot") == []
