"""Orphan files: files of a table that nothing names, found, put into quarantine, then removed.

A crash, a conflict or an error of the storage leaves them. They cost space and harm nobody, so the
one danger is to remove a file that is no orphan. What names a file is in
:mod:`tidelake.commit.orphans.named_files`, what is looked at in
:mod:`tidelake.commit.orphans.directories`, what waits in
:mod:`tidelake.commit.orphans.quarantine`. The job is :mod:`tidelake.table.jobs.orphans`.
"""

from tidelake.commit.orphans.directories import (
    FILES,
    Directory,
    files_below,
    is_log_file,
    table_directories,
)
from tidelake.commit.orphans.named_files import NamedFiles
from tidelake.commit.orphans.quarantine import OrphanQuarantine, QuarantineManifest

__all__ = [
    "FILES",
    "Directory",
    "NamedFiles",
    "OrphanQuarantine",
    "QuarantineManifest",
    "files_below",
    "is_log_file",
    "table_directories",
]
