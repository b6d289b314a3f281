"""Success files of tags: with ``tag.create-success-file``, each tag has one while it is there.

They tell of a tag, and decide nothing: where one cannot be written or removed the tag counts all
the same, and a warning says so.

Source: Paimon's ``SuccessFileTagCallback`` (2.1). A tag that is renamed keeps its file here, under
the new name; there the old file stays behind.
"""

from __future__ import annotations

import logging

from tidelake.errors import CorruptError, TidelakeError
from tidelake.metadata.success_file import write_success_file
from tidelake.metadata.table_state import TableState
from tidelake.options import declared

_LOG = logging.getLogger("tidelake")


def tell_created(table: TableState, name: str) -> None:
    """Write the success file of a tag that was made or moved, if the table wants one."""
    if not table.options.get(declared.TAG_CREATE_SUCCESS_FILE):
        return
    path, now_ms = table.paths.tag_success_file(name), table.env.clock.now_ms()
    try:
        try:
            write_success_file(table.fileio, path, now_ms=now_ms)
        except CorruptError:  # of a writer that was killed
            table.fileio.delete(path)
            write_success_file(table.fileio, path, now_ms=now_ms)
    except TidelakeError as error:
        _LOG.warning("Tag '%s' is made, and has no success file %s: %s", name, path, error)


def tell_deleted(table: TableState, name: str) -> None:
    """Remove the success file of a tag that is gone."""
    if not table.options.get(declared.TAG_CREATE_SUCCESS_FILE):
        return
    path = table.paths.tag_success_file(name)
    try:
        table.fileio.delete(path)
    except TidelakeError as error:
        _LOG.warning("Tag '%s' is gone, and its success file %s stays: %s", name, path, error)
