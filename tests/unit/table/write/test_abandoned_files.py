"""Files of a write that was given up are deleted, as far as the storage lets them go."""

from __future__ import annotations

from unit.metadata.made import EMPTY_ROW, PATHS, data_file

from tidelake import StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import CommitMessage
from tidelake.table.write.table_writer import delete_new_files


class Stubborn(MemoryFileIO):
    """Does not let go of one file."""

    def delete(self, path, **held):
        if path.endswith("new-0"):
            raise StorageError(f"Could not delete {path}.", path=path)
        return super().delete(path, **held)


def test_one_that_cannot_be_deleted_stays_and_hides_no_error():
    fileio = Stubborn()
    lifted, merged = data_file("lifted", level=0), data_file("merged", level=0)
    message = CommitMessage(
        EMPTY_ROW,
        0,
        1,
        new_files=(data_file("new-0"), data_file("new-1")),
        compact_before=(lifted, merged, data_file("new-1")),
        compact_after=(data_file("lifted", level=5), data_file("new-1", level=5), data_file("out")),
    )
    for name in ("lifted", "merged", "new-0", "new-1", "out"):
        fileio.write_once(PATHS.data_file(EMPTY_ROW, 0, name), b"")
    delete_new_files(fileio, PATHS, [message])
    left = {s.name for s in fileio.list_dir(PATHS.bucket_dir(EMPTY_ROW, 0))}
    assert left == {"lifted", "merged", "new-0"}
